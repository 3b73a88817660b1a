/*
 * Where a peer stands in a run: the working copy W with its moments (trainer), the global replica
 * G, what lies between them (error feedback), and the ledger from where this peer began.  The steps
 * of a round as plain calls; peer/worker.c runs them on a thread.  Single-threaded.
 *
 * A round: standing_ready, standing_step as often as the plan says, standing_cut, standing_save,
 * then, when the round's records have come, standing_apply.  Between rounds W is G; what was cut
 * and not listed by the ledger stays in the error feedback, what was trained and never cut is
 * dropped (its data is given to others).
 */
#ifndef PEER_STANDING_H
#define PEER_STANDING_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "net/roster.h"
#include "net/sign.h"
#include "peer/trainer.h"
#include "round/ledger.h"
#include "round/plan.h"

struct standing;

struct standing_config {
	const struct spec *spec; /* borrowed, as corpus and key; all outlive the object */
	const struct corpus *corpus;
	const struct sign_key *key;
	uint32_t member; /* own number */
	const char *dir; /* folder of the saved states */
	const char *backend;
	unsigned threads;
	uint64_t memory;         /* as trainer.h has it */
	bool (*stop)(void *arg); /* as trainer.h has it */
	void *arg;
};

/* Checks the spec's rule and codec, opens the device, takes the memory.  Stands nowhere yet. */
enum err standing_new(
	const struct standing_config *config, struct standing **out, struct why *why) MUST_CHECK;
void standing_free(struct standing *s); /* NULL-safe */
struct trainer *standing_trainer(struct standing *s);

/* ---- beginning.  After a failure it stands nowhere. */

/* This peer's own newest good state of this run, also in the middle of a round: exactly where it
 * was when it saved.  ERR_missing when there is none. */
enum err standing_resume(struct standing *s, struct why *why) MUST_CHECK;
/* A snapshot that must stand exactly at `at` (ERR_fork); moments are zero and, but for round 0, the
 * learning rate will ramp.  Saves; states that were there before are removed. */
enum err standing_begin(struct standing *s, const char *snapshot, const struct ledger_head *at,
	struct why *why) MUST_CHECK;
/* Where the replica is; all zero while it stands nowhere, and so is the state. */
struct ledger_head standing_head(const struct standing *s);
struct hash standing_state(const struct standing *s); /* of all shards of the replica */

/* ---- a round.  ERR_state when it stands nowhere, or on entries that no signed head confirms yet.
 */

/* ---- rounds that overlap: training goes on while what was cut is on its way, and W keeps what it
 * has made since.  standing_follow takes the place of ready, go that of step, cut_on that of cut.
 */

/* A plan that starts from the head.  What was trained on and not listed yet goes on where its data
 * is this peer's still; else W becomes G.  *cut: what is in flight answers this very plan, and is
 * to be handed over instead of cutting. */
enum err standing_follow(
	struct standing *s, const struct plan *plan, bool *cut, struct why *why) MUST_CHECK;
bool standing_follow_left(const struct standing *s); /* for another step */
/* Steps were made since the last cut, and the round of the plan is not in the ledger yet. */
bool standing_follow_uncut(const struct standing *s);
/* step: since this plan came, from 0, for the learning rate. */
enum err standing_follow_step(
	struct standing *s, uint64_t step, double *loss, struct why *why) MUST_CHECK;
/* Cuts the shards whose turn it is with all that was trained on and not listed for them.  After a
 * failure it stands nowhere.
 */
enum err standing_follow_cut(struct standing *s, struct why *why) MUST_CHECK;
/* The loss of G, whatever W is; as trainer_validate. */
enum err standing_follow_validate(struct standing *s, uint64_t max_windows,
	struct trainer_validation *out, struct why *why) MUST_CHECK;

/* What was cut last, and is not listed yet, is the answer to this very plan: hand it over again
 * instead of training. */
bool standing_answers(const struct standing *s, const struct plan *plan);
/* For a plan that starts from the head (else ERR_wrong_parent): W becomes G, and what was cut
 * before and never listed is given up to the error feedback. */
enum err standing_ready(struct standing *s, const struct plan *plan, struct why *why) MUST_CHECK;
/* The learning rate of the next inner step: step (from 0) of plan->steps.  A joiner's ramps over
 * its first ten steps. */
double standing_lr(const struct standing *s, const struct plan *plan, uint64_t step);
/* One inner step on the plan's data; errors as trainer_step. */
enum err standing_step(struct standing *s, const struct plan *plan, uint64_t step, double *loss,
	struct why *why) MUST_CHECK;
/* Cut the shards whose turn it is after so many steps of the plan.  After a failure it stands
 * nowhere. */
enum err standing_cut(
	struct standing *s, const struct plan *plan, uint64_t steps, struct why *why) MUST_CHECK;
/* How many values of a chunk the cuts from now on keep, from 1 to the spec's; 0: the spec's. */
void standing_keep(struct standing *s, uint32_t k);
/* The contribution to a shard that is in flight, sealed; NULL when there is none.  Borrowed until
 * the next call that is not const. */
const uint8_t *standing_sent(const struct standing *s, uint32_t shard, size_t *len);

struct standing_record { /* as round/record.h encodes it */
	const uint8_t *bytes;
	size_t len;
};
/* The next entries with their updates, whole rounds: verifies every signature by the roster,
 * applies, compares state hashes, joins the working copy.  They lead to head, or, when the last one
 * is before it, are a piece of the way there: then what follows must lead to it before anything
 * else is done.  Refused with nothing changed: ERR_fork, ERR_shape, ERR_syntax and the like for
 * what does not follow from here, ERR_unknown_peer when the roster lacks a contributor.  After a
 * failure while applying it stands nowhere: resume. */
enum err standing_apply(struct standing *s, const struct standing_record *records, size_t n,
	const struct ledger_head *head, const struct roster *roster, struct why *why) MUST_CHECK;
/* The same in parts, so that training goes on beside it: _work takes the entries of the next round
 * into ledger and replica, on any thread, while only standing_follow_step and _left are called on
 * the one that trains; _join, when it is done, takes them into W there and says whether there is
 * more to work on; _end gives what standing_apply gives, and frees.  What is given is borrowed
 * until then. */
struct standing_apply;
struct standing_apply *standing_apply_new(struct standing *s, const struct standing_record *records,
	size_t n, const struct ledger_head *head, const struct roster *roster);
void standing_apply_work(struct standing_apply *a);
bool standing_apply_join(struct standing_apply *a);
enum err standing_apply_end(struct standing_apply *a, struct why *why) MUST_CHECK;
/* Whether a head was signed for where it stands. */
bool standing_confirmed(const struct standing *s);
uint64_t standing_listed(const struct standing *s); /* own tokens that were listed, since _new */

/* Everything that an exact resume needs; the two newest states are kept.  ERR_state after steps
 * that were not cut. */
enum err standing_save(struct standing *s, struct why *why) MUST_CHECK;

#endif
