/*
 * What the coordinator of a simulation keeps, in place of its store: the replica's shard files, the
 * contributions of the open round, the ledger, and the records and snapshots that members fetch.
 * Rounds are closed by coordinator/closing.h, as in a real run.  Files lie in one folder, which is
 * best in memory; nothing of it outlives the process.
 */
#ifndef SIM_ARCHIVE_H
#define SIM_ARCHIVE_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "coordinator/closing.h"
#include "model/graph.h"
#include "model/spec.h"
#include "peer/trainer.h"
#include "round/ledger.h"

struct archive_snapshot {
	struct ledger_head head;
	struct hash blob;
	uint64_t bytes;
};

struct archive {
	const struct spec *spec; /* borrowed */
	struct exchange exchange;
	struct shardfile files;
	struct blob_store *blobs;
	struct ledger *ledger;
	char *dir, *state_dir;
	struct shared **records; /* of the entries after base */
	size_t n_records;
	uint64_t base;
	struct archive_snapshot snapshots[2]; /* the newest, and the one before */
	uint32_t n_snapshots;
};

/* Round 0, from the spec's seed.  dir is empty.  Release in any case. */
enum err archive_open(struct archive *s, const struct spec *spec, const struct graph *g,
	const char *dir, struct why *why) MUST_CHECK;
void archive_release(struct archive *s);

/* One round's contributions of every shard, ascending by peer. */
struct archive_round {
	uint64_t round;
	const uint32_t *counts;
	struct closing_input *const *inputs;
};
struct archive_sum {
	uint64_t bytes;  /* of the records */
	uint32_t merged; /* shards whose update was merged */
};
/* Closes it: the ledger and the files move on, its contributions are gone. */
enum err archive_close(struct archive *s, const struct archive_round *round,
	struct archive_sum *sum, struct why *why) MUST_CHECK;

/* Whether the records after this entry are still kept. */
bool archive_follows(const struct archive *s, uint64_t sequence);
struct shared *archive_record(const struct archive *s, uint64_t sequence); /* borrowed */
struct hash archive_state(const struct archive *s);                        /* of all shards */
/* The loss of that state on the validation split. */
enum err archive_validate(const struct archive *s, const struct corpus *corpus,
	struct trainer_validation *out, struct why *why) MUST_CHECK;
/* File of the newest snapshot; caller frees. */
char *archive_snapshot_path(const struct archive *s, struct archive_snapshot *out);

#endif
