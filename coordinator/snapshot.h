/*
 * Snapshots as blobs: the whole replicated state at a round, in the layout of round/replica.h
 * (statefile of kind "snapshot"), written shard by shard from the files.  One thread.
 */
#ifndef COORDINATOR_SNAPSHOT_H
#define COORDINATOR_SNAPSHOT_H
#include "base/err.h"
#include "coordinator/shardfile.h"
#include "round/blob.h"
#include "round/ledger.h"

struct snapshot {
	const struct shardfile *files;
	struct blob_store *blobs;
	const char *spec;        /* canonical text */
	struct ledger_head head; /* all shards stand at its round */
};

enum err snapshot_make(
	const struct snapshot *s, struct hash *blob, uint64_t *bytes, struct why *why) MUST_CHECK;

#endif
