/*
 * For how long the round machine waits, and for what: every wait has an end, and where something
 * was seen before, the end follows from what was seen.  Pure; times as in rounds.h.
 */
#ifndef COORDINATOR_WAITS_H
#define COORDINATOR_WAITS_H
#include <stdbool.h>
#include <stdint.h>
#include "coordinator/arrivals.h"
#include "coordinator/memberstate.h"
#include "model/spec.h"

struct waits {
	const struct spec_round *spec;     /* borrowed */
	struct arrivals finished, applied; /* offsets from a round's opening, and from its close */
	uint64_t opened_ns, closed_ns;     /* of the open round; of the one before */
	uint64_t quorum_ns;                /* when enough were in; 0: not yet */
	uint64_t restarted_ns; /* after this process was away, links may come back until later */
	uint64_t asked_ns;     /* for the last loss */
};

/* How long a round takes until a member is in. */
uint64_t waits_length(const struct waits *w);
/* Timed: the part of the open round's time that is left; below 0 when it is over. */
double waits_left(const struct waits *w, uint64_t now);
/* Until when a member that is not in is waited for, which is in this state since then; length:
 * waits_length. */
uint64_t waits_member(
	const struct waits *w, enum member_state state, uint64_t since_ns, uint64_t length);
/* Until when the next round waits for members of the last one to apply it. */
uint64_t waits_settle(const struct waits *w);
/* The same for newcomers that have almost caught up. */
uint64_t waits_welcome(const struct waits *w);
/* Until when the last loss is waited for. */
uint64_t waits_answer(const struct waits *w);

#endif
