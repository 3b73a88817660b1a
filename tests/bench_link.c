/*
 * How fast objects go over one link on loopback, beside a bare libzmq PUSH/PULL pair with CURVE and
 * zero copy, twice: one that drops what it receives (raw), and one that puts it into fresh memory
 * and takes its SHA-256, as any receiver of objects must (checked).  The three take turns in the
 * same minutes; sender and receiver are two processes.  With two cores all are bound by the
 * processor seconds per GB, which are told beside.  A table, build/bench/link.json, and one line of
 * key=value.
 */
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "net/link.h"

#define RUNS 7
#define OBJECT ((size_t)64 << 20)
#define OBJECTS 6 /* the first is not timed */
#define KIND 1
#define PATIENCE (60 * CLOCK_SECOND)

enum mode { RAW, CHECKED, OURS, MODES };

struct keys {
	uint8_t public_key[LINK_KEY], secret_key[LINK_KEY];
};

struct pair {
	struct keys server, client;
	size_t chunk;
	enum mode mode;
	int to_parent[2];
};

static void die(const char *what)
{
	fprintf(stderr, "bench_link: %s\n", what);
	exit(1);
}

static void must(bool good, const char *what)
{
	if (!good)
		die(what);
}

static void make_keys(struct keys *k)
{
	char public_text[41], secret_text[41];
	must(zmq_curve_keypair(public_text, secret_text) == 0, "libzmq has no CURVE");
	zmq_z85_decode(k->public_key, public_text);
	zmq_z85_decode(k->secret_key, secret_text);
}

/* What the receiving process tells: first the port, then the seconds. */
static void tell(const struct pair *p, double value)
{
	must(write(p->to_parent[1], &value, sizeof value) == sizeof value, "the pipe broke");
}

static double told(const struct pair *p)
{
	double value = 0;
	struct pollfd f = {.fd = p->to_parent[0], .events = POLLIN};
	must(poll(&f, 1, (int)(PATIENCE / CLOCK_MS)) == 1 &&
			read(p->to_parent[0], &value, sizeof value) == sizeof value,
		"the receiver says nothing");
	return value;
}

/* ---- bare libzmq */

static void raw_options(void *s, const struct keys *k)
{
	int patience = (int)(PATIENCE / CLOCK_MS);
	zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, k->secret_key, LINK_KEY);
	zmq_setsockopt(s, ZMQ_RCVTIMEO, &patience, sizeof patience);
	zmq_setsockopt(s, ZMQ_SNDTIMEO, &patience, sizeof patience);
}

static size_t raw_messages(const struct pair *p)
{
	return OBJECT / p->chunk;
}

static void raw_object(const struct pair *p, void *s)
{
	bool checked = p->mode == CHECKED;
	uint8_t *bytes = checked ? alloc_try(OBJECT, 1) : NULL;
	struct hash_state *h = hash_begin();
	must(!checked || bytes, "no memory");
	for (size_t i = 0; i < raw_messages(p); i++) {
		zmq_msg_t m;
		zmq_msg_init(&m);
		must(zmq_msg_recv(&m, s, 0) == (int)p->chunk, "a message is missing");
		if (checked) {
			memcpy(bytes + i * p->chunk, zmq_msg_data(&m), p->chunk);
			hash_add(h, zmq_msg_data(&m), p->chunk);
		}
		zmq_msg_close(&m);
	}
	(void)hash_end(h);
	free(bytes);
}

static void raw_receive(const struct pair *p)
{
	void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_PULL);
	int one = 1;
	char endpoint[100];
	size_t size = sizeof endpoint;
	raw_options(s, &p->server);
	zmq_setsockopt(s, ZMQ_CURVE_SERVER, &one, sizeof one);
	must(zmq_bind(s, "tcp://127.0.0.1:0") == 0, "no port on loopback");
	zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, endpoint, &size);
	tell(p, strtod(strrchr(endpoint, ':') + 1, NULL));
	uint64_t start = 0;
	for (size_t i = 0; i < OBJECTS; i++) {
		raw_object(p, s);
		start = i ? start : clock_now_ns();
	}
	tell(p, clock_seconds(clock_now_ns() - start));
	zmq_close(s);
	zmq_ctx_term(context);
}

static void keep(void *data, void *hint)
{
	(void)data, (void)hint;
}

static void raw_send(const struct pair *p, uint16_t port)
{
	static uint8_t bytes[1u << 20];
	void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_PUSH);
	char address[64];
	raw_options(s, &p->client);
	zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, p->client.public_key, LINK_KEY);
	zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, p->server.public_key, LINK_KEY);
	snprintf(address, sizeof address, "tcp://127.0.0.1:%u", port);
	must(zmq_connect(s, address) == 0, "no connection");
	for (size_t i = 0; i < OBJECTS * raw_messages(p); i++) {
		zmq_msg_t m;
		zmq_msg_init_data(&m, bytes, p->chunk, keep, NULL);
		must(zmq_msg_send(&m, s, 0) >= 0, "a message cannot be sent");
	}
	zmq_close(s);
	zmq_ctx_term(context);
}

/* ---- ours */

static void our_config(struct link_config *c, const struct pair *p, const struct keys *k)
{
	link_config_init(c);
	memcpy(c->public_key, k->public_key, LINK_KEY);
	memcpy(c->secret_key, k->secret_key, LINK_KEY);
	c->events = mailbox_new();
	c->transfer.chunk = (uint32_t)p->chunk;
	c->kinds[0] = (struct transfer_kind){KIND, OBJECT};
	c->n_kinds = 1;
}

static struct link *our_link(const struct link_config *c)
{
	struct link *l;
	struct why why;
	if (link_new(c, &l, &why))
		die(why.text);
	return l;
}

/* The next event but heartbeats. */
static struct link_event *next(const struct link_config *c)
{
	for (;;) {
		struct link_event *e = link_event_of(mailbox_wait(c->events, PATIENCE));
		must(e && e->mail.kind != LINK_lost && e->mail.kind != LINK_declined,
			"the link is lost");
		if (e->mail.kind != LINK_message && e->mail.kind != LINK_waiting)
			return e;
		link_event_free(e);
	}
}

static void our_receive(const struct pair *p)
{
	struct link_config c;
	uint64_t start = 0;
	our_config(&c, p, &p->server);
	c.role = LINK_coordinator;
	c.bind = "127.0.0.1:0";
	struct link *l = our_link(&c);
	link_admit(l, p->client.public_key, 1);
	tell(p, link_port(l));
	for (int i = 0; i < OBJECTS;) {
		struct link_event *e = next(&c);
		shoal_header welcome = {.which_body = MSG_welcome};
		if (e->mail.kind == LINK_connected) {
			link_send(l, e->key, &welcome, NULL);
		} else {
			link_answer(l, e->key, e->ref, ERR_OK, NULL);
			start = i++ ? start : clock_now_ns();
		}
		link_event_free(e);
	}
	tell(p, clock_seconds(clock_now_ns() - start));
	link_free(l);
	mailbox_free(c.events);
}

static void our_send(const struct pair *p, uint16_t port)
{
	struct link_config c;
	char address[64];
	shoal_hello hello = {.instance = 1};
	our_config(&c, p, &p->client);
	c.role = LINK_peer;
	struct link *l = our_link(&c);
	snprintf(address, sizeof address, "127.0.0.1:%u", port);
	link_connect(l, p->server.public_key, address, &hello);
	struct shared *bytes = shared_new(alloc_must_zero(1, OBJECT), OBJECT);
	for (uint8_t i = 0; i < OBJECTS; i++) {
		struct link_object o = {KIND, bytes, &i, 1};
		link_push(l, p->server.public_key, &o);
	}
	for (int delivered = 0; delivered < OBJECTS;) {
		struct link_event *e = next(&c);
		delivered += e->mail.kind == LINK_delivered;
		link_event_free(e);
	}
	shared_drop(bytes);
	link_free(l);
	mailbox_free(c.events);
}

/* ---- measuring */

static double cpu_seconds(void)
{
	double s = 0;
	struct rusage u;
	for (int who = 0; who < 2; who++) {
		getrusage(who ? RUSAGE_CHILDREN : RUSAGE_SELF, &u);
		s += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		     (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
	}
	return s;
}

/* MB/s of one run; *cpu gets processor seconds per GB, both ends. */
static double once(enum mode mode, size_t chunk, double *cpu)
{
	struct pair p = {.chunk = chunk, .mode = mode};
	make_keys(&p.server);
	make_keys(&p.client);
	must(pipe(p.to_parent) == 0, "no pipe");
	double before = cpu_seconds();
	fflush(NULL);
	pid_t child = fork();
	must(child >= 0, "no process");
	if (!child) {
		mode == OURS ? our_receive(&p) : raw_receive(&p);
		_exit(0);
	}
	uint16_t port = (uint16_t)told(&p);
	mode == OURS ? our_send(&p, port) : raw_send(&p, port);
	double seconds = told(&p);
	int status;
	must(waitpid(child, &status, 0) == child && status == 0, "the receiver failed");
	close(p.to_parent[0]);
	close(p.to_parent[1]);
	*cpu = (cpu_seconds() - before) / ((double)OBJECT * OBJECTS / 1e9);
	return (double)OBJECT * (OBJECTS - 1) / 1e6 / seconds;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Medians of both, by mode. */
static json_t *measure(size_t chunk, double speed[MODES])
{
	static const char *const names[] = {"raw", "checked", "link"};
	double mb_s[MODES][RUNS], cpu[MODES][RUNS];
	for (int i = 0; i < RUNS; i++)
		for (int m = 0; m < MODES; m++)
			mb_s[m][i] = once((enum mode)m, chunk, &cpu[m][i]);
	json_t *row = json_pack("{s:i}", "chunk", (int)chunk);
	for (int m = 0; m < MODES; m++) {
		qsort(mb_s[m], RUNS, sizeof(double), by_size);
		qsort(cpu[m], RUNS, sizeof(double), by_size);
		speed[m] = mb_s[m][RUNS / 2];
		printf("%7zu KiB  %-8s %8.0f %8.0f %8.0f %8.2f\n", chunk >> 10, names[m],
			mb_s[m][0], speed[m], mb_s[m][RUNS - 1], cpu[m][RUNS / 2]);
		json_object_set_new(row, names[m],
			json_pack("{s:f,s:f,s:f,s:f}", "mb_s", speed[m], "mb_s_least", mb_s[m][0],
				"mb_s_most", mb_s[m][RUNS - 1], "cpu_s_per_gb", cpu[m][RUNS / 2]));
	}
	return row;
}

int main(void)
{
	static const size_t chunks[] = {1u << 20, 256u << 10};
	double speed[MODES], best[MODES] = {0};
	json_t *rows = json_array();
	printf("%11s  %-8s %8s %8s %8s %8s\n", "chunk", "", "least", "MB/s", "most", "cpu s/GB");
	for (size_t i = 0; i < 2; i++) {
		json_array_append_new(rows, measure(chunks[i], speed));
		if (speed[OURS] > best[OURS])
			memcpy(best, speed, sizeof best);
	}
	json_t *all = json_pack("{s:i,s:i,s:i,s:o}", "runs", RUNS, "object_bytes", (int)OBJECT,
		"cores", (int)sysconf(_SC_NPROCESSORS_ONLN), "links", rows);
	if (json_dump_file(all, "build/bench/link.json", JSON_INDENT(1)))
		fprintf(stderr, "bench_link: build/bench/link.json cannot be written\n");
	json_decref(all);
	printf("bench: link mb_s=%.0f raw_mb_s=%.0f ratio=%.2f checked_mb_s=%.0f "
	       "ratio_checked=%.2f\n",
		best[OURS], best[RAW], best[OURS] / best[RAW], best[CHECKED],
		best[OURS] / best[CHECKED]);
	return 0;
}
