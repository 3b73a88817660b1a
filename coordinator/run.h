/*
 * A run in its folder: everything that survives the process, opened and checked.  DIR holds
 *   keys/         run key, link key, TLS key, the operator's token
 *   store.sqlite  members, invites, ledger, the open round
 *   blobs/        contributions of the open round, records, snapshots
 *   state/        the replica, a file for each shard
 *   lock          held by the process that serves the run
 * The first start makes it; a later one finds what was committed last and removes what was being
 * made when the process died.  The control loop's thread; blobs and state are the desk's while it
 * runs.
 */
#ifndef COORDINATOR_RUN_H
#define COORDINATOR_RUN_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "coordinator/invites.h"
#include "coordinator/members.h"
#include "coordinator/replay.h"
#include "coordinator/shardfile.h"
#include "coordinator/store.h"
#include "model/graph.h"
#include "model/spec.h"
#include "net/identity.h"
#include "round/blob.h"
#include "round/exchange.h"
#include "round/ledger.h"

struct run {
	char *dir, *state_dir, *store_path;
	int lock;
	struct spec *spec;
	struct graph *graph; /* of one sequence of one token: for names and sizes */
	struct exchange exchange;
	struct identity_coordinator keys;
	struct store *store;
	struct blob_store *blobs;
	struct shardfile files;
	struct hash *start; /* states of round 0 */
	struct hash genesis;
	struct ledger *ledger;
	struct members *members;
	char *head_text, *spec_text; /* signed documents: "head", "spec" */
};

struct run_config {
	const char *dir;
	const struct spec *spec; /* NULL: the one that the folder holds; else it must be that one */
	const char *init;        /* folder with the spec's initial weights, for the first start */
	bool serving; /* takes the lock, may make, repair and remove; else only looks (and a folder
			 without a run is ERR_missing) */
};

/* ERR_spec names what differs when the folder belongs to another spec; ERR_busy the process that
 * holds it.  Release in any case. */
enum err run_open(const struct run_config *config, struct run *out, struct why *why) MUST_CHECK;
void run_release(struct run *r);

struct ledger_head run_head(const struct run *r);
struct hash run_state(const struct run *r); /* replica_hash_all of the replica at the head */
/* Is this a place on the run's chain (genesis included)? */
bool run_knows(const struct run *r, uint64_t sequence, const struct hash *head);
/* The signed document of a head; caller frees. */
char *run_sign_head(const struct run *r, const struct ledger_head *head);
/* For replay_* and invites_*: borrow from r. */
struct replay run_replay(const struct run *r);
struct invites run_invites(const struct run *r);
/* From the newest snapshots: how far back the records are kept; peers that stand before it begin
 * from a snapshot. */
enum err run_kept_from(const struct run *r, uint64_t *sequence, struct why *why) MUST_CHECK;

#endif
