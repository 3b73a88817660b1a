/*
 * Which training sequences the ledger lists, each at most once.  The entries name who sent what,
 * not of which data: that stands in the signed contributions, which the coordinator drops some
 * rounds later.  So its folder of blobs is looked into while the run goes on, and what is seen is
 * kept.
 */
#ifndef TESTS_CHAOS_LISTED_H
#define TESTS_CHAOS_LISTED_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "round/span.h"

/* The data of one contribution, and where it is listed. */
struct listed_work {
	uint64_t entry; /* of the ledger */
	uint32_t shard, peer;
	struct span span;
};

struct listed {
	struct listed_blob *blobs; /* seen so far */
	size_t n_blobs;
	struct listed_work *work; /* of the entries given to listed_add */
	size_t n_work;
};

/* Reads what has come into this folder of blobs since the last look.  Due more often than records
 * are dropped.  A folder that is not there, and files that go meanwhile, are no mistake. */
void listed_look(struct listed *l, const char *folder);
/* What the ledger's entry of this number lists, whose record is that blob.  ERR_missing: the
 * record, or a contribution that was merged in it, was never seen. */
enum err listed_add(
	struct listed *l, uint64_t entry, const struct hash *record, struct why *why) MUST_CHECK;
/* How many sequences that is, summed over the shards.  ERR_duplicate names one that is listed
 * twice for a shard, and both entries.  Sorts the work. */
enum err listed_once(struct listed *l, uint64_t *count, struct why *why) MUST_CHECK;
void listed_release(struct listed *l); /* idempotent */

#endif
