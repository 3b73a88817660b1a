/* An HTTPS server in a thread of its own, and a client that speaks TLS by hand, for tests. */
#ifndef TESTS_HELP_HTTPS_H
#define TESTS_HELP_HTTPS_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "net/https_server.h"
#include "net/sse.h"

#define HELP_HTTPS_PATIENCE_S 20

struct help_https {
	struct https_server_config config; // to be changed before help_https_start
	struct sse_config sse_config;
	struct tls_pair *tls;
	struct event_base *base;
	struct https_server *server;
	struct sse *sse;
	struct mailbox *box;
	pthread_t thread;
	atomic_uint_fast64_t connections, cut, refused_rate, refused_connections, watching, dropped;
	bool keep_sse; // the server is freed before the streams
};

struct help_https_mail {
	struct mail mail;
	uint64_t id;
	char data[256];
	size_t pad; // more bytes of data
};

enum { HELP_HTTPS_stop, HELP_HTTPS_event };

static inline void help_https_drop(struct mail *m)
{
	free(m);
}

static inline void help_https_on_mail(evutil_socket_t fd, short what, void *arg)
{
	struct help_https *h = arg;
	struct mail *m;
	(void)fd, (void)what;
	while ((m = mailbox_take(h->box))) {
		struct help_https_mail *e = (struct help_https_mail *)m;
		if (m->kind == HELP_HTTPS_event) {
			char *data = alloc_must_zero(1, e->pad + sizeof e->data);
			memset(data, '.', e->pad);
			memcpy(data + e->pad, e->data, sizeof e->data);
			sse_send(h->sse, e->id, "news", data);
			free(data);
		} else {
			event_base_loopbreak(h->base);
		}
		m->drop(m);
	}
}

/* The numbers for the test's thread to read. */
static inline void help_https_on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct help_https *h = arg;
	struct https_server_counters c;
	(void)fd, (void)what;
	https_server_counters(h->server, &c);
	atomic_store(&h->connections, c.connections);
	atomic_store(&h->cut, c.cut);
	atomic_store(&h->refused_rate, c.refused_rate);
	atomic_store(&h->refused_connections, c.refused_connections);
	atomic_store(&h->watching, sse_count(h->sse));
	atomic_store(&h->dropped, sse_dropped(h->sse));
}

static inline void *help_https_loop(void *arg)
{
	struct help_https *h = arg;
	struct timeval each = {0, 5000};
	struct event *mail =
		event_new(h->base, mailbox_fd(h->box), EV_READ | EV_PERSIST, help_https_on_mail, h);
	struct event *tick = event_new(h->base, -1, EV_PERSIST, help_https_on_tick, h);
	event_add(mail, NULL);
	event_add(tick, &each);
	event_base_dispatch(h->base);
	event_free(mail);
	event_free(tick);
	return NULL;
}

static inline void help_https_init(
	struct help_https *h, const struct https_route *routes, size_t n, void *arg)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "::1"};
	signal(SIGPIPE, SIG_IGN);
	*h = (struct help_https){0};
	https_server_config_init(&h->config);
	h->config.bind = "127.0.0.1:0";
	h->config.routes = routes;
	h->config.n_routes = n;
	h->config.arg = arg;
	h->config.per_s = h->config.burst = 100000;
	h->sse_config = (struct sse_config){
		.clients_most = 4, .behind_most = 65536, .ping_ns = CLOCK_SECOND};
	h->tls = tls_make(names, 3);
}

static inline void help_https_start(struct help_https *h)
{
	struct why why = {0};
	h->base = event_base_new();
	h->box = mailbox_new();
	h->config.tls = h->tls;
	h->sse = sse_new(h->base, &h->sse_config);
	if (https_server_new(h->base, &h->config, &h->server, &why))
		fail_msg("%s", why.text);
	assert_int_equal(pthread_create(&h->thread, NULL, help_https_loop, h), 0);
}

static inline void help_https_event(struct help_https *h, uint64_t id, const char *data, size_t pad)
{
	struct help_https_mail *m = alloc_must_zero(1, sizeof *m);
	m->mail = (struct mail){.kind = HELP_HTTPS_event, .drop = help_https_drop};
	m->id = id;
	m->pad = pad;
	snprintf(m->data, sizeof m->data, "%s", data);
	mailbox_put(h->box, &m->mail);
}

static inline void help_https_stop(struct help_https *h)
{
	struct help_https_mail *m = alloc_must_zero(1, sizeof *m);
	m->mail = (struct mail){.kind = HELP_HTTPS_stop, .drop = help_https_drop};
	mailbox_put(h->box, &m->mail);
	pthread_join(h->thread, NULL);
	if (h->keep_sse)
		https_server_free(h->server);
	sse_free(h->sse);
	if (!h->keep_sse)
		https_server_free(h->server);
	event_base_loop(h->base, EVLOOP_NONBLOCK); // as https_server_free asks
	event_base_free(h->base);
	mailbox_free(h->box);
	tls_free(h->tls);
}

/* Wait until a counter is at least so large (or, with least 0, is zero); fails after a while. */
static inline void help_https_await(atomic_uint_fast64_t *counter, uint64_t least)
{
	uint64_t end = clock_now_ns() + HELP_HTTPS_PATIENCE_S * CLOCK_SECOND;
	while (least ? atomic_load(counter) < least : atomic_load(counter) > 0) {
		if (clock_now_ns() > end)
			fail_msg("a counter stays at %lu", (unsigned long)atomic_load(counter));
		poll(NULL, 0, 2);
	}
}

/* ---- by hand */
struct help_https_raw {
	int fd;
	SSL_CTX *ctx;
	SSL *ssl;
};

static inline int help_https_connect(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct timeval patience = {HELP_HTTPS_PATIENCE_S, 0};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

/* false when the handshake fails, at the latest when the first byte is read */
static inline bool help_https_raw_open(struct help_https_raw *r, uint16_t port, int version)
{
	r->fd = help_https_connect(port);
	r->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_max_proto_version(r->ctx, version);
	r->ssl = SSL_new(r->ctx);
	SSL_set_fd(r->ssl, r->fd);
	bool good = SSL_connect(r->ssl) == 1;
	ERR_clear_error();
	return good;
}

static inline void help_https_raw_close(struct help_https_raw *r)
{
	SSL_free(r->ssl);
	SSL_CTX_free(r->ctx);
	close(r->fd);
}

static inline bool help_https_raw_write(struct help_https_raw *r, const char *text)
{
	bool good = SSL_write(r->ssl, text, (int)strlen(text)) > 0;
	ERR_clear_error();
	return good;
}

/* Bytes until the other side closes, or until the text `until` is among them; caller frees. */
static inline char *help_https_raw_read(struct help_https_raw *r, const char *until)
{
	size_t n = 0, room = 1 << 22;
	char *out = alloc_must(room);
	for (;;) {
		int got = SSL_read(r->ssl, out + n, (int)(room - 1 - n));
		if (got <= 0)
			break;
		n += (size_t)got;
		out[n] = 0;
		if (until && strstr(out, until))
			break;
		assert_true(n < room - 1);
	}
	ERR_clear_error();
	out[n] = 0;
	return out;
}

/* One request on a connection of its own; the whole reply, caller frees. */
static inline char *help_https_ask(struct help_https *h, const char *request)
{
	struct help_https_raw r;
	assert_true(help_https_raw_open(&r, https_server_port(h->server), TLS1_3_VERSION));
	help_https_raw_write(&r, request);
	char *reply = help_https_raw_read(&r, NULL);
	help_https_raw_close(&r);
	return reply;
}

#endif
