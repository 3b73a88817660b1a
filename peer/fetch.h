/*
 * The thread that talks HTTPS with the coordinator, and with peers that give (peer/take.h): first
 * contact, data, snapshot, missed records.
 * Jobs are done in order; results come to the control loop's mailbox.  Whatever it hands over was
 * verified: documents by the run key of the join link, blobs by their hash.  It does not retry: the
 * control loop does, with back-off, unless the failure is for good.
 */
#ifndef PEER_FETCH_H
#define PEER_FETCH_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/mailbox.h"
#include "model/spec.h"
#include "net/identity.h"
#include "net/joinlink.h"
#include "net/roster.h"
#include "peer/standing.h"
#include "peer/take.h"
#include "round/ledger.h"

struct fetch;

struct fetch_config {
	const struct joinlink *link; /* borrowed, as identity; both outlive it */
	const struct identity_peer *identity;
	const struct proxy *proxy; /* borrowed; NULL: none */
	struct traffic *traffic;   /* borrowed; NULL: nobody counts */
	const char *dir, *name;    /* the peer's folder; what it wants to be called */
	struct mailbox *results;
};

enum err fetch_new(
	const struct fetch_config *config, struct fetch **out, struct why *why) MUST_CHECK;
void fetch_free(struct fetch *f); /* breaks off what is under way; NULL-safe */

enum fetch_job { FETCH_join, FETCH_data, FETCH_snapshot, FETCH_records, FETCH_forget, FETCH_stop };

/* ---- jobs; each but forget has one last result, its own or failed */

/* Statement, registration, spec, roster.  Result: joined.  Again, when the link cannot be had: the
 * coordinator's keys and port may be others by now. */
void fetch_join(struct fetch *f);
/* Manifest, tokenizer and token shards into DIR/blobs, the manifest also as DIR/manifest.json; what
 * is there is verified, and fetched again if damaged.  Result: data. */
void fetch_data(struct fetch *f);
/* The newest snapshot into DIR/snapshot.  Result: snapshot, with its file and the head that it
 * stands at. */
void fetch_snapshot(struct fetch *f);
/* What follows ledger entry `sequence` (a long absence comes in pieces: ask again), the newest head
 * and a roster that knows all who contributed.  Result: records (none if the ledger has not moved),
 * or failed with ERR_missing when the entries are not kept any more: take the snapshot. */
void fetch_records(struct fetch *f, uint64_t sequence);
/* The snapshot has served: remove its file. */
void fetch_forget(struct fetch *f);

/* mail.kind; above all kinds of link events and worker results */
enum fetch_result_kind {
	FETCH_result_joined = 2000,
	FETCH_result_data,
	FETCH_result_snapshot,
	FETCH_result_records,
	FETCH_result_progress, /* done, total: bytes of the blob under way */
	FETCH_result_failed,   /* why; for_good: trying again will not help */
};

struct fetch_result {
	struct mail mail;
	enum fetch_job job;
	/* joined */
	struct spec *spec;
	uint32_t number;
	uint8_t curve[ROSTER_CURVE]; /* the coordinator's, from its statement */
	char address[256];           /* of its data plane, host:port */
	/* joined, records */
	struct roster *roster;
	/* snapshot */
	char *path;
	/* snapshot, records */
	struct ledger_head head;
	struct standing_record *records;
	size_t n_records;
	struct take_outcome from_peers; /* the rest came from the coordinator */
	uint64_t done, total;
	bool for_good;
	struct why why;
};
void fetch_result_free(struct fetch_result *r); /* frees what was not taken (set NULL); NULL-safe */

#endif
