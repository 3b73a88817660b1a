/*
 * Closing one shard of a round: the accepted contributions are read back, verified once more,
 * applied by the rule to the shard's present state; the next state goes to its file, the record
 * (ledger entry and update) to the blob store.  Nothing of it counts before the store's commit says
 * so, and doing it again after a death gives the same bytes.  One thread; memory holds one shard
 * and what was contributed to it.
 */
#ifndef COORDINATOR_CLOSING_H
#define COORDINATOR_CLOSING_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "coordinator/shardfile.h"
#include "net/shared.h"
#include "net/sign.h"
#include "round/blob.h"
#include "round/exchange.h"
#include "round/ledger.h"

struct closing_input {
	uint32_t peer;
	uint8_t key[SIGN_PUBLIC]; /* its signing key */
	struct hash blob;
};

struct closing {
	const struct shardfile *files; /* borrowed, as everything here */
	struct blob_store *blobs;
	struct exchange exchange;
	struct hash run;
	struct ledger_head parent; /* of the round */
	uint64_t round;
	size_t contribution_most; /* bytes */
};

/* One shard's contributions, ascending by peer. */
struct closing_job {
	uint32_t shard, count;
	struct hash state; /* of the round before: with count 0 it stays */
	const struct closing_input *inputs;
	const struct hash *update; /* the blob of the update, where somebody else has made it: the
				    * inputs then need no bytes; or NULL */
};

struct closing_out { /* owned: closing_release */
	struct ledger_entry entry;
	struct hash hash;      /* of the entry */
	struct shared *record; /* its hash is the blob's name */
};

/* *at is where the chain stands; it moves on by the entry.  A blob that is damaged or gone is
 * ERR_hash or ERR_missing and names its peer. */
enum err closing_shard(const struct closing *c, const struct closing_job *job,
	struct ledger_head *at, struct closing_out *out, struct why *why) MUST_CHECK;

void closing_release(struct closing_out *out); /* NULL-safe, idempotent */

#endif
