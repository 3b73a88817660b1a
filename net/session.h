/*
 * One side's view of the link to one key, without sockets or clock: who is in charge (hello,
 * welcome, clones), whether the other side is alive, how many messages it may send, and the
 * transfers in both directions.  net/link.h feeds it what arrived and the time, and carries out
 * what it asks for through struct session_io.
 *
 *   coordinator   down -> greeting (hello came) -> open (our welcome went out) -> down
 *   peer          down -> greeting (hello went out) -> open (a welcome came) -> down
 */
#ifndef NET_SESSION_H
#define NET_SESSION_H
#include <stdbool.h>
#include <stdint.h>
#include "net/link.h"

/* A connection: which one, and its descriptor for net/guard.h. */
struct session_conn {
	uint32_t id;
	int fd;
};

struct session_io {
	void *arg;
	/* Send now; ERR_busy: the queue is full; ERR_closed: there is no such connection. */
	enum err (*send)(
		void *arg, const uint8_t *key, uint32_t conn, const struct transfer_out *out);
	void (*event)(void *arg, struct link_event *e);          /* takes e */
	void (*cut)(void *arg, const struct session_conn *conn); /* coordinator */
};

/* What the sessions of a link share; borrowed by each. */
struct session_world {
	const struct link_config *config;
	struct session_io io;
	struct link_counters *counters;
	struct transfer_budget budget;
};

struct session;
struct session *session_new(struct session_world *world, const uint8_t key[static LINK_KEY]);
void session_free(struct session *s); /* without an event */
void session_cut(struct session *s);  /* coordinator: its connection, without an event */
const uint8_t *session_key(const struct session *s);
bool session_is_open(const struct session *s);
bool session_is_down(const struct session *s);

struct session_in {
	struct session_conn conn;
	const shoal_header *header; /* NULL: it could not be decoded, why says so */
	const struct why *why;
	const uint8_t *payload;
	size_t payload_len;
};
/* A message came.  true: it was in order (and its connection is worth keeping). */
bool session_take(struct session *s, const struct session_in *in, uint64_t now_ns);

/* Peer: the handshake of a new connection is done; says hello. */
void session_up(struct session *s, uint32_t conn, const shoal_hello *hello, uint64_t now_ns);
/* The connection ended or is to end: an event if the link was open. */
void session_fail(struct session *s, enum err code, const char *text);
/* Peer: why the last greeting failed (a refusal, no answer), if it did; asking forgets it. */
bool session_failed(struct session *s, struct why *why);

/* From the control loop. */
void session_send(struct session *s, const shoal_header *header, struct shared *payload);
void session_status(struct session *s, const shoal_heartbeat *status, uint64_t now_ns);
void session_push(struct session *s, const struct link_object *object);
void session_cancel(struct session *s, uint64_t ref);
void session_answer(struct session *s, uint64_t ref, enum err code, const char *text);

/* Heartbeats, time-outs, transfers.  Due every few milliseconds to a tenth of a second. */
void session_tick(struct session *s, uint64_t now_ns);
/* Send what the transfers have to say; what had to wait, if anything: for room in a full queue, or
 * for the egress to let bulk go. */
enum session_rest { SESSION_rest_none, SESSION_rest_queue, SESSION_rest_egress };
enum session_rest session_pump(struct session *s, uint64_t now_ns);

#endif
