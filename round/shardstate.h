/*
 * The replicated state of one shard at a round: parameters, and momentum where the rule keeps one.
 * Its hash is SHA-256 over u32 shard, u64 n, u32 1 if there is momentum else 0, the parameters and
 * the momentum as float32, all little-endian; that is what ledger entries list.  A round in which
 * nobody contributed to the shard leaves state and hash as they were.
 */
#ifndef ROUND_SHARDSTATE_H
#define ROUND_SHARDSTATE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "model/statefile.h"
#include "round/rule.h"
#include "round/update.h"

struct shardstate {
	uint32_t shard;
	uint64_t round; /* the last one applied; 0 at the start */
	size_t n;
	float *params;
	float *momentum; /* NULL when the rule keeps none */
};

/* Zeroed arrays, round 0; ERR_nomem. */
enum err shardstate_init(
	struct shardstate *s, uint32_t shard, size_t n, const struct rule_row *rule) MUST_CHECK;
void shardstate_release(struct shardstate *s); /* NULL-safe, idempotent */
struct hash shardstate_hash(const struct shardstate *s);
/* One hash over the state hashes of all n shards: what reports, replay and export show. */
struct hash shardstate_hash_all(const struct hash *states, uint32_t n);

/* next (inited with the same shape) becomes what now is after one more round with this verified
 * update; now is only read.  As rule_apply. */
enum err shardstate_next(const struct shardstate *now, const struct rule_params *rule,
	const struct update *u, struct shardstate *next, struct why *why) MUST_CHECK;

/* Sections "param.N" and "momentum.N" of a statefile.  Loading takes the round from the caller,
 * wants the sizes of s and finite values. */
enum err shardstate_save(
	const struct shardstate *s, struct statefile_out *to, struct why *why) MUST_CHECK;
enum err shardstate_load(struct shardstate *s, uint64_t round, const struct statefile *from,
	struct why *why) MUST_CHECK;

#endif
