/*
 * The round state machine: which members work on what, when a round opens and closes.  Pure: events
 * and the time go in, actions come out; no clock, socket, disk or randomness.  Same events in the
 * same order: same actions.  Times are nanoseconds of any monotonic clock.  Members are named by
 * their number on the roster.
 * A round opens when enough members are ready, closes when all or a quorum are in and the others
 * are late or lost, and is opened again when nobody is left in it; roundstate.h has the moves.
 */
#ifndef COORDINATOR_ROUNDS_H
#define COORDINATOR_ROUNDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "coordinator/actions.h"
#include "coordinator/memberlist.h"
#include "coordinator/roundstate.h"
#include "model/spec.h"
#include "round/span.h"

struct rounds;

struct rounds_config {
	const struct spec *spec; /* borrowed */
	uint32_t n_shards;
	uint64_t first_round, ledger_tokens, cursor; /* where the ledger stands */
	uint64_t voided;                             /* as rounds_voided */
	uint64_t now;
};

struct rounds *rounds_new(const struct rounds_config *config);
void rounds_free(struct rounds *r); /* NULL-safe */
/* Sequence numbers that were handed out and not done, as they were stored. */
void rounds_return_span(struct rounds *r, struct span s);
/* The same for a member's stream (spans, listed). */
void rounds_return_stream(struct rounds *r, const struct rounds_member *was);
/* After a restart: the plan that was open (spans, listed, steps); members are away until they come
 * back, and may still deliver. */
void rounds_restore_open(struct rounds *r, uint32_t member, const struct rounds_member *was);
void rounds_restored(struct rounds *r, uint64_t now);

/* ---- events.  A number above the limit or an event that the state does not allow is ignored. */
void rounds_on_joined(struct rounds *r, uint32_t member, uint64_t now); /* is on the roster */
void rounds_on_linked(
	struct rounds *r, uint32_t member, bool at_head, uint64_t now); /* said hello */
/* Linked and only a round or two behind: the next round waits a moment for it, where it must
 * wait for anybody at all. */
void rounds_on_near(struct rounds *r, uint32_t member, uint64_t now);
void rounds_on_at_head(
	struct rounds *r, uint32_t member, uint64_t now); /* reported the newest state */
void rounds_on_lost(struct rounds *r, uint32_t member, uint64_t now);
void rounds_on_gone(struct rounds *r, uint32_t member, uint64_t now);
void rounds_on_progress(
	struct rounds *r, uint32_t member, uint64_t steps_done, double tokens_per_s, uint64_t now);
/* The contribution to one of the round's shards passed the gate.  sequences is the length of what
 * it was trained on, the same for all shards whose turn it is.  False: not asked for (not assigned,
 * another shard said another length, already in). */
bool rounds_on_contribution(struct rounds *r, uint32_t member, uint64_t sequences, uint64_t now);
/* What it delivered was with somebody who has lost it, and does not come again: it has no part in
 * the round after all, open or closing, and is not to blame.  A round that closes with nobody is
 * abandoned. */
void rounds_on_withdrawn(struct rounds *r, uint32_t member, uint64_t now);
/* The closing round is about to be committed: the numbers that members which are in did not come to
 * go back to the pool.  rounds_on_committed does it too, after what is to be stored with it. */
void rounds_return_rest(struct rounds *r);
void rounds_on_committed(struct rounds *r, uint64_t ledger_tokens, uint64_t now);
void rounds_on_last_validation(struct rounds *r, uint64_t now);
void rounds_on_pause(
	struct rounds *r, bool paused, uint64_t now); /* the operator: no new round opens */
void rounds_tick(struct rounds *r, uint64_t now);

/* The next thing to do, ROUNDS_none when there is nothing; to be called until then after every
 * event. */
struct rounds_action rounds_next(struct rounds *r);
/* When rounds_tick wants to be called at the latest; UINT64_MAX: only events matter. */
uint64_t rounds_ask_deadline(const struct rounds *r);

/* ---- asking */
enum rounds_state rounds_ask_state(const struct rounds *r);
uint64_t rounds_ask_round(const struct rounds *r);   /* the open one, or the next to open */
uint32_t rounds_ask_members(const struct rounds *r); /* numbers are below this */
const struct rounds_member *rounds_ask_member(const struct rounds *r, uint32_t member);
uint32_t rounds_ask_count(const struct rounds *r, enum member_state s);
uint64_t rounds_ask_cursor(const struct rounds *r); /* the next fresh sequence number */
const struct span *rounds_ask_pool(
	const struct rounds *r, size_t *n); /* returned, not handed out again yet */
/* Numbers that some shards have and others never will, since their member left before the others'
 * turn; summed over the shards. */
uint64_t rounds_ask_voided(const struct rounds *r);
uint64_t rounds_ask_planned_tokens(
	const struct rounds *r); /* of the open round, all members together */
uint64_t rounds_ask_opened_ns(const struct rounds *r);
bool rounds_ask_paused(const struct rounds *r);
/* How many members have still to apply the last round before the next one opens, and until when
 * they are waited for. */
uint32_t rounds_ask_applying(const struct rounds *r, uint64_t *until_ns);
bool rounds_ask_asked_last(const struct rounds *r); /* a member was asked for the final loss */

#endif
