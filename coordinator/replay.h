/*
 * A shard's state made again from a snapshot and the records after it: every signature verified,
 * every state hash compared.  For `replay --verify`, and to repair a shard's file.  One thread;
 * memory holds one shard and one record.
 */
#ifndef COORDINATOR_REPLAY_H
#define COORDINATOR_REPLAY_H
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "coordinator/store.h"
#include "net/roster.h"
#include "round/blob.h"
#include "round/exchange.h"
#include "round/ledger.h"
#include "round/shardstate.h"

struct replay {
	struct store *store; /* borrowed, as everything here */
	struct blob_store *blobs;
	const struct roster *roster;
	struct exchange exchange;
	struct hash run, genesis; /* genesis: head of the empty ledger */
	uint32_t n_shards;
	/* What was merged is merged again from the contributions and compared, unless they were
	 * with other members and a witness did that in its round: those are counted here.  NULL:
	 * nothing is merged again. */
	uint64_t *elsewhere;
};

/* *state stands at some round and is taken to round `to`.  The sentence of a failure names the
 * first entry that differs. */
enum err replay_shard(
	const struct replay *r, struct shardstate *state, uint64_t to, struct why *why) MUST_CHECK;
/* The first state, from a snapshot's blob.  state is inited by the caller. */
enum err replay_begin(const struct replay *r, const struct store_snapshot *from,
	struct shardstate *state, struct why *why) MUST_CHECK;

/* Entries of round r and shard s have this number: each round adds one for every shard, in order.
 */
static inline uint64_t replay_sequence(uint32_t n_shards, uint64_t round, uint32_t shard)
{
	return (round - 1) * n_shards + shard + 1;
}

#endif
