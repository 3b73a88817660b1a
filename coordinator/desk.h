/*
 * The desk: one thread for what takes long (checking and storing contributions, closing rounds,
 * snapshots, removing files), so that the control loop never waits for disk or arithmetic.  It owns
 * the blob store and the shard files while it runs.  Jobs are done in order; each comes back as
 * mail with its outcome.
 */
#ifndef COORDINATOR_DESK_H
#define COORDINATOR_DESK_H
#include <stdbool.h>
#include "base/err.h"
#include "base/mailbox.h"
#include "coordinator/closing.h"
#include "coordinator/gathered.h"
#include "coordinator/shardfile.h"
#include "net/link.h"
#include "round/blob.h"
#include "round/gate.h"

struct desk;

enum desk_kind {
	DESK_gate,     /* check a contribution, and store it */
	DESK_update,   /* the same for an update that an aggregator made */
	DESK_close,    /* apply a round, shard by shard */
	DESK_snapshot, /* write one */
	DESK_drop      /* remove blobs, and the shard files of other rounds */
};

struct desk_gate {
	uint8_t link[LINK_KEY]; /* who sent it, and as what, for the answer */
	uint64_t ref;
	uint8_t *bytes; /* owned */
	size_t len;
	struct gate_expect expect; /* assigned points to spans */
	struct span spans[SPAN_MAX];
	struct contribution says; /* out */
	struct hash id, blob;     /* out */
};

struct desk_update {
	uint8_t link[LINK_KEY]; /* as above */
	uint64_t ref;
	uint32_t number; /* the aggregator */
	uint64_t turn;   /* which of the questions to it this answers */
	uint8_t *bytes;  /* owned */
	size_t len;
	struct gathered_expect what; /* items points to items; exchange and n are filled in */
	struct gathered_item *items; /* owned */
	enum update_kind came, kind; /* out: as it was sent; as it counts */
	struct hash merged, blob;    /* out: of the planes, where it is merged; as it counts */
};

/* An update that is there already. */
struct desk_made {
	bool have;
	struct hash blob;
	uint32_t by; /* who passes it on to others; UINT32_MAX: nobody */
};

struct desk_close {
	uint64_t round;
	struct ledger_head parent; /* out: where the chain stands after it is in head */
	struct ledger_head head;
	uint32_t n_shards;
	struct hash *states;           /* of each shard, before it */
	uint32_t *counts;              /* contributions of each shard */
	struct closing_input **inputs; /* ascending by peer */
	struct desk_made *made;        /* of each shard: in place of its inputs' bytes */
	struct closing_out *out;
};

struct desk_snapshot {
	struct ledger_head head;
	struct hash blob; /* out */
	uint64_t bytes;   /* out */
};

struct desk_drop {
	struct hash *blobs; /* owned */
	size_t n;
	bool sweep; /* remove the shard files of all rounds but keep_round: only right after the
		     * commit of that round, when no later one can be in the making */
	uint64_t keep_round;
	uint64_t *unlinked; /* rounds of snapshots that lose their second name; owned */
	size_t n_unlinked;
};

struct desk_job {
	struct mail mail; /* mail.kind is enum desk_kind */
	struct why why;   /* outcome; code ERR_OK: done */
	struct desk_gate gate;
	struct desk_update update;
	struct desk_close close;
	struct desk_snapshot snapshot;
	struct desk_drop drop;
};

/* Zeroed but for the mail. */
struct desk_job *desk_job_new(enum desk_kind kind);
void desk_job_free(struct desk_job *j); /* with all that it owns; NULL-safe */

struct desk_config {
	struct shardfile files;
	struct blob_store *blobs; /* borrowed; the desk's alone until desk_free */
	struct exchange exchange;
	const char *spec;       /* canonical text; borrowed */
	const char *dir;        /* of the run, for the snapshots' second names; borrowed */
	struct mailbox *events; /* borrowed: outcomes go there */
};

struct desk *desk_new(const struct desk_config *config);
/* Ends after the job that is being done; jobs that were not begun are dropped. */
void desk_free(struct desk *d);
void desk_put(struct desk *d, struct desk_job *j); /* takes j */
bool desk_is_job(const struct mail *m);            /* from a mailbox that holds others' mail too */

#endif
