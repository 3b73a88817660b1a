/* How the ring comes together: a connection to the next rank, one from the rank before, and on each
 * a greeting that says who is there. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/help_reduce_in.h"

#define MAGIC 0x676e6972u /* "ring" */
#define RETRY_MS 50

struct greeting {
	uint32_t magic, rank, world, wire;
	struct hash run;
};

static enum err resolve(const char *host, uint16_t port, struct addrinfo **out, struct why *why)
{
	char service[8];
	const struct addrinfo hints = {
		.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	snprintf(service, sizeof service, "%u", port);
	int e = getaddrinfo(host, service, &hints, out);
	return e ? err_why(why, ERR_network, "%s: %s", host, gai_strerror(e)) : ERR_OK;
}

enum err help_reduce_listen(const char *host, uint16_t *port, int *fd, struct why *why)
{
	struct addrinfo *a = NULL;
	struct sockaddr_in got;
	socklen_t len = sizeof got;
	int one = 1;
	enum err e = resolve(host, *port, &a, why);
	if (e)
		return e;
	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = *fd >= 0 && !setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
		    !bind(*fd, a->ai_addr, a->ai_addrlen) && !listen(*fd, 8) &&
		    !getsockname(*fd, (struct sockaddr *)&got, &len);
	int error = errno;
	freeaddrinfo(a);
	if (good) {
		*port = ntohs(got.sin_port);
		return ERR_OK;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return err_why(
		why, ERR_network, "cannot listen on %s:%u: %s", host, *port, strerror(error));
}

static int left_ms(uint64_t deadline)
{
	uint64_t now = clock_now_ns();
	return now < deadline ? (int)((deadline - now) / CLOCK_MS) : 0;
}

/* The next rank may be started later. */
static enum err reach(const char *host, uint16_t port, uint64_t deadline, int *fd, struct why *why)
{
	struct addrinfo *a = NULL;
	enum err e = resolve(host, port, &a, why);
	while (!e) {
		*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (*fd >= 0 && !connect(*fd, a->ai_addr, a->ai_addrlen))
			break;
		int error = errno, left = left_ms(deadline);
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		if (!left)
			e = err_why(why, ERR_timeout, "no next rank at %s:%u: %s", host, port,
				strerror(error));
		else
			poll(NULL, 0, left < RETRY_MS ? left : RETRY_MS);
	}
	if (a)
		freeaddrinfo(a);
	return e;
}

static enum err await(int listener, uint64_t deadline, int *fd, struct why *why)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	if (poll(&p, 1, left_ms(deadline)) == 1)
		*fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	return *fd >= 0 ? ERR_OK
			: err_why(why, ERR_timeout, "the rank before has not connected in time");
}

static enum err hear(int fd, uint64_t deadline, struct greeting *g, struct why *why)
{
	size_t have = 0;
	while (have < sizeof *g) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (poll(&p, 1, left_ms(deadline)) != 1)
			return err_why(why, ERR_timeout, "the rank before does not greet");
		ssize_t n = recv(fd, (char *)g + have, sizeof *g - have, 0);
		if (n <= 0)
			return err_why(why, ERR_closed, "the rank before went away");
		have += (size_t)n;
	}
	return ERR_OK;
}

static enum err check(const struct help_reduce_place *p, const struct greeting *g, struct why *why)
{
	unsigned before = (p->rank + p->world - 1) % p->world;
	if (g->magic != MAGIC)
		return err_why(why, ERR_refused, "what has connected is no rank of a ring");
	if (g->rank != before || g->world != p->world)
		return err_why(why, ERR_refused,
			"rank %u of %u has connected, not rank %u of %u; give all ranks the same "
			"addresses",
			g->rank, g->world, before, p->world);
	if (g->wire != (uint32_t)p->wire || !hash_equal(&g->run, &p->run))
		return err_why(why, ERR_refused,
			"rank %u has another spec or another wire; give all ranks the same",
			before);
	return ERR_OK;
}

enum err help_reduce_join(const struct help_reduce_place *place, int listener,
	const char *next_host, uint16_t next_port, uint64_t patience_ns,
	struct help_reduce_ring **out, struct why *why)
{
	const uint64_t deadline = clock_now_ns() + patience_ns;
	struct greeting mine = {MAGIC, place->rank, place->world, place->wire, place->run}, theirs;
	struct help_reduce_ring *r = alloc_must_zero(1, sizeof *r);
	int one = 1;
	*r = (struct help_reduce_ring){.place = *place, .next = -1, .prev = -1};
	enum err e = reach(next_host, next_port, deadline, &r->next, why);
	if (!e && send(r->next, &mine, sizeof mine, MSG_NOSIGNAL) != (ssize_t)sizeof mine)
		e = err_why(why, ERR_closed, "the next rank went away");
	if (!e)
		e = await(listener, deadline, &r->prev, why);
	if (!e)
		e = hear(r->prev, deadline, &theirs, why);
	if (!e)
		e = check(place, &theirs, why);
	if (e) {
		help_reduce_leave(r);
		return e;
	}
	setsockopt(r->next, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	*out = r;
	return ERR_OK;
}

void help_reduce_leave(struct help_reduce_ring *r)
{
	if (!r)
		return;
	if (r->next >= 0)
		close(r->next);
	if (r->prev >= 0)
		close(r->prev);
	free(r);
}
