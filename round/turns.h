/*
 * Shards take turns where round.fragments is more than 1 (the fragments of Streaming DiLoCo): in
 * round r those shards are exchanged whose number is r - 1 modulo the number of fragments; the
 * others have an entry with nothing in it.  Training goes on over all of them, so each fragment has
 * come to another place in the data that its member has: listed[f] counts the numbers at the
 * beginning of the member's list that the ledger lists for fragment f.  Pure.
 */
#ifndef ROUND_TURNS_H
#define ROUND_TURNS_H
#include <stdbool.h>
#include <stdint.h>
#include "compress/rate.h"
#include "model/spec.h"
#include "round/span.h"

uint32_t turns_fragments(const struct spec_round *r); /* at least 1 */
/* The fragment of a round, which is also the first of its shards. */
uint32_t turns_fragment(const struct spec_round *r, uint64_t round);
bool turns_has(const struct spec_round *r, uint64_t round, uint32_t shard);
/* How many of the model's shards it has. */
uint32_t turns_shards(const struct spec_round *r, uint64_t round, uint32_t n_shards);

/* How far the fragment is that is furthest: what lies before was handed in at least in part. */
uint64_t turns_most(const uint64_t listed[static SPEC_FRAGMENTS_MAX]);
/* What every fragment has leaves the list at the front; returns how many spans are left. */
uint32_t turns_settle(const struct spec_round *r, struct span *spans, uint32_t n,
	uint64_t listed[static SPEC_FRAGMENTS_MAX]);
/* When the list is given up: how many numbers before turns_most are missing, summed over the
 * model's shards.  They are given to nobody else, since some shards have them. */
uint64_t turns_missing(const struct spec_round *r, uint32_t n_shards,
	const uint64_t listed[static SPEC_FRAGMENTS_MAX]);

/* What a rate is asked for (n, share): the parameters of the largest fragment, and the part of a
 * round that their transfer may take, a tenth of the time from one turn to the next. */
void turns_rate(const struct spec_round *r, uint32_t n_shards, const uint64_t *params,
	struct rate_ask *ask);

#endif
