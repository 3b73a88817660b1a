/*
 * How fast objects go over one link on loopback, beside a bare libzmq PUSH/PULL pair with CURVE and
 * zero copy that moves the same bytes and does nothing with them (no hash, no copy into place, no
 * acknowledgement), taken in turns in the same minute.  Sender and receiver are two processes.  A
 * table, build/bench/link.json, and one line of key=value.
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
#include "net/link.h"

#define RUNS 7
#define OBJECT ((size_t)64 << 20)
#define OBJECTS 6 /* the first is not timed */
#define KIND 1
#define PATIENCE (60 * CLOCK_SECOND)

struct keys {
	uint8_t public_key[LINK_KEY], secret_key[LINK_KEY];
};

struct pair {
	struct keys server, client;
	size_t chunk;
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
	double value;
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
	for (size_t i = 0; i < OBJECTS * raw_messages(p); i++) {
		zmq_msg_t m;
		zmq_msg_init(&m);
		must(zmq_msg_recv(&m, s, 0) == (int)p->chunk, "a message is missing");
		zmq_msg_close(&m);
		if (i + 1 == raw_messages(p))
			start = clock_now_ns();
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
static double once(bool ours, size_t chunk, double *cpu)
{
	struct pair p = {.chunk = chunk};
	make_keys(&p.server);
	make_keys(&p.client);
	must(pipe(p.to_parent) == 0, "no pipe");
	double before = cpu_seconds();
	fflush(NULL);
	pid_t child = fork();
	must(child >= 0, "no process");
	if (!child) {
		ours ? our_receive(&p) : raw_receive(&p);
		_exit(0);
	}
	uint16_t port = (uint16_t)told(&p);
	ours ? our_send(&p, port) : raw_send(&p, port);
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

struct figures {
	double ours[RUNS], raw[RUNS], ours_cpu[RUNS], raw_cpu[RUNS];
};

static json_t *measure(size_t chunk, double *ours, double *raw)
{
	struct figures f;
	for (int i = 0; i < RUNS; i++) {
		f.raw[i] = once(false, chunk, &f.raw_cpu[i]);
		f.ours[i] = once(true, chunk, &f.ours_cpu[i]);
	}
	double *all[] = {f.ours, f.raw, f.ours_cpu, f.raw_cpu};
	for (int i = 0; i < 4; i++)
		qsort(all[i], RUNS, sizeof(double), by_size);
	*ours = f.ours[RUNS / 2];
	*raw = f.raw[RUNS / 2];
	printf("%8zu KiB %9.0f %9.0f %9.0f %9.0f %7.2f %9.2f %9.2f\n", chunk >> 10, f.ours[0],
		*ours, f.ours[RUNS - 1], *raw, *ours / *raw, f.ours_cpu[RUNS / 2],
		f.raw_cpu[RUNS / 2]);
	return json_pack("{s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "chunk", (int)chunk, "mb_s", *ours,
		"mb_s_least", f.ours[0], "mb_s_most", f.ours[RUNS - 1], "raw_mb_s", *raw, "ratio",
		*ours / *raw, "cpu_s_per_gb", f.ours_cpu[RUNS / 2], "raw_cpu_s_per_gb",
		f.raw_cpu[RUNS / 2]);
}

int main(void)
{
	static const size_t chunks[] = {1u << 20, 256u << 10};
	double ours, raw, best = 0, best_raw = 0;
	json_t *rows = json_array();
	printf("%12s %9s %9s %9s %9s %7s %9s %9s\n", "chunk", "least", "MB/s", "most", "raw MB/s",
		"ratio", "cpu s/GB", "raw");
	for (size_t i = 0; i < 2; i++) {
		json_array_append_new(rows, measure(chunks[i], &ours, &raw));
		if (ours > best)
			best = ours, best_raw = raw;
	}
	json_t *all = json_pack("{s:i,s:i,s:i,s:o}", "runs", RUNS, "object_bytes", (int)OBJECT,
		"cores", (int)sysconf(_SC_NPROCESSORS_ONLN), "links", rows);
	if (json_dump_file(all, "build/bench/link.json", JSON_INDENT(1)))
		fprintf(stderr, "bench_link: build/bench/link.json cannot be written\n");
	json_decref(all);
	printf("bench: link mb_s=%.0f raw_mb_s=%.0f ratio=%.2f\n", best, best_raw, best / best_raw);
	return 0;
}
