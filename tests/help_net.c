#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/help_net.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#define DEADLINE (30 * CLOCK_SECOND)

void help_net_keys(struct help_net_keys *k)
{
	char public_text[41], secret_text[41];
	assert_int_equal(zmq_curve_keypair(public_text, secret_text), 0);
	assert_non_null(zmq_z85_decode(k->public_key, public_text));
	assert_non_null(zmq_z85_decode(k->secret_key, secret_text));
}

void help_net_init(struct help_net_end *e, enum link_role role)
{
	*e = (struct help_net_end){.box = mailbox_new()};
	help_net_keys(&e->keys);
	link_config_init(&e->config);
	e->config.role = role;
	memcpy(e->config.public_key, e->keys.public_key, LINK_KEY);
	memcpy(e->config.secret_key, e->keys.secret_key, LINK_KEY);
	e->config.bind = role == LINK_coordinator ? "127.0.0.1:0" : NULL;
	e->config.events = e->box;
	e->config.heartbeat_ns = 100 * CLOCK_MS;
	e->config.timeout_ns = 3 * CLOCK_SECOND;
	e->config.retry_least_ns = 20 * CLOCK_MS;
	e->config.retry_most_ns = 100 * CLOCK_MS;
	e->config.messages_burst = 2000;
	e->config.kinds[0] = (struct transfer_kind){HELP_NET_KIND, 128u << 20};
	e->config.n_kinds = 1;
}

void help_net_start(struct help_net_end *e)
{
	struct why why = {0};
	enum err err = link_new(&e->config, &e->link, &why);
	if (err)
		fail_msg("%s", why.text);
}

void help_net_stop(struct help_net_end *e)
{
	link_free(e->link);
	mailbox_free(e->box);
	e->link = NULL;
	e->box = NULL;
}

struct link_event *help_net_wait(struct help_net_end *e, enum link_event_kind kind)
{
	uint64_t end = clock_now_ns() + DEADLINE;
	for (uint64_t now; (now = clock_now_ns()) < end;) {
		struct link_event *ev = link_event_of(mailbox_wait(e->box, end - now));
		if (ev && ev->mail.kind == (int)kind)
			return ev;
		link_event_free(ev);
	}
	fail_msg("no event %s in 30 s", link_event_name(kind));
	return NULL;
}

enum err help_net_expect(struct help_net_end *e, enum link_event_kind kind)
{
	struct link_event *ev = help_net_wait(e, kind);
	enum err code = ev->why.code;
	link_event_free(ev);
	return code;
}

void help_net_admit(struct help_net_end *coordinator, const uint8_t *key)
{
	static const uint8_t nobody[LINK_KEY];
	struct shared *s = help_net_bytes(0, 1);
	link_admit(coordinator->link, key, 1);
	// Calls take effect in their order, so the answer to this one comes after the first.
	help_net_push(coordinator, nobody, s);
	shared_drop(s);
	assert_int_equal(help_net_expect(coordinator, LINK_declined), ERR_unknown_peer);
}

shoal_hello help_net_hello(uint64_t instance)
{
	shoal_hello h = {.number = 4, .instance = instance, .sequence = 17};
	snprintf(h.version, sizeof h.version, "test");
	memset(h.run, 0xab, sizeof h.run);
	return h;
}

void help_net_welcome(struct help_net_end *coordinator, const uint8_t *key)
{
	shoal_header h = shoal_header_init_zero;
	h.which_body = MSG_welcome;
	h.body.welcome.number = 4;
	link_send(coordinator->link, key, &h, NULL);
}

void help_net_join(struct help_net_end *peer, struct help_net_end *coordinator, uint16_t port)
{
	char address[32];
	shoal_hello hello = help_net_hello(1);
	snprintf(address, sizeof address, "127.0.0.1:%u", port);
	help_net_admit(coordinator, peer->keys.public_key);
	link_connect(peer->link, coordinator->keys.public_key, address, &hello);
	help_net_expect(coordinator, LINK_connected);
	help_net_welcome(coordinator, peer->keys.public_key);
	help_net_expect(peer, LINK_connected);
}

struct shared *help_net_bytes(uint64_t seed, size_t n)
{
	uint8_t *b = alloc_must(n);
	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = rng_u64(seed, 3, i / 4096) + i;
		memcpy(b + i, &v, n - i < 8 ? n - i : 8);
	}
	return shared_new(b, n);
}

uint64_t help_net_push(struct help_net_end *from, const uint8_t *key, struct shared *bytes)
{
	struct link_object o = {HELP_NET_KIND, bytes, (const uint8_t *)"meta", 4};
	return link_push(from->link, key, &o);
}

struct link_counters help_net_counters(
	struct help_net_end *e, bool (*enough)(const struct link_counters *c))
{
	struct link_counters c;
	uint64_t end = clock_now_ns() + DEADLINE;
	do {
		link_counters(e->link, &c);
		if (enough(&c))
			return c;
		poll(NULL, 0, 5); // there is no event to wait for: counters are only looked at
	} while (clock_now_ns() < end);
	fail_msg("the counters do not get there in 30 s");
	return c;
}

/* ---- relay */

#define PAIRS 16

struct help_net_relay {
	int listener, wake[2];
	_Atomic uint16_t to;
	pthread_t thread;
	int pair[PAIRS][2]; // -1: free
	atomic_uint_fast64_t left;
	atomic_bool hold, stop;
	atomic_uint cuts;
};

static int open_to(uint16_t port, bool listening, uint16_t *bound)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t len = sizeof a;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = listening ? bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 16)
			   : connect(fd, (struct sockaddr *)&a, sizeof a);
	if (rc) {
		close(fd);
		return -1;
	}
	if (bound && getsockname(fd, (struct sockaddr *)&a, &len) == 0)
		*bound = ntohs(a.sin_port);
	return fd;
}

/* Hard, with a reset, as a machine that lost power or a router that forgot would do. */
static void relay_close(struct help_net_relay *r, int i)
{
	const struct linger hard = {1, 0};
	for (int k = 0; k < 2; k++) {
		if (r->pair[i][k] >= 0)
			setsockopt(r->pair[i][k], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
		if (r->pair[i][k] >= 0)
			close(r->pair[i][k]);
		r->pair[i][k] = -1;
	}
}

static void relay_accept(struct help_net_relay *r)
{
	int fd = accept(r->listener, NULL, NULL);
	for (int i = 0; i < PAIRS && fd >= 0; i++) {
		if (r->pair[i][0] >= 0)
			continue;
		r->pair[i][0] = fd;
		r->pair[i][1] = open_to(atomic_load(&r->to), false, NULL);
		if (r->pair[i][1] < 0)
			relay_close(r, i);
		return;
	}
	close(fd);
}

/* false: this pair has ended. */
static bool relay_forward(struct help_net_relay *r, int i, int k)
{
	static uint8_t bytes[65536];
	ssize_t n = recv(r->pair[i][k], bytes, sizeof bytes, MSG_DONTWAIT);
	if (n <= 0)
		return false;
	for (ssize_t at = 0; at < n;) {
		ssize_t m = send(r->pair[i][!k], bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
		if (m <= 0)
			return false;
		at += m;
	}
	uint64_t left = atomic_load(&r->left);
	if (left == UINT64_MAX)
		return true;
	atomic_store(&r->left, left > (uint64_t)n ? left - (uint64_t)n : UINT64_MAX);
	if (left > (uint64_t)n)
		return true;
	atomic_fetch_add(&r->cuts, 1);
	for (int p = 0; p < PAIRS; p++)
		relay_close(r, p);
	return true;
}

static void relay_turn(struct help_net_relay *r)
{
	struct pollfd f[2 + 2 * PAIRS] = {
		{.fd = r->listener, .events = POLLIN}, {.fd = r->wake[0], .events = POLLIN}};
	bool hold = atomic_load(&r->hold);
	for (int i = 0; i < 2 * PAIRS; i++)
		f[2 + i] =
			(struct pollfd){.fd = hold ? -1 : r->pair[i / 2][i % 2], .events = POLLIN};
	poll(f, 2 + 2 * PAIRS, -1);
	uint8_t byte;
	if (f[1].revents && read(r->wake[0], &byte, 1) < 0)
		return;
	for (int i = 0; i < 2 * PAIRS; i++)
		if (f[2 + i].revents && r->pair[i / 2][0] >= 0 && !relay_forward(r, i / 2, i % 2))
			relay_close(r, i / 2);
	if (f[0].revents && !hold)
		relay_accept(r);
}

static void *relay_run(void *arg)
{
	struct help_net_relay *r = arg;
	while (!atomic_load(&r->stop))
		relay_turn(r);
	return NULL;
}

struct help_net_relay *help_net_relay_new(uint16_t to, uint16_t *port)
{
	struct help_net_relay *r = alloc_must_zero(1, sizeof *r);
	atomic_init(&r->to, to);
	memset(r->pair, -1, sizeof r->pair);
	atomic_init(&r->left, UINT64_MAX);
	r->listener = open_to(0, true, port);
	assert_true(r->listener >= 0);
	assert_int_equal(pipe(r->wake), 0);
	assert_int_equal(pthread_create(&r->thread, NULL, relay_run, r), 0);
	return r;
}

static void relay_wake(struct help_net_relay *r)
{
	assert_int_equal(write(r->wake[1], "x", 1), 1);
}

void help_net_relay_cut_after(struct help_net_relay *r, uint64_t bytes)
{
	atomic_store(&r->left, bytes);
}

void help_net_relay_to(struct help_net_relay *r, uint16_t to)
{
	atomic_store(&r->to, to);
}

void help_net_relay_hold(struct help_net_relay *r, bool hold)
{
	atomic_store(&r->hold, hold);
	relay_wake(r);
}

uint32_t help_net_relay_cuts(const struct help_net_relay *r)
{
	return atomic_load(&r->cuts);
}

void help_net_relay_free(struct help_net_relay *r)
{
	atomic_store(&r->stop, true);
	relay_wake(r);
	pthread_join(r->thread, NULL);
	for (int i = 0; i < PAIRS; i++)
		relay_close(r, i);
	close(r->listener);
	close(r->wake[0]);
	close(r->wake[1]);
	free(r);
}
