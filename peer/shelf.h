/*
 * What a peer keeps to give to others, in DIR/shelf, so that a coordinator that lost its disk can
 * be rebuilt from its peers:
 *
 *   chain       every ledger entry from the first one on
 *   roster      the newest signed roster
 *   blobs       snapshots of the two newest rounds that the spec's snapshot_every names, the same
 *               bytes as the coordinator's, and the records after the older one
 *   index.json  {"head": signed document, "next": entry of a signed head that was heard of and not
 *               reached yet, or 0, "taken": sequence numbers, "snapshots": [{"round",
 *               "sequence", "head", "blob", "bytes"}], "records": [{"sequence", "blob", "bytes"}]}
 *
 * Nothing is listed before the worker has applied it and a signed head was reached.  A shelf that
 * cannot be written is no reason to stop training: it is logged and the shelf begins anew.  The
 * control loop's thread.
 */
#ifndef PEER_SHELF_H
#define PEER_SHELF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/spec.h"
#include "net/msg.h"
#include "net/shared.h"
#include "net/transfer.h"
#include "round/ledger.h"

#define SHELF_MOST (16ull << 30) /* bytes of blobs */

struct shelf;

/* dir: the peer's folder, which also holds its local states; spec is borrowed. */
enum err shelf_open(
	const char *dir, const struct spec *spec, struct shelf **out, struct why *why) MUST_CHECK;
void shelf_close(struct shelf *s); /* NULL-safe */

/* Signed documents, verified by the caller; bytes are copied. */
void shelf_roster(struct shelf *s, const void *text, size_t n);
void shelf_head(struct shelf *s, const struct ledger_head *head, const void *text, size_t n);
/* A record that came in; not believed before the head it leads to is reached. */
void shelf_record(struct shelf *s, const void *bytes, size_t n);
/* A plan names sequence numbers below this one. */
void shelf_taken(struct shelf *s, uint64_t end);
/* The worker stands at this signed head. */
void shelf_reached(struct shelf *s, const struct ledger_head *head);

/* Whether older entries are missing, and those after which number: ask for a chain. */
bool shelf_gap(const struct shelf *s, uint64_t *after);
/* A chain object came in. */
void shelf_chain(struct shelf *s, const void *bytes, size_t n);

struct shelf_object {
	struct shared *bytes; /* the caller drops it */
	uint8_t meta[TRANSFER_META];
	size_t meta_len;
};
/* ERR_missing; ERR_unsupported for a kind that a peer does not give. */
enum err shelf_give(struct shelf *s, const shoal_want *want, struct shelf_object *out,
	struct why *why) MUST_CHECK;

#endif
