/* What shelf.c and shelf_index.c share; nobody else includes it. */
#ifndef PEER_SHELF_PARTS_H
#define PEER_SHELF_PARTS_H
#include "peer/shelf.h"
#include "peer/shelf_chain.h"
#include "round/blob.h"

#define SHELF_SNAPSHOTS 2u
#define SHELF_RECORDS_MOST 16384u

struct shelf_row { /* a record on the shelf */
	uint64_t sequence, bytes;
	struct hash blob;
};

struct shelf_staged { /* one that came in and was not applied yet */
	uint64_t sequence;
	uint8_t *entry; /* owned */
	size_t len;
	struct shelf_row row;
};

struct shelf_picture { /* a snapshot on the shelf */
	struct ledger_head at;
	struct hash blob;
	uint64_t bytes;
};

struct shelf {
	char *dir, *index, *roster; /* the peer's folder; files */
	const struct spec *spec;
	struct blob_store *blobs;
	struct shelf_chain chain;
	struct ledger_head at;   /* reached last */
	struct ledger_head next; /* what next_text signs; not reached yet */
	char *head_text, *next_text;
	uint64_t taken;
	struct shelf_staged *staged; /* ascending */
	size_t n_staged;
	struct shelf_row *records; /* ascending */
	size_t n_records;
	struct shelf_picture snapshots[SHELF_SNAPSHOTS]; /* newest first */
	uint32_t n_snapshots;
	bool failing;     /* and it was said */
	uint32_t resting; /* heads to be reached before anything is written again */
};

/* Says so, once until the shelf is written again; a full disk is let alone for a while. */
void shelf_warn(struct shelf *s, const struct why *why);
/* From index.json; what cannot be read begins anew, and blobs that it does not list are removed. */
void shelf_index_read(struct shelf *s);
bool shelf_index_write(struct shelf *s);       /* whether it is on the disk */
char *shelf_index_text(const struct shelf *s); /* caller frees */
bool shelf_index_lists(const struct shelf *s, const struct hash *blob);
/* No blobs any more. */
void shelf_index_drop(struct shelf *s);
/* The snapshot of a round out of the local state that was saved in it, if that is there and the
 * shelf has none of that round; then what lies before the older one is removed. */
void shelf_index_snapshot(struct shelf *s, uint64_t round);

#endif
