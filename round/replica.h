/*
 * The global replica G: the state of every shard, in host memory.  It is made from initial values
 * or a snapshot and then changes only by applying ledger entries with their updates; whoever
 * trains works on a copy.  An entry is applied wholly or not at all: the outcome must have the
 * state hash that the entry lists.  One thread at a time.
 */
#ifndef ROUND_REPLICA_H
#define ROUND_REPLICA_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "model/statefile.h"
#include "round/ledger.h"
#include "round/rule.h"
#include "round/shardstate.h"
#include "round/update.h"

struct replica;

struct replica_shape {
	struct rule_params rule;
	uint32_t n_shards;
	const size_t *n; /* values of each shard; borrowed for the call */
};

/* All parameters zero, round 0: fill with replica_set before use.  ERR_nomem. */
enum err replica_new(const struct replica_shape *shape, struct replica **out) MUST_CHECK;
void replica_free(struct replica *r); /* NULL-safe */
/* Initial parameters of a shard; ERR_state once anything has been applied or loaded. */
enum err replica_set(struct replica *r, uint32_t shard, const float *params) MUST_CHECK;

size_t replica_count(const struct replica *r, uint32_t shard);
const float *replica_params(const struct replica *r, uint32_t shard);
const float *replica_momentum(const struct replica *r, uint32_t shard); /* NULL: rule has none */
uint64_t replica_round(const struct replica *r, uint32_t shard);
struct hash replica_hash(struct replica *r, uint32_t shard); /* the state hash; remembered */
/* One hash over all shards' state hashes, for reports. */
struct hash replica_hash_all(struct replica *r);

/* In two steps, for whoever writes the entry: compute the outcome of the next round of the shard
 * with a verified update beside the present state, and give its hash; ERR_* as rule_apply.  A
 * second propose replaces the first. */
enum err replica_propose(struct replica *r, uint32_t shard, const struct update *u,
	struct hash *state, struct why *why) MUST_CHECK;
/* Take the proposed outcome over: e must be for its shard and round (ERR_state) and list its hash
 * (ERR_hash). */
enum err replica_commit(
	struct replica *r, const struct ledger_entry *e, struct why *why) MUST_CHECK;

/* In one step, for whoever receives entry and verified update: update_matches, propose, commit.
 * ERR_wrong_round when e is not the next round of its shard. */
enum err replica_apply(struct replica *r, const struct ledger_entry *e, const struct update *u,
	struct why *why) MUST_CHECK;

/* ---- snapshots: a statefile of kind "snapshot", meta {"round", "sequence", "head"}, sections
 * "spec" and those of shardstate.  All shards must stand at the head's round (ERR_state). */
struct replica_snapshot {
	struct hash run;
	const char *spec; /* canonical text */
	struct ledger_head head;
};
enum err replica_save(const struct replica *r, const struct replica_snapshot *about,
	const char *path, struct why *why) MUST_CHECK;
/* r has the run's shape; head receives where the snapshot stands.  A file of another kind with the
 * same meta members and sections serves too.  On failure r is not to be used.  That the head is the
 * run's is for the caller to check, with a signed head and ledger_genesis or the states of the
 * entries. */
enum err replica_load(struct replica *r, const struct statefile *from, struct ledger_head *head,
	struct why *why) MUST_CHECK;

#endif
