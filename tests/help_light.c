#include "tests/help_light.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <zmq.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "net/https_client.h"
#include "net/link.h"
#include "net/identity.h"
#include "net/msg.h"
#include "net/signed.h"
#include "round/ledger.h"
#include "tests/help_bench.h"

#define BEAT (CLOCK_SECOND)
#define LOST (8 * CLOCK_SECOND)
#define ANSWER_MOST (16u << 20)
#define EVENTS 256
#define AT_ONCE 64 /* links that are opened in one turn: a kernel's backlog holds them */

struct light {
	struct sign_key *sign;
	struct identity_curve curve;
	uint32_t number;
	void *socket; /* NULL: none */
	int fd;
	bool open, storms;
	uint64_t due_ns, heard_ns, asked_ns; /* its next turn; its last sign of life; a heartbeat */
	uint32_t sequence, instance;
};

struct crowd {
	const struct light_config *config;
	struct light *peers;
	struct joinlink link;
	struct statement coordinator;
	struct hash run;
	struct ledger_head head;
	void *context;
	int epoll;
	uint32_t opened; /* in this turn */
};

static void fine(enum err err, const struct why *why)
{
	if (err)
		help_bench_die("%s", why->text);
}

/* ---- joining */

static json_t *request(const struct crowd *c, const struct light *p)
{
	char sign[2 * SIGN_PUBLIC + 1], curve[2 * LINK_KEY + 1], run[HASH_HEX], name[32];
	struct sign_public key = sign_public_of(p->sign);
	text_hex(key.b, sizeof key.b, sign);
	text_hex(p->curve.public_key, LINK_KEY, curve);
	hash_hex(&c->link.run, run);
	snprintf(name, sizeof name, "light-%llu-%u", (unsigned long long)c->config->seed,
		(unsigned)(p - c->peers));
	json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "invite", c->link.invite,
		"name", name, "version", "light", "sign", sign, "curve", curve, "instance",
		(json_int_t)1, "run", run);
	char *text = signed_make("join", body, p->sign);
	json_t *doc = json_loads(text, 0, NULL);
	free(text);
	json_decref(body);
	return doc;
}

/* The server says when one address asks too often. */
static void join(struct crowd *c, struct https_client *https, struct light *p)
{
	json_t *ask, *answer = NULL;
	struct why why = {0};
	enum err err;
	p->sign = sign_make();
	identity_curve_make(&p->curve);
	ask = request(c, p);
	while ((err = https_client_post_json(
			https, "/api/v1/join", ask, ANSWER_MOST, &answer, &why)) == ERR_busy)
		poll(NULL, 0, 200);
	fine(err, &why);
	p->number = (uint32_t)json_integer_value(json_object_get(answer, "number"));
	json_decref(ask);
	json_decref(answer);
	atomic_fetch_add(&c->config->board->joined, 1);
}

/* Where they say they stand: where the run does. */
static void read_head(struct crowd *c, struct https_client *https)
{
	json_t *doc = NULL;
	struct why why = {0};
	enum err err;
	while ((err = https_client_get_json(https, "/api/v1/head", ANSWER_MOST, &doc, &why)) ==
		ERR_busy)
		poll(NULL, 0, 200);
	fine(err, &why);
	fine(ledger_head_parse(json_object_get(doc, "body"), &c->run, &c->head, &why), &why);
	json_decref(doc);
}

static void join_all(struct crowd *c)
{
	struct https_client_config how;
	struct https_client *https;
	struct why why = {0};
	uint8_t *text = NULL;
	size_t n = 0;
	fine(file_read(c->config->link, 65536, &text, &n, &why), &why);
	text[strcspn((char *)text, "\n")] = '\0';
	fine(joinlink_parse((char *)text, &c->link, &why), &why);
	free(text);
	https_client_config_init(&how, &c->link);
	fine(https_client_new(&how, &https, &why), &why);
	fine(https_client_contact(https, &c->link, clock_wall_s(), &c->coordinator, &why), &why);
	c->run = c->link.run;
	for (uint32_t i = 0; i < c->config->n; i++)
		join(c, https, &c->peers[i]);
	read_head(c, https);
	https_client_free(https);
}

/* ---- links */

static void say(struct light *p, const shoal_header *h)
{
	uint8_t frame[MSG_HEAD_MAX];
	const size_t n = msg_encode(h, frame);
	(void)zmq_send(p->socket, frame, n, ZMQ_DONTWAIT);
}

static bool set(void *socket, int option, int value)
{
	return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static void open_link(struct crowd *c, struct light *p, uint64_t now)
{
	size_t size = sizeof p->fd;
	p->socket = zmq_socket(c->context, ZMQ_DEALER);
	if (!p->socket || !set(p->socket, ZMQ_LINGER, 0) ||
		!set(p->socket, ZMQ_RECONNECT_IVL, -1) ||
		zmq_setsockopt(p->socket, ZMQ_CURVE_SERVERKEY, c->coordinator.curve, LINK_KEY) ||
		zmq_setsockopt(p->socket, ZMQ_CURVE_PUBLICKEY, p->curve.public_key, LINK_KEY) ||
		zmq_setsockopt(p->socket, ZMQ_CURVE_SECRETKEY, p->curve.secret_key, LINK_KEY) ||
		zmq_connect(p->socket,
			alloc_must_printf("tcp://127.0.0.1:%u", (unsigned)c->config->port)) ||
		zmq_getsockopt(p->socket, ZMQ_FD, &p->fd, &size))
		help_bench_die("a link of a light peer: %s", zmq_strerror(errno));
	struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = p};
	if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, p->fd, &e))
		help_bench_die("epoll: %s", strerror(errno));
	shoal_header h = {.which_body = MSG_hello};
	h.body.hello =
		(shoal_hello){.number = p->number, .instance = ++p->instance, .version = "light"};
	memcpy(h.body.hello.run, c->run.b, sizeof h.body.hello.run);
	memcpy(h.body.hello.head, c->head.hash.b, sizeof h.body.hello.head);
	h.body.hello.sequence = c->head.sequence;
	say(p, &h);
	p->heard_ns = now;
}

static void close_link(struct crowd *c, struct light *p)
{
	if (p->open)
		atomic_fetch_sub(&c->config->board->open, 1);
	p->open = false;
	zmq_close(p->socket); /* takes its fd out of epoll */
	p->socket = NULL;
}

static void heartbeat(struct light *p, uint64_t now)
{
	shoal_header h = {.which_body = MSG_heartbeat};
	h.body.heartbeat.sequence = ++p->sequence;
	h.body.heartbeat.state = shoal_state_ready;
	snprintf(h.body.heartbeat.reason, sizeof h.body.heartbeat.reason, "waiting for a round");
	p->asked_ns = now;
	say(p, &h);
}

static void count_rtt(struct light_board *b, uint64_t rtt_ns)
{
	double most = 1e5;
	int bin = 0;
	while (bin < LIGHT_BINS - 1 && (double)rtt_ns > most) {
		most *= 1.25;
		bin++;
	}
	atomic_fetch_add(&b->rtt[bin], 1);
}

static void on_header(struct crowd *c, struct light *p, const shoal_header *h, uint64_t now)
{
	struct light_board *b = c->config->board;
	p->heard_ns = now;
	switch ((enum msg_kind)h->which_body) {
	case MSG_welcome:
		if (!p->open)
			atomic_fetch_add(&b->open, 1);
		if (p->storms)
			atomic_fetch_add(&b->stormed, 1);
		p->storms = false;
		p->open = true;
		break;
	case MSG_echo:
		if (p->asked_ns && h->body.echo.sequence == p->sequence)
			count_rtt(b, now - p->asked_ns);
		p->asked_ns = 0;
		break;
	case MSG_refusal: atomic_fetch_add(&b->refused, 1); break;
	case MSG_plan: atomic_fetch_add(&b->plans, 1); break;
	case MSG_head: atomic_fetch_add(&b->heads, 1); break;
	default: break;
	}
}

/* Until nothing is left: the descriptor tells only of changes. */
static void drain(struct crowd *c, struct light *p)
{
	for (;;) {
		zmq_msg_t m;
		shoal_header h;
		struct why why;
		zmq_msg_init(&m);
		if (!p->socket || zmq_msg_recv(&m, p->socket, ZMQ_DONTWAIT) < 0) {
			zmq_msg_close(&m);
			return;
		}
		if (!msg_decode(zmq_msg_data(&m), zmq_msg_size(&m), &h, &why))
			on_header(c, p, &h, clock_now_ns());
		zmq_msg_close(&m);
	}
}

static void take_turn(struct crowd *c, struct light *p, uint64_t now)
{
	p->due_ns += BEAT;
	if (p->due_ns < now)
		p->due_ns = now + BEAT;
	if (p->socket && now - p->heard_ns > LOST) {
		atomic_fetch_add(&c->config->board->lost, 1);
		close_link(c, p);
	}
	if (!p->socket) {
		if (c->opened++ < AT_ONCE)
			open_link(c, p, now);
		else
			p->due_ns = now;
	} else if (p->open) {
		heartbeat(p, now);
	}
	drain(c, p);
}

/* All at once, without a bye: as when a cut link comes back. */
static void storm(struct crowd *c, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < c->config->n; i++) {
		struct light *p = &c->peers[i];
		if (p->socket)
			close_link(c, p);
		p->storms = true;
	}
	for (uint32_t i = 0; i < n && i < c->config->n; i++)
		open_link(c, &c->peers[i], clock_now_ns());
}

static void play(struct crowd *c)
{
	struct epoll_event events[EVENTS];
	struct light_board *b = c->config->board;
	uint64_t now = clock_now_ns();
	uint32_t stormed = 0;
	for (uint32_t i = 0; i < c->config->n; i++)
		c->peers[i].due_ns = now + BEAT * i / c->config->n;
	while (atomic_load(&b->order) != LIGHT_end) {
		const uint32_t wish = atomic_load(&b->storm);
		const int n = epoll_wait(c->epoll, events, EVENTS, 5);
		for (int i = 0; i < n; i++)
			drain(c, events[i].data.ptr);
		if (wish != stormed)
			storm(c, stormed = wish);
		now = clock_now_ns();
		c->opened = 0;
		for (uint32_t i = 0; i < c->config->n; i++)
			if (c->peers[i].due_ns <= now)
				take_turn(c, &c->peers[i], now);
	}
}

void help_light_run(const struct light_config *config)
{
	struct crowd c = {.config = config, .epoll = epoll_create1(EPOLL_CLOEXEC)};
	c.peers = alloc_must_zero(config->n, sizeof *c.peers);
	join_all(&c);
	while (atomic_load(&config->board->order) == LIGHT_join)
		poll(NULL, 0, 50);
	c.context = zmq_ctx_new();
	zmq_ctx_set(c.context, ZMQ_MAX_SOCKETS, 2 * (int)config->n + 64); /* closed ones linger */
	play(&c);
	_exit(0); /* ten thousand sockets end quickest so */
}
