/* What the files of rebuild share; nobody else includes it. */
#ifndef COORDINATOR_REBUILD_PARTS_H
#define COORDINATOR_REBUILD_PARTS_H
#include <stdbool.h>
#include "coordinator/rebuild.h"
#include "coordinator/run.h"
#include "net/https_server.h"
#include "net/link.h"
#include "net/roster.h"

/* ---- what a peer says it keeps (rebuild_list.c); all of it a claim */
#define REBUILD_SNAPSHOTS 2u
#define REBUILD_RECORDS 16384u

struct rebuild_blob {
	uint64_t sequence, bytes;
	struct hash name;
};

struct rebuild_list {
	struct ledger_head head; /* signed by the run key: true */
	uint64_t next;           /* of a head that it heard of and has not reached; 0: none */
	uint64_t taken;
	struct store_snapshot snapshots[REBUILD_SNAPSHOTS];
	uint32_t n_snapshots;
	struct rebuild_blob *records; /* owned */
	size_t n_records;
};

enum err rebuild_list_parse(const void *text, size_t n, const struct hash *run,
	const struct sign_public *key, struct rebuild_list *out, struct why *why) MUST_CHECK;
void rebuild_list_release(struct rebuild_list *l); /* NULL-safe, idempotent */
/* The newest snapshot at or before the head from which the records lead to it without a gap, and
 * the first of these; false: there is none. */
bool rebuild_list_choose(
	const struct rebuild_list *l, struct store_snapshot *snapshot, size_t *first);

/* ---- the ledger as it comes in */
struct rebuild_entry {
	uint8_t *bytes; /* owned */
	size_t len;
};

struct rebuild_source {
	uint8_t key[LINK_KEY];
	uint32_t number;
	bool linked, listed, bad;
	struct rebuild_list list;
};

struct rebuild {
	const struct rebuild_config *config;
	char *work;     /* the folder beside DIR */
	struct run run; /* in it, at round 0 until the end */
	char *statement;
	struct roster *roster; /* NULL: nobody has shown one */
	char *roster_text;
	struct event_base *base;
	struct https_server *https;
	struct mailbox *mail;
	struct link *link;
	struct rebuild_source *sources;
	uint32_t n_sources;
	bool settled; /* which head counts is not asked any more */
	uint64_t looked_ns;
	uint64_t first_ns, idle_ns; /* when the first list came; when something new came */

	struct rebuild_source *from; /* asked now; NULL: nobody */
	uint64_t asked_ns;           /* 0: nothing is asked */
	struct ledger *ledger;
	struct rebuild_entry *entries; /* those in ledger */
	size_t n_entries;
	struct store_snapshot snapshot;
	size_t first_record; /* in from->list */
	struct blob_part *part;

	char said[200]; /* the last reason */
	bool done;
	struct why failed;
};

/* rebuild_open.c: the folder beside DIR with the run at round 0; then where peers come to. */
enum err rebuild_open_work(struct rebuild *r, struct why *why) MUST_CHECK;
enum err rebuild_open_link(struct rebuild *r, struct why *why) MUST_CHECK;
enum err rebuild_open_https(struct rebuild *r, struct why *why) MUST_CHECK;
/* rebuild_api.c */
const struct https_route *rebuild_api_routes(size_t *n);
/* rebuild.c: a newer roster was shown; takes both. */
void rebuild_roster(struct rebuild *r, struct roster *roster, char *text);
/* rebuild_write.c: into the store of the run, then opens it as serve would, which makes every shard
 * from the snapshot and the records and compares its state. */
enum err rebuild_write(struct rebuild *r, struct why *why) MUST_CHECK;

#endif
