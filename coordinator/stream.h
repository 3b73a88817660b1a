/*
 * A member's stream: the sequence numbers that it has and the ledger does not list yet, in the
 * order in which it trains on them.  Where rounds overlap a stream goes on from one round to the
 * next: what was listed leaves it at the front, fresh numbers come at the end, and some rounds'
 * worth of reserve is in it for the time in which the coordinator does not answer.  Pure.
 */
#ifndef COORDINATOR_STREAM_H
#define COORDINATOR_STREAM_H
#include <stdint.h>
#include "coordinator/memberlist.h"
#include "coordinator/spanpool.h"
#include "model/spec.h"

/* Gives a member what its steps need: rounds that overlap add to its stream, with a reserve; others
 * begin a new one. */
void stream_fill(const struct spec *s, struct spanpool *pool, struct rounds_member *m);
/* How many of its numbers nothing was handed in for yet. */
uint64_t stream_ahead(const struct rounds_member *m);
/* Everything but the first so many, and but what was handed in at least for some shards, goes back
 * to the pool. */
void stream_return(struct spanpool *pool, const struct rounds_member *m, uint64_t after);
/* What is left of it when this round, which closes, is in the ledger: *out is *m with that. */
void stream_rest(const struct spec_round *r, uint64_t round, const struct rounds_member *m,
	struct rounds_member *out);

#endif
