/*
 * The control plane's server: HTTP over TLS 1.3 (evhttp on OpenSSL bufferevents) on an event base
 * that the caller runs.  Every header, body, rate, connection and wait is bounded; a request that
 * breaks a bound is answered with an error or its connection is cut, and counted.  Every reply
 * carries the security headers of SECURITY.md; only what is no HTTP at all gets evhttp's own bare
 * page.  One thread: the base's.  SIGPIPE is to be ignored (signal_watch).
 *
 * A handler reads its request (net/https_request.h) and answers it before it returns, by exactly
 * one of the https_reply_* calls (net/https_reply.h) or sse_open (net/sse.h); after that the
 * request is not to be touched.
 */
#ifndef NET_HTTPS_SERVER_H
#define NET_HTTPS_SERVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "net/egress.h"
#include "net/https_request.h"
#include "net/tls.h"

struct event_base;
struct https_server;
struct https_request;

typedef void https_server_fn(void *arg, struct https_request *r);

struct https_route {
	const char *method; /* "GET" (answers HEAD as well) or "POST" */
	const char *path;   /* exact; with a final '*': everything that begins so */
	size_t body_most;   /* bytes; 0: none taken */
	https_server_fn *fn;
};

struct https_server_config {
	const char *bind; /* "host:port", "[::1]:port", "*:port" (every address); port 0: any */
	const struct tls_pair *tls;       /* borrowed for the call */
	const struct https_route *routes; /* borrowed, outlive the server; the first that fits */
	size_t n_routes;
	void *arg;                 /* of every handler */
	uint32_t per_s, burst;     /* requests of one address (an IPv6 /64 counts as one) */
	uint32_t connections_most; /* open at once, all together */
	uint32_t connections_each; /* of one address */
	uint64_t request_ns;       /* within which a whole request must have come */
	uint64_t reply_ns;         /* within which a piece of a reply must be taken */
	size_t headers_most;       /* bytes of a request's line and headers */
	struct egress *egress;     /* counts bodies and bounds larger ones; borrowed, may be NULL */
};

/* Everything but bind, tls, routes and arg: 50/s, bursts of 200, 1024 and 256 connections, 20 s,
 * 30 s, 16 KiB. */
void https_server_config_init(struct https_server_config *c);

/* Bind and listen.  A port in use or an address that is not this machine's is named in why with its
 * cure.  *out is NULL on failure. */
enum err https_server_new(struct event_base *base, const struct https_server_config *config,
	struct https_server **out, struct why *why) MUST_CHECK;
/* Cuts what is open; before the base is freed.  libevent lets go of a connection that had a
 * callback pending only in the base's next turn: event_base_loop(base, EVLOOP_NONBLOCK) before
 * event_base_free, once nothing else of the base is left.  NULL-safe. */
void https_server_free(struct https_server *s);
uint16_t https_server_port(const struct https_server *s); /* that was bound */

/* What was counted since the start; one row each, shown on the page as it stands here. */
#define HTTPS_SERVER_COUNTER_LIST(X) \
	X(connections, "HTTPS connections open") \
	X(requests, "requests") \
	X(bytes_out, "bytes of replies") \
	X(errors, "requests answered with an error") \
	X(refused_rate, "requests over the rate") \
	X(refused_connections, "connections over the limit") \
	X(cut, "connections cut for being slow")

struct https_server_counters {
#define X(name, text) uint64_t name;
	HTTPS_SERVER_COUNTER_LIST(X)
#undef X
};
void https_server_counters(const struct https_server *s, struct https_server_counters *out);

#endif
