/*
 * Server-sent events: one stream of numbered events to every browser that listens.  A client gets
 * its next piece only when the last has drained; one that falls behind by more than a bound is
 * dropped, and comes back by itself with the number of the last event it saw.  The server's thread.
 */
#ifndef NET_SSE_H
#define NET_SSE_H
#include <stddef.h>
#include <stdint.h>
#include "net/https_server.h"

struct sse;
struct sse_client;

struct sse_config {
	size_t clients_most; /* more are answered 503 */
	size_t behind_most;  /* bytes that may wait for one client */
	uint64_t ping_ns;    /* a comment at such intervals finds out who is gone */
	/* A new client: last is the number of the last event it saw, or NULL at its first visit. To
	 * be answered with sse_tell for whatever it missed; NULL: nothing is ever caught up. */
	void (*arrived)(void *arg, struct sse_client *c, const uint64_t *last);
	void *arg;
};

struct sse *sse_new(struct event_base *base, const struct sse_config *config);
void sse_free(struct sse *s);                          /* says goodbye to all; NULL-safe */
void sse_open(struct sse *s, struct https_request *r); /* answers r with the stream */
/* To all; event is its type (a word), data any text (JSON). */
void sse_send(struct sse *s, uint64_t id, const char *event, const char *data);
void sse_tell(struct sse_client *c, uint64_t id, const char *event, const char *data); /* to one */
size_t sse_count(const struct sse *s);     /* clients now */
uint64_t sse_dropped(const struct sse *s); /* clients dropped for being slow */

#endif
