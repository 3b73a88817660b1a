#include "net/guard.h"
#include "base/alloc.h"
#include "net/visitor.h"
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FRAME_EXTRA 256 // more than ZMTP, CURVE and TCP add to a small message

#define LOOK_LEAST 1024u

struct guarded {
	bool open;
	struct sockaddr_storage peer; // to know the connection again: descriptors are reused
	socklen_t peer_len;
	uint64_t seen_ns;
	uint64_t seen_bytes;      // never above what was received
	struct visitor *stranger; // whose one it is until an admitted key speaks; else NULL
};

struct guard {
	struct guard_limits limits;
	struct guarded *of; // by descriptor
	struct visitors *visitors;
	size_t size, open;
	uint64_t cuts;
	size_t next; /* to be looked at */
};

struct guard *guard_new(const struct guard_limits *limits)
{
	struct guard *g = alloc_must_zero(1, sizeof *g);
	g->limits = *limits;
	g->visitors = visitor_table(1, 1); // for their counts; nobody takes of the buckets
	return g;
}

void guard_free(struct guard *g)
{
	if (!g)
		return;
	visitor_free(g->visitors);
	free(g->of);
	free(g);
}

static struct guarded *find(const struct guard *g, int fd)
{
	return fd >= 0 && (size_t)fd < g->size && g->of[fd].open ? &g->of[fd] : NULL;
}

static void is_known(struct guarded *c)
{
	if (c->stranger)
		c->stranger->connections--;
	c->stranger = NULL;
}

void guard_accepted(struct guard *g, int fd, uint64_t now_ns)
{
	if (fd < 0)
		return;
	if ((size_t)fd >= g->size) {
		size_t size = ((size_t)fd + 1) * 2;
		g->of = alloc_must_resize(g->of, size, sizeof *g->of);
		memset(g->of + g->size, 0, (size - g->size) * sizeof *g->of);
		g->size = size;
	}
	guard_gone(g, fd);
	struct guarded *c = &g->of[fd];
	*c = (struct guarded){.open = true, .seen_ns = now_ns, .peer_len = sizeof c->peer};
	g->open++;
	if (getpeername(fd, (struct sockaddr *)&c->peer, &c->peer_len))
		c->peer_len = 0;
	c->stranger = visitor_find(g->visitors, (struct sockaddr *)&c->peer, now_ns);
	if (++c->stranger->connections > g->limits.strangers_each ||
		g->open > g->limits.connections_most)
		guard_cut(g, fd);
}

void guard_gone(struct guard *g, int fd)
{
	struct guarded *c = find(g, fd);
	if (!c)
		return;
	is_known(c);
	c->open = false;
	g->open--;
}

void guard_seen(struct guard *g, int fd, size_t bytes, uint64_t now_ns)
{
	struct guarded *c = find(g, fd);
	if (!c)
		return;
	is_known(c);
	c->seen_ns = now_ns;
	c->seen_bytes += bytes + bytes / 16 + FRAME_EXTRA;
}

static bool same(const struct guarded *c, int fd)
{
	struct sockaddr_storage now;
	socklen_t len = sizeof now;
	memset(&now, 0, sizeof now);
	return c->peer_len && getpeername(fd, (struct sockaddr *)&now, &len) == 0 &&
	       len == c->peer_len && memcmp(&now, &c->peer, len) == 0;
}

void guard_cut(struct guard *g, int fd)
{
	struct guarded *c = find(g, fd);
	if (!c || !same(c, fd))
		return;
	shutdown(fd, SHUT_RDWR);
	c->peer_len = 0; // once is enough
	g->cuts++;
}

static bool broken(const struct guard *g, struct guarded *c, int fd, uint64_t now_ns)
{
	struct tcp_info info;
	socklen_t len = sizeof info;
	memset(&info, 0, sizeof info);
	if (now_ns - c->seen_ns > g->limits.silent_ns)
		return true;
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	// Small messages are counted too high; that must not become an allowance for later.
	if (c->seen_bytes > info.tcpi_bytes_received)
		c->seen_bytes = info.tcpi_bytes_received;
	return info.tcpi_bytes_received - c->seen_bytes > g->limits.unseen_most;
}

void guard_tick(struct guard *g, uint64_t now_ns)
{
	/* Two calls of the kernel for each: of thousands only some at a time. */
	visitor_tick(g->visitors, now_ns);
	const size_t share = g->size / 8 > LOOK_LEAST ? g->size / 8 : LOOK_LEAST;
	for (size_t i = 0; i < share && i < g->size; i++) {
		const size_t fd = g->next++ % g->size;
		struct guarded *c = &g->of[fd];
		if (c->open && c->peer_len && broken(g, c, (int)fd, now_ns))
			guard_cut(g, (int)fd);
	}
}

size_t guard_count(const struct guard *g)
{
	return g->open;
}

uint64_t guard_cuts(const struct guard *g)
{
	return g->cuts;
}
