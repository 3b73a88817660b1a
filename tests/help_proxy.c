#include "tests/help_proxy.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "net/base64.h"

#define REQUEST_MAX 2048
#define LOOK_MS 50

struct help_proxy {
	struct help_proxy *next;
	uint16_t port;
	int listener;
	pthread_t thread;
	atomic_bool stop;
	atomic_uint mood, ports, guests; /* ports: two of 16 bits; 0: all */
	_Atomic(const char *) password;
	atomic_ullong opened[2], denied, bytes;
};

/* One connection, on a thread that frees it. */
struct guest {
	struct help_proxy *p;
	int fd;
};

struct wish {
	enum help_proxy_kind kind;
	char host[256];
	uint16_t port;
};

static struct help_proxy *all;

/* ---- bytes; false: the other side, or the proxy, has ended */

static bool wait_for(struct help_proxy *p, int fd, short events)
{
	struct pollfd f = {.fd = fd, .events = events};
	while (!atomic_load(&p->stop))
		if (poll(&f, 1, LOOK_MS) > 0)
			return true;
	return false;
}

static bool take(struct help_proxy *p, int fd, void *to, size_t n)
{
	for (size_t have = 0; have < n;) {
		ssize_t got =
			wait_for(p, fd, POLLIN) ? recv(fd, (char *)to + have, n - have, 0) : 0;
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return true;
}

static bool put(struct help_proxy *p, int fd, const void *from, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t went = wait_for(p, fd, POLLOUT)
				       ? send(fd, (const char *)from + done, n - done, MSG_NOSIGNAL)
				       : 0;
		if (went <= 0)
			return false;
		done += (size_t)went;
	}
	return true;
}

/* ---- what is asked for */

static bool socks_user(struct help_proxy *p, int fd, const char *password)
{
	uint8_t head[2], n, user[256] = {0}, word[256] = {0};
	char both[520];
	if (!put(p, fd, "\5\2", 2) || !take(p, fd, head, 2) || !take(p, fd, user, head[1]) ||
		!take(p, fd, &n, 1) || !take(p, fd, word, n))
		return false;
	snprintf(both, sizeof both, "%s:%s", (const char *)user, (const char *)word);
	const bool good = !strcmp(both, password);
	return put(p, fd, good ? "\1\0" : "\1\1", 2) && good;
}

static bool socks_greeting(struct help_proxy *p, int fd)
{
	uint8_t n, methods[256];
	const char *password = atomic_load(&p->password);
	if (!take(p, fd, &n, 1) || !take(p, fd, methods, n))
		return false;
	if (!password)
		return put(p, fd, "\5\0", 2);
	if (memchr(methods, 2, n))
		return socks_user(p, fd, password);
	(void)put(p, fd, "\5\377", 2);
	return false;
}

static bool read_socks(struct help_proxy *p, int fd, struct wish *w)
{
	uint8_t head[4], n = 0, port[2], number[16];
	if (!socks_greeting(p, fd) || !take(p, fd, head, 4))
		return false;
	if (head[3] == 3 && (!take(p, fd, &n, 1) || !take(p, fd, w->host, n)))
		return false;
	if (head[3] == 1 &&
		(!take(p, fd, number, 4) || !inet_ntop(AF_INET, number, w->host, sizeof w->host)))
		return false;
	if (head[3] == 4 &&
		(!take(p, fd, number, 16) || !inet_ntop(AF_INET6, number, w->host, sizeof w->host)))
		return false;
	w->port = take(p, fd, port, 2) ? (uint16_t)(port[0] << 8 | port[1]) : 0;
	return w->port;
}

static bool http_user(struct help_proxy *p, int fd, const char *request)
{
	char code[400], line[460];
	const char *password = atomic_load(&p->password);
	if (!password)
		return true;
	/* Theirs is base64 with padding, ours without. */
	base64_encode((const uint8_t *)password, strlen(password), code);
	snprintf(line, sizeof line, "Proxy-Authorization: Basic %s", code);
	if (strstr(request, line))
		return true;
	static const char wants[] = "HTTP/1.1 407 Proxy Authentication Required\r\n"
				    "Proxy-Authenticate: Basic realm=\"test\"\r\n"
				    "Content-Length: 0\r\nConnection: close\r\n\r\n";
	(void)put(p, fd, wants, sizeof wants - 1);
	return false;
}

static bool read_connect(struct help_proxy *p, int fd, struct wish *w)
{
	char line[REQUEST_MAX] = "C";
	size_t n = 1;
	while (n < sizeof line - 1 && !strstr(line, "\r\n\r\n"))
		if (!take(p, fd, line + n++, 1))
			return false;
	char *host = line + strlen("CONNECT "), *end = strchr(host, ' ');
	char *colon = end ? memrchr(host, ':', (size_t)(end - host)) : NULL;
	if (!colon || !http_user(p, fd, line))
		return false;
	const bool v6 = *host == '[';
	snprintf(w->host, sizeof w->host, "%.*s", (int)(colon - host - 2 * v6), host + v6);
	w->port = (uint16_t)strtoul(colon + 1, NULL, 10);
	return true;
}

static bool read_wish(struct help_proxy *p, int fd, struct wish *w)
{
	uint8_t first;
	if (!take(p, fd, &first, 1))
		return false;
	if (atomic_load(&p->mood) == HELP_PROXY_silent)
		return take(p, fd, (char[REQUEST_MAX]){0}, REQUEST_MAX) && false;
	if (atomic_load(&p->mood) == HELP_PROXY_strange)
		return put(p, fd, "220 mail.example.org ESMTP\r\n\r\n", 30) && false;
	w->kind = first == 5 ? HELP_PROXY_socks : HELP_PROXY_http;
	return first == 5 ? read_socks(p, fd, w) : first == 'C' && read_connect(p, fd, w);
}

/* ---- what comes of it */

static int call(const struct wish *w)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(w->port)};
	const bool here = !strcmp(w->host, HELP_PROXY_NAME);
	int yes = 1, fd;
	if (inet_pton(AF_INET, here ? "127.0.0.1" : w->host, &v4.sin_addr) != 1 ||
		(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	if (connect(fd, (const struct sockaddr *)&v4, sizeof v4) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool answer(struct help_proxy *p, int fd, const struct wish *w, int reply)
{
	uint8_t socks[10] = {5, (uint8_t)reply, 0, 1};
	const char *http = reply == 2   ? "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
			   : reply == 4 ? "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
					: "HTTP/1.1 200 Connection established\r\n\r\n";
	return w->kind == HELP_PROXY_socks ? put(p, fd, socks, sizeof socks)
					   : put(p, fd, http, strlen(http));
}

static void carry(struct help_proxy *p, int a, int b)
{
	const int fd[2] = {a, b};
	char bytes[16384];
	while (!atomic_load(&p->stop)) {
		struct pollfd f[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
		(void)poll(f, 2, LOOK_MS);
		for (int i = 0; i < 2; i++) {
			if (!f[i].revents)
				continue;
			ssize_t n = recv(fd[i], bytes, sizeof bytes, 0);
			if (n <= 0 || !put(p, fd[!i], bytes, (size_t)n))
				return;
			atomic_fetch_add(&p->bytes, (unsigned long long)n);
		}
	}
}

static void *serve(void *arg)
{
	struct guest *g = arg;
	struct help_proxy *p = g->p;
	struct wish w = {0};
	int there = -1;
	if (read_wish(p, g->fd, &w)) {
		const unsigned mood = atomic_load(&p->mood);
		const unsigned ports = atomic_load(&p->ports);
		const bool denied = mood == HELP_PROXY_denies ||
				    (ports && w.port != ports >> 16 && w.port != (ports & 0xffff));
		atomic_fetch_add(&p->denied, denied);
		there = denied || mood == HELP_PROXY_lost ? -1 : call(&w);
		atomic_fetch_add(&p->opened[w.kind], there >= 0);
		if (answer(p, g->fd, &w, denied ? 2 : there < 0 ? 4 : 0) && there >= 0)
			carry(p, g->fd, there);
	}
	if (there >= 0)
		close(there);
	shutdown(g->fd, SHUT_WR); /* so that what was said arrives, though not all was read */
	char rest[512];
	while (take(p, g->fd, rest, 1))
		;
	close(g->fd);
	free(g);
	atomic_fetch_sub(&p->guests, 1);
	return NULL;
}

static void *run(void *arg)
{
	struct help_proxy *p = arg;
	while (wait_for(p, p->listener, POLLIN)) {
		struct guest *g = alloc_must_zero(1, sizeof *g);
		pthread_t thread;
		g->p = p;
		g->fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
		atomic_fetch_add(&p->guests, 1);
		if (g->fd >= 0 && !pthread_create(&thread, NULL, serve, g)) {
			pthread_detach(thread);
			continue;
		}
		atomic_fetch_sub(&p->guests, 1);
		free(g);
	}
	return NULL;
}

/* ---- the test's side */

struct help_proxy *help_proxy_start(uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	const int yes = 1;
	struct help_proxy *p = alloc_must_zero(1, sizeof *p);
	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(p->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(p->listener, (struct sockaddr *)&at, sizeof at) || listen(p->listener, 64) ||
		getsockname(p->listener, (struct sockaddr *)&at, &len))
		fail_msg("the proxy cannot listen at port %u: %s", port, strerror(errno));
	p->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
	p->next = all;
	all = p;
	return p;
}

uint16_t help_proxy_port(const struct help_proxy *p)
{
	return p->port;
}

void help_proxy_mood(struct help_proxy *p, enum help_proxy_mood mood)
{
	atomic_store(&p->mood, mood);
}

void help_proxy_password(struct help_proxy *p, const char *user_password)
{
	atomic_store(&p->password, user_password);
}

void help_proxy_ports(struct help_proxy *p, uint16_t one, uint16_t other)
{
	atomic_store(&p->ports, (unsigned)one << 16 | other);
}

uint64_t help_proxy_opened(const struct help_proxy *p, enum help_proxy_kind kind)
{
	return atomic_load(&p->opened[kind]);
}

uint64_t help_proxy_denied(const struct help_proxy *p)
{
	return atomic_load(&p->denied);
}

uint64_t help_proxy_bytes(const struct help_proxy *p)
{
	return atomic_load(&p->bytes);
}

void help_proxy_stop(struct help_proxy *p)
{
	struct help_proxy **at = &all;
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	atomic_store(&p->stop, true);
	pthread_join(p->thread, NULL);
	close(p->listener);
	while (atomic_load(&p->guests))
		poll(NULL, 0, 1); /* they look at stop all the time */
	free(p);
}

void help_proxy_end(void)
{
	while (all)
		help_proxy_stop(all);
}
