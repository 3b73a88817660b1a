#include "net/zsock.h"
#include "base/buf.h"
#include "base/clock.h"
#include "net/msg.h"
#include "net/zap.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ROUTING 5      // bytes of a routing id that libzmq gave: 0, then a number
#define QUEUE_OUT 1024 // messages; chunks are bounded by credit long before
#define BACKLOG 512
#define CIPHER 256 // what CURVE adds to a frame, rounded up

static int ms(uint64_t ns)
{
	uint64_t v = ns / CLOCK_MS;
	return v > INT_MAX ? INT_MAX : v ? (int)v : 1;
}

static enum err trouble(struct why *why, const char *what)
{
	return err_why(why, ERR_network, "%s: %s", what, zmq_strerror(zmq_errno()));
}

static bool set(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

/* libzmq 4.3 ends the process when a connection whose input it has stopped, because a receive queue
 * is full, breaks and a heartbeat (its own, or a PING of the other side's) becomes due before we
 * have read (stream_engine_base.cpp, out_event: !_io_error).  So the receive queue has no limit of
 * its own; credit, and for who ignores that net/guard.h, bound what can be in it.  And ZMTP's
 * heartbeats stay off: ours find a dead link, and both sides then close it. */
static bool set_common(void *s, const struct zsock_options *o)
{
	int64_t most = MSG_PAYLOAD_MAX + CIPHER;
	return set(s, ZMQ_LINGER, 0) && set(s, ZMQ_IPV6, 1) && set(s, ZMQ_SNDHWM, QUEUE_OUT) &&
	       set(s, ZMQ_RCVHWM, 0) && set(s, ZMQ_HANDSHAKE_IVL, ms(o->handshake_ns)) &&
	       zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &most, sizeof most) == 0 &&
	       zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, o->secret_key, ZAP_KEY) == 0;
}

static bool monitor(struct zsock *z, void *context)
{
	char name[64];
	snprintf(name, sizeof name, "inproc://monitor-%p", z->socket);
	// Telling of a failed bind would overwrite the errno that says why.
	if (zmq_socket_monitor(z->socket, name, ZMQ_EVENT_ALL & ~ZMQ_EVENT_BIND_FAILED))
		return false;
	z->monitor = zmq_socket(context, ZMQ_PAIR);
	return z->monitor && set(z->monitor, ZMQ_LINGER, 0) && zmq_connect(z->monitor, name) == 0;
}

static enum err bind_why(struct why *why, const char *address)
{
	switch (zmq_errno()) {
	case EADDRINUSE:
		return err_why(why, ERR_network,
			"port %s is in use by another program; stop that or choose another port",
			strrchr(address, ':') ? strrchr(address, ':') + 1 : address);
	case EADDRNOTAVAIL:
	case ENODEV:
		return err_why(why, ERR_network,
			"%s is not an address of this machine; use *:PORT for all of them",
			address);
	case EACCES:
		return err_why(why, ERR_permission,
			"not permitted to listen on %s; use a port above 1023", address);
	case EINVAL: return err_why(why, ERR_syntax, "\"%s\" is not HOST:PORT", address);
	default:
		return err_why(why, ERR_network, "cannot listen on %s: %s", address,
			zmq_strerror(zmq_errno()));
	}
}

static enum err bound_port(void *socket, uint16_t *port, struct why *why)
{
	char endpoint[512];
	size_t size = sizeof endpoint;
	if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size))
		return trouble(why, "the port that was bound is not known");
	const char *colon = strrchr(endpoint, ':');
	*port = colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
	return ERR_OK;
}

enum err zsock_bind(struct zsock *z, void *context, const struct zsock_options *o,
	const char *address, uint16_t *port, struct why *why)
{
	char url[512];
	*z = (struct zsock){.router = true, .socket = zmq_socket(context, ZMQ_ROUTER)};
	snprintf(url, sizeof url, "tcp://%s", address);
	if (!z->socket || !set_common(z->socket, o) || !set(z->socket, ZMQ_CURVE_SERVER, 1) ||
		!set(z->socket, ZMQ_ROUTER_MANDATORY, 1) || !set(z->socket, ZMQ_BACKLOG, BACKLOG) ||
		zmq_setsockopt(z->socket, ZMQ_ZAP_DOMAIN, ZAP_DOMAIN, strlen(ZAP_DOMAIN)) ||
		!monitor(z, context)) {
		enum err err = trouble(why, "a socket for links cannot be made");
		zsock_close(z, 0);
		return err;
	}
	enum err err = zmq_bind(z->socket, url) ? bind_why(why, address)
						: bound_port(z->socket, port, why);
	if (err)
		zsock_close(z, 0);
	return err;
}

enum err zsock_connect(struct zsock *z, void *context, const struct zsock_options *o,
	const struct zsock_target *to, struct why *why)
{
	char url[512];
	*z = (struct zsock){.socket = zmq_socket(context, ZMQ_DEALER)};
	snprintf(url, sizeof url, to->endpoint ? "%s" : "tcp://%s",
		to->endpoint ? to->endpoint : to->address);
	if (!z->socket || !set_common(z->socket, o) || !set(z->socket, ZMQ_RECONNECT_IVL, -1) ||
		!set(z->socket, ZMQ_CONNECT_TIMEOUT, ms(o->handshake_ns)) ||
		zmq_setsockopt(z->socket, ZMQ_CURVE_PUBLICKEY, o->public_key, ZAP_KEY) ||
		zmq_setsockopt(z->socket, ZMQ_CURVE_SERVERKEY, to->key, ZAP_KEY) ||
		!monitor(z, context)) {
		enum err err = trouble(why, "a socket for a link cannot be made");
		zsock_close(z, 0);
		return err;
	}
	if (zmq_connect(z->socket, url) == 0)
		return ERR_OK;
	enum err err = err_why(why, ERR_syntax, "\"%s\" cannot be connected to: %s", to->address,
		zmq_strerror(zmq_errno()));
	zsock_close(z, 0);
	return err;
}

void zsock_close(struct zsock *z, uint64_t linger_ns)
{
	if (z->socket) {
		zmq_socket_monitor(z->socket, NULL, 0);
		set(z->socket, ZMQ_LINGER, linger_ns ? ms(linger_ns) : 0);
		zmq_close(z->socket);
	}
	if (z->monitor)
		zmq_close(z->monitor);
	z->socket = z->monitor = NULL;
}

static bool receive_routing(struct zsock *z, struct zsock_in *in)
{
	uint8_t id[ROUTING + 1];
	int n = zmq_recv(z->socket, id, sizeof id, ZMQ_DONTWAIT);
	if (n < 0)
		return false;
	in->conn_ok = n == ROUTING && id[0] == 0;
	struct rd r;
	rd_init(&r, id + 1, ROUTING - 1);
	in->conn = in->conn_ok ? rd_u32(&r) : 0;
	return true;
}

bool zsock_receive(struct zsock *z, struct zsock_in *in)
{
	*in = (struct zsock_in){.fd = -1, .conn_ok = true};
	if (z->router && !receive_routing(z, in))
		return false;
	zmq_msg_init(&in->frame);
	zmq_msg_init(&in->payload);
	int more = 1;
	for (; more; in->frames++) {
		// Each receive gives up what the message held before, so a long tail costs nothing.
		zmq_msg_t *to = in->frames ? &in->payload : &in->frame;
		if (zmq_msg_recv(to, z->socket, ZMQ_DONTWAIT) < 0) {
			zsock_in_release(in);
			return false;
		}
		in->bytes += zmq_msg_size(to);
		more = zmq_msg_more(to);
	}
	in->user = zmq_msg_gets(&in->frame, "User-Id");
	in->fd = zmq_msg_get(&in->frame, ZMQ_SRCFD);
	return true;
}

void zsock_in_release(struct zsock_in *in)
{
	zmq_msg_close(&in->frame);
	zmq_msg_close(&in->payload);
}

static void drop_bytes(void *data, void *hint)
{
	(void)data;
	shared_drop(hint);
}

static enum err sent(int rc)
{
	if (rc >= 0)
		return ERR_OK;
	return zmq_errno() == EAGAIN ? ERR_busy : ERR_closed;
}

/* The first frame of a message is the one that may be refused; those after it go where it went. */
enum err zsock_send(struct zsock *z, const struct zsock_out *out)
{
	if (z->router) {
		uint8_t id[ROUTING] = {0};
		for (int i = 0; i < ROUTING - 1; i++)
			id[1 + i] = (uint8_t)(out->conn >> (8 * i));
		enum err err = sent(zmq_send(z->socket, id, sizeof id, ZMQ_DONTWAIT | ZMQ_SNDMORE));
		if (err)
			return err;
	}
	int more = out->bytes ? ZMQ_SNDMORE : 0;
	enum err err = sent(zmq_send(z->socket, out->frame, out->frame_len, ZMQ_DONTWAIT | more));
	if (err || !out->bytes)
		return err;
	zmq_msg_t m;
	uint8_t *data = (uint8_t *)(uintptr_t)(shared_data(out->bytes) + out->offset);
	if (zmq_msg_init_data(&m, data, out->len, drop_bytes, shared_hold(out->bytes))) {
		shared_drop(out->bytes);
		return ERR_nomem;
	}
	err = sent(zmq_msg_send(&m, z->socket, ZMQ_DONTWAIT));
	if (err)
		zmq_msg_close(&m);
	return err;
}

static enum zsock_event name_event(uint16_t event)
{
	switch (event) {
	case ZMQ_EVENT_ACCEPTED: return ZSOCK_accepted;
	case ZMQ_EVENT_CONNECTED: return ZSOCK_connected;
	case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: return ZSOCK_up;
	case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return ZSOCK_refused;
	case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
	case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: return ZSOCK_failed;
	case ZMQ_EVENT_DISCONNECTED: return ZSOCK_gone;
	case ZMQ_EVENT_CLOSED: return ZSOCK_unreachable;
	default: return ZSOCK_other;
	}
}

/* Rounds leave a link idle in between, and after a pause cubic begins from ten packets, which costs
 * a far link several round trips each time; and it takes every lost packet for congestion.  BBR
 * keeps the rate that it has seen.  Where the kernel does not have it, or not for everybody (sysctl
 * net.ipv4.tcp_allowed_congestion_control), the machine's own choice stays. */
void zsock_prefer_bbr(int fd)
{
	static const char name[] = "bbr";
	(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, sizeof name - 1);
}

enum zsock_event zsock_watch(struct zsock *z, int *value)
{
	uint8_t data[8] = {0}, rest[256];
	int more = 0;
	size_t size = sizeof more;
	int n = zmq_recv(z->monitor, data, sizeof data, ZMQ_DONTWAIT);
	if (n < 0)
		return ZSOCK_none;
	while (zmq_getsockopt(z->monitor, ZMQ_RCVMORE, &more, &size) == 0 && more)
		if (zmq_recv(z->monitor, rest, sizeof rest, ZMQ_DONTWAIT) < 0)
			break;
	uint16_t event;
	int32_t number;
	memcpy(&event, data, sizeof event); // in the machine's order: it never left the process
	memcpy(&number, data + 2, sizeof number);
	*value = number;
	enum zsock_event what = n == 6 ? name_event(event) : ZSOCK_other;
	// If it is closed meanwhile and the number belongs to another socket, that is one of ours
	// too.
	if (what == ZSOCK_accepted || what == ZSOCK_connected)
		zsock_prefer_bbr(number);
	return what;
}
