/*
 * Ways through a proxy for connections that a library opens by itself, as ZeroMQ does: each has a
 * local endpoint that this process alone may connect to, once; libcurl opens the connection through
 * the proxy (net/proxy.h), and the bytes are carried both ways.  One thread of its own; the calls
 * may come from any other, and none but tunnel_free blocks.  What is held of one way is bounded.
 */
#ifndef NET_TUNNEL_H
#define NET_TUNNEL_H
#include <stdint.h>
#include "base/err.h"
#include "net/proxy.h"

#define TUNNEL_ENDPOINT 64 /* bytes of an endpoint with its NUL */

struct tunnel;
/* proxy is borrowed; a way must stand after connect_ns. */
enum err tunnel_new(const struct proxy *proxy, uint64_t connect_ns, struct tunnel **out,
	struct why *why) MUST_CHECK;
/* What was written to ways may still leave for linger_ns.  NULL-safe. */
void tunnel_free(struct tunnel *t, uint64_t linger_ns);
const struct proxy *tunnel_proxy(const struct tunnel *t);

/* A way to address, "host:port"; *way names it.  endpoint is one of ZeroMQ's, to be connected to
 * now: what is written there waits until the way stands. */
enum err tunnel_open(struct tunnel *t, const char *address, uint32_t *way,
	char endpoint[static TUNNEL_ENDPOINT], struct why *why) MUST_CHECK;
enum tunnel_state {
	TUNNEL_opening,
	TUNNEL_standing,
	TUNNEL_failed, /* why says how; the endpoint is closed after that is known */
	TUNNEL_ended   /* it stood, and one side has ended it */
};
enum tunnel_state tunnel_look(struct tunnel *t, uint32_t way, struct why *why);
/* It is not asked for any more: what is on its way has a moment to leave. */
void tunnel_leave(struct tunnel *t, uint32_t way);

#endif
