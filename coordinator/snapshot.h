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
	const char *link_dir;    /* where snapshot_link puts it, for export and inspect */
};

enum err snapshot_make(
	const struct snapshot *s, struct hash *blob, uint64_t *bytes, struct why *why) MUST_CHECK;

/* DIR/snapshot-ROUND.state as a second name of the blob, so that people and tools find it.  A file
 * system without such names does without. */
void snapshot_link(
	const struct blob_store *blobs, const char *dir, const struct hash *blob, uint64_t round);
char *snapshot_path(const char *dir, uint64_t round); /* that name; caller frees */
void snapshot_unlink(const char *dir, uint64_t round);
/* All such names but those of the n rounds are removed. */
void snapshot_sweep(const char *dir, const uint64_t *rounds, size_t n);

#endif
