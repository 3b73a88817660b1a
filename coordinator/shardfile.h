/*
 * The replica on disk, one file for each shard and round: DIR/shard-N-round-R.state, a statefile of
 * kind "shard" with meta {"round", "shard"} and the sections of round/shardstate.h.  The next
 * round's files are written beside the present ones; which round counts is what the store says, and
 * the sweep removes the rest.  Memory holds one shard at a time.  One thread.
 */
#ifndef COORDINATOR_SHARDFILE_H
#define COORDINATOR_SHARDFILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "model/graph.h"
#include "model/hfmodel.h"
#include "model/spec.h"
#include "round/rule.h"
#include "round/shardstate.h"

struct shardfile {
	const char *dir; /* borrowed, as everything here */
	struct hash run;
	const struct rule_row *rule;
	uint32_t n_shards;
	const uint64_t *n; /* values of each shard */
};

/* out is inited here; released by the caller on success. */
enum err shardfile_load(const struct shardfile *f, uint32_t shard, uint64_t round,
	struct shardstate *out, struct why *why) MUST_CHECK;
enum err shardfile_save(
	const struct shardfile *f, const struct shardstate *s, struct why *why) MUST_CHECK;
/* The state of the round before is also that of this one: a second name of the same file. */
enum err shardfile_carry(
	const struct shardfile *f, uint32_t shard, uint64_t round, struct why *why) MUST_CHECK;
/* Removes every shard's file of another round, and what was half written.  What cannot be removed
 * stays. */
void shardfile_sweep(const struct shardfile *f, uint64_t round);

/* Round 0 of all shards: from the seed, or init's values when that is not NULL (it must suit the
 * spec).  states receives the hash of each. */
enum err shardfile_start(const struct shardfile *f, const struct graph *g, const struct spec *spec,
	const struct hfmodel *init, struct hash *states, struct why *why) MUST_CHECK;

#endif
