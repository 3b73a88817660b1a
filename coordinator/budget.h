/*
 * What a member is given in a round, and whether it is given anything.  Speed follows from when a
 * member answers, and nobody can see from here whether it worked: so a plan is bounded by what
 * the run needs, and who held a round up is left out of the next ones.  Pure.
 */
#ifndef COORDINATOR_BUDGET_H
#define COORDINATOR_BUDGET_H
#include <stdbool.h>
#include <stdint.h>
#include "model/spec.h"

/* Inner steps to ask for, of a member that does so many tokens per second (0: not known yet): timed
 * rounds hold at most a small part of the run's tokens for each member. */
uint64_t budget_steps(const struct spec *s, double speed);
/* Sequences to hand out for so many steps: timed rounds are ended by time, not by the data. */
uint64_t budget_sequences(const struct spec *s, uint64_t steps);
/* Where rounds overlap: what a stream holds at most, for this round and for those in which no plan
 * comes; not more than a small part of the run. */
uint64_t budget_reserve(const struct spec *s, uint64_t steps);

/* Rounds that wait for a member which is there and does not deliver cost everybody.  Each one
 * doubles for how long it is left out; what it delivers makes it equal again. */
struct budget_patience {
	uint32_t held_up;  /* in a row */
	uint64_t left_out; /* of the rounds before this one */
};
void budget_held_up(struct budget_patience *p, uint64_t round);
void budget_delivered(struct budget_patience *p);
bool budget_welcome(const struct budget_patience *p, uint64_t round);

#endif
