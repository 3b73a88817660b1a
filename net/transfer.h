/*
 * Objects in chunks: two pure state machines, a sender and a receiver, per link.  Messages and the
 * time go in, messages and events come out; there is no socket and no clock here.  Loss,
 * duplication, reordering and a cut at any moment end in the same bytes delivered once.
 *
 *   sender   queued -> begun (begin sent) -> sending (credit came) -> told (done or decline came)
 *   receiver begin -> waiting (no memory yet) -> receiving -> verified (an event) -> answered
 *
 * The receiver grants credit: how far the sender may run ahead of what has arrived.  It decides at
 * once what it grants when an object begins, so the first bytes need not wait to be told: they may
 * follow the begin (eager), and a small object is there after one way.  The sender
 * keeps less than that on the way: what the link carries in delay_ns, so that a heartbeat never
 * waits long behind chunks.  Bytes that come out of place are passed over; after retry_ns without
 * progress the sender begins again, and the receiver's answer says from where.
 */
#ifndef NET_TRANSFER_H
#define NET_TRANSFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "net/msg.h"
#include "net/shared.h"

#define TRANSFER_META 1024 /* most bytes of meta */
#define TRANSFER_CHUNK_LEAST (1u << 14)
#define TRANSFER_CHUNK_MOST MSG_PAYLOAD_MAX
#define TRANSFER_OBJECTS 64 /* most objects begun at once in one direction */
#define TRANSFER_KINDS 16
#define TRANSFER_KEPT 32 /* answers a receiver remembers */

struct transfer_limits {
	uint32_t chunk;    /* bytes of the chunks we send */
	uint32_t objects;  /* begun at once, 1 to TRANSFER_OBJECTS */
	uint32_t eager;    /* bytes of an object that we may be sent right behind its begin */
	uint64_t window;   /* bytes that a sender may be ahead of what we have */
	uint64_t delay_ns; /* the most that is on the way, as time at the measured rate */
	uint64_t retry_ns; /* no progress for so long: begin again (doubled each time, to 8 x) */
	uint64_t stall_ns; /* an incomplete object without progress for so long is dropped */
	uint64_t push;     /* where numbers of pushes begin: elsewhere in every process */
};

struct transfer_kind {
	uint32_t kind;
	uint64_t size_most;
};

/* Bytes of objects that all receivers of a process hold until they are answered. */
struct transfer_budget {
	uint64_t used, most;
};

/* ref of PROTOCOL.md: from SHA-256(kind, name, meta). */
uint64_t transfer_ref(uint32_t kind, const struct hash *name, const void *meta, size_t meta_len);
void transfer_limits_init(struct transfer_limits *l);

enum transfer_event_kind {
	TRANSFER_received,  /* receiver: bytes are the object, verified; to be answered */
	TRANSFER_delivered, /* sender: the other side accepted */
	TRANSFER_declined   /* sender: the other side refused, see why */
};

struct transfer_event {
	enum transfer_event_kind what;
	uint64_t ref;
	uint32_t kind;
	struct hash name;
	uint8_t meta[TRANSFER_META];
	size_t meta_len;
	uint64_t size, taken_ns;
	uint8_t *bytes; /* received: owned by whoever takes the event */
	struct why why;
};

/* One message to send: payload (borrowed from bytes, valid while a reference is held) or none. */
struct transfer_out {
	shoal_header header;
	struct shared *bytes; /* NULL: no payload; not a reference of its own */
	size_t offset, len;
};

/* ---- sender */
struct transfer_tx;
struct transfer_tx *transfer_tx_new(const struct transfer_limits *limits);
void transfer_tx_free(struct transfer_tx *tx);
/* Queue an object; holds a reference to bytes.  An object with the same ref that is still queued or
 * under way is not queued again; one that was told before is asked for anew. */
uint64_t transfer_tx_push(struct transfer_tx *tx, uint32_t kind, struct shared *bytes,
	const void *meta, size_t meta_len);
void transfer_tx_cancel(struct transfer_tx *tx, uint64_t ref); /* unknown ref: nothing */
/* There is a new connection: everything under way begins again.  eager: what the other side says
 * may be sent before its answer to a begin; 0: nothing, as also before the first restart. */
void transfer_tx_restart(struct transfer_tx *tx, uint32_t eager);
/* credit, done or decline came in.  true: *event was filled. */
bool transfer_tx_take(struct transfer_tx *tx, const shoal_header *header, uint64_t now_ns,
	struct transfer_event *event);
/* The next message to send now, if any. */
bool transfer_tx_next(struct transfer_tx *tx, uint64_t now_ns, struct transfer_out *out);
size_t transfer_tx_count(const struct transfer_tx *tx); /* objects not yet told */
double transfer_tx_rate(const struct transfer_tx *tx);  /* bytes/s as measured; 0: not yet */

/* ---- receiver */
struct transfer_rx;
/* limits, kinds and budget are borrowed and outlive it. */
struct transfer_rx *transfer_rx_new(const struct transfer_limits *limits,
	const struct transfer_kind *kinds, size_t n_kinds, struct transfer_budget *budget);
void transfer_rx_free(struct transfer_rx *rx);

struct transfer_in { /* one message */
	const shoal_header *header;
	const uint8_t *payload; /* of a chunk */
	size_t payload_len;
};
/* begin, chunk or cancel came in.  *got is set when *event was filled.  ERR_OK, or what was wrong
 * with the message, to be counted: ERR_toobig, ERR_unsupported (kind), ERR_range (no credit, out of
 * place), ERR_busy (too many at once), ERR_hash, ERR_syntax. */
enum err transfer_rx_take(struct transfer_rx *rx, const struct transfer_in *in, uint64_t now_ns,
	struct transfer_event *event, bool *got) MUST_CHECK;
/* The owner's verdict; an unknown ref is passed over. */
void transfer_rx_answer(struct transfer_rx *rx, uint64_t ref, enum err code, const char *text);
/* The next message to send now, if any: credit, done, decline. */
bool transfer_rx_next(struct transfer_rx *rx, uint64_t now_ns, struct transfer_out *out);
size_t transfer_rx_count(const struct transfer_rx *rx); /* objects not yet answered */

#endif
