/*
 * What the coordinator of a simulation keeps, in place of its store: the replica's shard files, the
 * contributions of the open round, the ledger, and the records and snapshots that members fetch.
 * Rounds are closed by coordinator/closing.h, as in a real run.  Files lie in one folder, which is
 * best in memory; nothing of it outlives the process.
 */
#ifndef SIM_SHELF_H
#define SIM_SHELF_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "coordinator/closing.h"
#include "model/graph.h"
#include "model/spec.h"
#include "round/ledger.h"

struct shelf_snapshot {
	struct ledger_head head;
	struct hash blob;
	uint64_t bytes;
};

struct shelf {
	const struct spec *spec; /* borrowed */
	struct exchange exchange;
	struct shardfile files;
	struct blob_store *blobs;
	struct ledger *ledger;
	char *dir, *state_dir;
	struct shared **records; /* of the entries after base */
	size_t n_records;
	uint64_t base;
	struct shelf_snapshot snapshots[2]; /* the newest, and the one before */
	uint32_t n_snapshots;
};

/* Round 0, from the spec's seed.  dir is empty.  Release in any case. */
enum err shelf_open(struct shelf *s, const struct spec *spec, const struct graph *g,
	const char *dir, struct why *why) MUST_CHECK;
void shelf_release(struct shelf *s);

/* One round's contributions of every shard, ascending by peer. */
struct shelf_round {
	uint64_t round;
	const uint32_t *counts;
	struct closing_input *const *inputs;
};
struct shelf_sum {
	uint64_t bytes;  /* of the records */
	uint32_t merged; /* shards whose update was merged */
};
/* Closes it: the ledger and the files move on, its contributions are gone. */
enum err shelf_close(struct shelf *s, const struct shelf_round *round, struct shelf_sum *sum,
	struct why *why) MUST_CHECK;

/* Whether the records after this entry are still kept. */
bool shelf_follows(const struct shelf *s, uint64_t sequence);
struct shared *shelf_record(const struct shelf *s, uint64_t sequence); /* borrowed */
struct hash shelf_state(const struct shelf *s);                        /* of all shards */
/* File of the newest snapshot; caller frees. */
char *shelf_snapshot_path(const struct shelf *s, struct shelf_snapshot *out);

#endif
