/*
 * ZeroMQ sockets as the data plane wants them: always CURVE, every size bounded, no
 * reconnecting behind our back (net/dial.h does that, with a cause to show).  Nothing here blocks.
 * One thread.
 */
#ifndef NET_ZSOCK_H
#define NET_ZSOCK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "base/err.h"
#include "net/shared.h"

struct zsock {
	void *socket, *monitor; /* both to be polled for reading */
	bool router;
};

struct zsock_options {
	const uint8_t *public_key, *secret_key; /* 32 bytes each */
	uint64_t handshake_ns;
};

/* ROUTER on "host:port" or "*:port"; *port is what was bound.  why names a port in use or an
 * address that is not ours. */
enum err zsock_bind(struct zsock *z, void *context, const struct zsock_options *o,
	const char *address, uint16_t *port, struct why *why) MUST_CHECK;
/* DEALER towards "host:port" and the server's key; the connection comes up later (the monitor
 * tells). */
struct zsock_target {
	const char *address;
	const char *endpoint; /* that leads there (net/tunnel.h); NULL: TCP to the address */
	const uint8_t *key;
};
enum err zsock_connect(struct zsock *z, void *context, const struct zsock_options *o,
	const struct zsock_target *to, struct why *why) MUST_CHECK;
/* What was sent may still leave for linger_ns (until the context ends).  Zeroed is fine, twice too.
 */
void zsock_close(struct zsock *z, uint64_t linger_ns);

/* One message received: frame 1, and frame 2 if there was one.  Release it also when it is bad. */
struct zsock_in {
	uint32_t conn;    /* of a ROUTER: which connection, as long as it lives */
	bool conn_ok;     /* false: the sender chose its routing id itself */
	const char *user; /* User-Id, NULL if there is none; borrowed from frame */
	int fd;           /* of the connection; -1: not known */
	size_t frames;    /* as received, also when more than 2 (the rest is read away) */
	size_t bytes;     /* of all frames */
	zmq_msg_t frame, payload;
};
bool zsock_receive(struct zsock *z, struct zsock_in *in); /* false: nothing there */
void zsock_in_release(struct zsock_in *in);

/* Frame 1, and len bytes of bytes from offset as frame 2 unless bytes is NULL (held until sent).
 * ERR_busy: its queue is full, try later; ERR_closed: no such connection. */
struct zsock_out {
	uint32_t conn; /* of a ROUTER */
	const uint8_t *frame;
	size_t frame_len;
	struct shared *bytes;
	size_t offset, len;
};
enum err zsock_send(struct zsock *z, const struct zsock_out *out) MUST_CHECK;

/* Have this TCP connection use BBR where the kernel allows it. */
void zsock_prefer_bbr(int fd);

/* What happened to connections; new ones are told to use BBR where the kernel allows it. */
enum zsock_event {
	ZSOCK_none, /* nothing waits */
	ZSOCK_other,
	ZSOCK_accepted,   /* value: descriptor */
	ZSOCK_connected,  /* TCP stands; value: descriptor */
	ZSOCK_up,         /* handshake done */
	ZSOCK_refused,    /* the other side does not admit our key */
	ZSOCK_failed,     /* handshake failed otherwise */
	ZSOCK_gone,       /* a connection ended; value: descriptor */
	ZSOCK_unreachable /* TCP could not be established */
};
enum zsock_event zsock_watch(struct zsock *z, int *value);

#endif
