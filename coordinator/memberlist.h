/*
 * The members that the round machine knows, by their number on the roster, and how many of them are
 * in which state.  Pure; times as in rounds.h.
 */
#ifndef COORDINATOR_MEMBERLIST_H
#define COORDINATOR_MEMBERLIST_H
#include <stdbool.h>
#include <stdint.h>
#include "coordinator/budget.h"
#include "coordinator/memberstate.h"
#include "round/span.h"

#define ROUNDS_MEMBERS_MAX 16384u

struct rounds_member {
	enum member_state state;
	bool known;
	uint64_t since_ns; /* of the state */
	bool assigned;     /* has a part in the open round (also while its link is down) */
	struct span spans[SPAN_MAX]; /* its stream (stream.h) */
	uint32_t n_spans;
	uint64_t listed[SPEC_FRAGMENTS_MAX]; /* of it, by fragment (round/turns.h) */
	uint64_t steps;                      /* inner steps asked for */
	double seconds;                      /* timed: until its contribution is cut */
	uint64_t steps_done;                 /* as its heartbeats say */
	uint32_t shards_in;
	uint64_t tokens_in;    /* what the accepted contribution claims */
	uint64_t sequences_in; /* the same in sequences */
	struct budget_patience patience;
	uint32_t late;       /* overlap: rounds in a row that were closed without it */
	uint64_t counted_ns; /* overlap: when it was in last, or given its stream */
	bool was_in;         /* the round before: the next one waits for it to apply that */
	bool near;           /* it has almost caught up: the next round waits a little for it */
	double speed;        /* tokens per second while computing; 0: not known yet */
};

struct memberlist {
	struct rounds_member *at; /* by number; those not known are zero */
	uint32_t n, cap;
	uint32_t counts[MEMBER_STATES];
};

void memberlist_release(struct memberlist *l);
/* Makes it known, away.  One that is known stays as it is; a number above the limit is ignored. */
void memberlist_add(struct memberlist *l, uint32_t member, uint64_t now);
struct rounds_member *memberlist_find(const struct memberlist *l, uint32_t member); /* or NULL */
/* The one setter of a state; a move that is not legal is none. */
void memberlist_move(struct memberlist *l, uint32_t member, enum member_state to, uint64_t now);

/* Ready, and not left out of this round for having held others up. */
uint32_t memberlist_welcome(const struct memberlist *l, uint64_t round);
/* In the last round and still linked, but it is not applied there yet. */
uint32_t memberlist_applying(const struct memberlist *l);
/* About to reach the head: without waiting for them a newcomer would run behind rounds shorter than
 * its catching up. */
uint32_t memberlist_near(const struct memberlist *l);
/* The next ready one after a number, around; UINT32_MAX: none is. */
uint32_t memberlist_next_ready(const struct memberlist *l, uint32_t after);

#endif
