/*
 * The data plane: one thread that owns every ZeroMQ socket of the process (always CURVE) and speaks
 * the protocol of PROTOCOL.md.  The control loop talks to it by the calls below (any thread, none
 * blocks) and hears from it by events in a mailbox.  The other side of a link is named by its CURVE
 * public key, 32 bytes, never by a pointer or a routing id.
 *
 * A coordinator binds one ROUTER and admits the keys of link_admit; every message is checked
 * against that table again.  A peer connects a DEALER to each key given to link_connect, says hello
 * by itself on every connection, sends heartbeats by itself, and after a loss connects again with
 * jittered back-off until link_forget.
 *
 * Objects (link_push) travel in chunks with credit, survive reconnects and are delivered once; the
 * receiver answers each with link_answer, and the sender learns of that by an event.  What is to be
 * in hello and welcome for them (eager) is filled in here.
 */
#ifndef NET_LINK_H
#define NET_LINK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "net/egress.h"
#include "net/link_event.h"
#include "net/msg.h"
#include "net/proxy.h"
#include "net/shared.h"
#include "net/traffic.h"
#include "net/transfer.h"

#define LINK_ADDRESS 256 /* bytes of "host:port" with its NUL; IPv6 as "[::1]:port" */

struct link;

enum link_role { LINK_coordinator = MSG_to_coordinator, LINK_peer = MSG_to_peer };

struct link_config {
	enum link_role role;
	uint8_t public_key[LINK_KEY], secret_key[LINK_KEY]; /* own CURVE pair */
	const char *bind; /* coordinator: "host:port" or "*:port", port 0 allowed; peer: NULL */
	struct mailbox *events; /* borrowed, outlives the link */
	uint64_t seed;          /* of the back-off's jitter; differs from process to process */
	uint64_t heartbeat_ns;  /* between heartbeats */
	uint64_t timeout_ns;    /* nothing heard for so long: lost */
	uint64_t connect_ns;    /* for TCP, handshake and welcome together */
	uint64_t retry_least_ns, retry_most_ns;  /* back-off, doubled from one to the other */
	uint64_t linger_ns;                      /* for what is still to be sent at link_free */
	uint32_t messages_per_s, messages_burst; /* taken from one peer, chunks not counted */
	uint32_t connections_most;               /* coordinator: TCP connections at once */
	uint64_t receive_most;                   /* bytes of objects being received, all peers */
	const struct proxy *proxy;               /* peer: what it connects by; NULL: directly */
	double send_bytes_per_s;                 /* most that is sent, on average; 0: no limit */
	uint64_t send_delay_ns;                  /* what is sent is held back so long */
	struct traffic *traffic;                 /* counts both ways; borrowed, may be NULL */
	struct egress *egress; /* counts what is sent and bounds chunks; borrowed, may be NULL */
	struct transfer_limits transfer;
	struct transfer_kind kinds[TRANSFER_KINDS]; /* what is accepted here, with largest sizes */
	size_t n_kinds;
};

/* Everything but role, keys, bind, events, seed and kinds: 1 s, 6 s, 10 s, 0.5 s to 30 s, … */
void link_config_init(struct link_config *c);

/* Bind (when asked) and start the thread.  A port in use or an address that is not this machine's
 * is named in why with its cure.  *out is NULL on failure. */
enum err link_new(const struct link_config *config, struct link **out, struct why *why) MUST_CHECK;
/* Sends what is pending for at most linger_ns, ends the thread, closes everything.  Blocks. */
void link_free(struct link *l);
uint16_t link_port(const struct link *l); /* that was bound; 0 when none */

/* Replace the table of admitted keys: n keys of 32 bytes one after another.  Connections of keys
 * that are not in it any more are cut. */
void link_admit(struct link *l, const uint8_t *keys, size_t n);

/* Peer.  A numeric address spares the sockets' thread from waiting for a name.  hello is said on
 * every connection from now on; link_hello replaces it (the ledger moved), link_status what the
 * heartbeats tell (sequence, rtt_us and age_ms are filled in here). */
void link_connect(struct link *l, const uint8_t key[static LINK_KEY], const char *address,
	const shoal_hello *hello);
void link_hello(struct link *l, const uint8_t key[static LINK_KEY], const shoal_hello *hello);
void link_status(struct link *l, const shoal_heartbeat *status);

/* Ends the link to this key without an event: objects in both directions are dropped. */
void link_forget(struct link *l, const uint8_t key[static LINK_KEY]);

/* Send a message; payload (borrowed, may be NULL) must be there exactly when the kind's row allows
 * one.  Kept only while the link is up: what cannot be sent, or is over the row's limit, is counted
 * (unsent) and gone; lost and connected tell when to say it again. */
void link_send(struct link *l, const uint8_t key[static LINK_KEY], const shoal_header *header,
	struct shared *payload);

struct link_object {
	uint32_t kind;        /* the receiver's kinds say which */
	struct shared *bytes; /* borrowed; at least 1 byte */
	const uint8_t *meta;
	size_t meta_len; /* at most TRANSFER_META */
};
/* Push an object to this key, now or when the link is up again, until it is delivered, declined or
 * cancelled.  Returns its ref, a function of kind, bytes and meta: the same object pushed twice
 * while under way is one. */
uint64_t link_push(
	struct link *l, const uint8_t key[static LINK_KEY], const struct link_object *object);
void link_cancel(struct link *l, const uint8_t key[static LINK_KEY], uint64_t ref);
/* The verdict on a received object: ERR_OK accepts, another code refuses with text (may be NULL).
 */
void link_answer(struct link *l, const uint8_t key[static LINK_KEY], uint64_t ref, enum err code,
	const char *text);

/* What was counted since the start; one row each, shown on the page as it stands here. */
#define LINK_COUNTER_LIST(X) \
	X(messages_in, "messages received") \
	X(messages_out, "messages sent") \
	X(bytes_in, "bytes received") \
	X(bytes_out, "bytes sent") \
	X(objects_in, "objects received and verified") \
	X(objects_out, "objects delivered") \
	X(handshakes, "handshakes admitted") \
	X(connections, "TCP connections open") \
	X(links, "links up") \
	X(unsent, "messages for a link that was not up") \
	X(cut, "connections cut by us") \
	X(refused_key, "handshakes of keys not on the roster") \
	X(refused_user, "messages without a key, or of a key removed from the roster") \
	X(refused_routing, "messages under a routing id that the sender chose") \
	X(refused_frames, "messages with a wrong number of frames") \
	X(refused_magic, "messages that are not shoal's") \
	X(refused_version, "messages of another major version") \
	X(refused_kind, "messages of an unknown kind") \
	X(refused_header, "headers that cannot be decoded") \
	X(refused_payload, "payloads missing, unexpected or too large") \
	X(refused_way, "messages in the wrong direction") \
	X(refused_hello, "messages before hello") \
	X(refused_rate, "messages over the rate") \
	X(refused_clone, "messages of a second process with the same key") \
	X(refused_object, "objects refused") \
	X(refused_chunk, "chunks without credit or out of place")

struct link_counters {
#define X(name, text) uint64_t name;
	LINK_COUNTER_LIST(X)
#undef X
};
void link_counters(const struct link *l, struct link_counters *out);

#endif
