/*
 * The aggregator's work, on a thread of its own: takes the contributions of the open round to its
 * shards, keeps them, and makes the updates of those that the coordinator lists; as a witness it
 * makes again what another aggregator made; and it checks what came from other peers before it
 * counts.  net/PROTOCOL.md section 5, "Aggregators", says the whole.  Jobs are done in order, each
 * comes back as one result in the mailbox; no call blocks.  Nothing that it gets is believed:
 * signatures are those of the roster, and what it keeps is bounded.
 */
#ifndef PEER_AGGREGATE_H
#define PEER_AGGREGATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/mailbox.h"
#include "model/spec.h"
#include "net/link_event.h"
#include "net/roster.h"
#include "net/shared.h"

struct aggregate;

struct aggregate_config {
	const struct spec *spec; /* borrowed, outlives it */
	struct mailbox *results; /* borrowed */
	uint64_t memory;         /* bytes of contributions that are kept at most; as many again may
				  * wait to be looked at */
};

/* ERR_unsupported and ERR_range as exchange_find, and what graph_build refuses. */
enum err aggregate_new(
	const struct aggregate_config *config, struct aggregate **out, struct why *why) MUST_CHECK;
void aggregate_free(struct aggregate *a); /* jobs that were not begun are dropped; NULL-safe */
void aggregate_roster(struct aggregate *a, const struct roster *roster); /* copied */

/* Which round is open, from which head it starts, and which shards are taken (one for each of the
 * model's; NULL: none).  Contributions and updates of the round before are kept, the contributions
 * as long as there is room; what is older is forgotten.  The same round again: more or fewer
 * shards, and of those that are not taken any more everything is forgotten. */
void aggregate_open(
	struct aggregate *a, uint64_t round, const struct hash *parent, const bool *takes);

/* Who asked, for the answer; comes back with the result as it was. */
struct aggregate_from {
	uint8_t key[LINK_KEY];
	uint64_t ref;
	bool own; /* it is this peer's own, no link is to be answered */
};

/* ---- jobs */

/* A contribution, by whatever link it came; takes bytes.  Result: taken, also when it is here
 * already; the refusals of gate_check (but spans are believed to be those that the statement says),
 * ERR_wrong_round for an older round, ERR_busy for one that is not open here yet, ERR_refused for a
 * shard that is not taken here, ERR_full. */
void aggregate_put(
	struct aggregate *a, const struct aggregate_from *from, uint8_t *bytes, size_t len);

/* Ascending by peer. */
struct aggregate_item {
	uint32_t peer;
	struct hash id; /* contribution_id */
};
/* The list as it travels in gather and witness; caller frees (NULL: empty).  ERR_syntax,
 * ERR_toobig, ERR_nomem. */
enum err aggregate_list(const uint8_t *payload, size_t len, struct aggregate_item **out, size_t *n,
	struct why *why) MUST_CHECK;

/* The update of exactly these; takes items (from malloc).  Result: update, the same bytes when it
 * is asked again; ERR_missing names the peers whose contribution is not here, ERR_wrong_round a
 * round that is not kept. */
void aggregate_gather(struct aggregate *a, uint64_t round, uint32_t shard,
	struct aggregate_item *items, size_t n);
/* The bundle of what was gathered, for a witness.  Result: bundle; ERR_missing, ERR_wrong_round. */
void aggregate_bundle(
	struct aggregate *a, const struct aggregate_from *from, uint64_t round, uint32_t shard);
/* Merges a bundle again; takes items and bundle.  Result: verdict, with the hash of the merged
 * planes; ERR_hash when it is not of exactly these items, ERR_shape when it is of another round or
 * shard or the bundle is the smaller form, ERR_wrong_round, and what update_verify and gate_check
 * refuse. */
void aggregate_witness(struct aggregate *a, uint64_t round, uint32_t shard,
	struct aggregate_item *items, size_t n, uint8_t *bundle, size_t len);
/* Whether an entry and an update from peers fit each other; takes both.  Result: record, the bytes
 * of round/record.h; the refusals of ledger_entry_decode, update_open, update_verify and
 * update_matches, ERR_shape for a shard that the model has not, ERR_wrong_round. */
void aggregate_compose(
	struct aggregate *a, uint8_t *entry, size_t entry_len, uint8_t *update, size_t update_len);

/* ---- results: one for each job, mail.kind is one of these, above all kinds of link events and
 * worker results; round and shard are as far as they are known */
enum aggregate_result_kind {
	AGGREGATE_taken =
		3000,     /* from, round, shard; bytes: the receipt's payload; size: of the whole */
	AGGREGATE_update, /* round, shard, shared */
	AGGREGATE_bundle, /* from, round, shard, shared */
	AGGREGATE_verdict, /* round, shard, merged */
	AGGREGATE_record,  /* round, shard, sequence, bytes */
};

struct aggregate_result {
	struct mail mail;
	struct why why; /* code ERR_OK: done */
	struct aggregate_from from;
	uint64_t round, sequence;
	uint32_t shard;
	uint8_t *bytes; /* owned, may be taken by setting it NULL */
	size_t len, size;
	struct shared *shared; /* owned */
	struct hash merged;
};
void aggregate_result_free(struct aggregate_result *r); /* NULL-safe */
bool aggregate_is_result(const struct mail *m);

#endif
