/*
 * How long objects take over far links, beside bare TCP on the same bed (tests/wan): sizes from
 * 1 KiB to 10 MB (2 MB where the link is slow), each after a pause in which TCP forgets how fast it
 * may be, and then a row of the largest as a share of what the link carries.  One way is timed,
 * from the push to the object verified at the other end: both ends are processes of this machine,
 * with one clock.  Told in round trips beyond what the bytes take at the link's rate, so that 0.5
 * is the least.  "told" is a receiver without eager bytes: begin, credit, chunk.  A table,
 * build/bench/transfer.json, and one line of key=value.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "net/link.h"

#define KIND 1
#define RUNS 3
#define SIZES 4
#define ROW 5 /* objects one after another, the largest size; the first is not timed */
#define SAMPLES (SIZES * RUNS + ROW)
#define PAUSE (3 * CLOCK_SECOND / 2)
#define PATIENCE (120 * CLOCK_SECOND)
#define PORT 7711
#define SCRIPT "tests/wan/wan.sh"

static size_t sizes[SIZES] = {1u << 10, 64u << 10, 1u << 20}; /* and the path's largest */

enum mode { TCP, TOLD, EAGER, MODES };
static const char *const mode_names[MODES] = {"tcp", "told", "eager"};

struct path { /* from a node of a bed to its coordinator */
	const char *bed, *node;
	double mbit, rtt_ms;
	size_t largest;
};

static const struct path paths[] = {
	{"continents", "p4", 100, 300, 10000000},
	{"continents", "p1", 100, 100, 10000000},
	{"lossy", "p1", 20, 40, 2000000},
};
#define PATHS (sizeof paths / sizeof *paths)

struct keys {
	uint8_t public_key[LINK_KEY], secret_key[LINK_KEY];
};

struct pair {
	enum mode mode;
	struct keys server, client;
	int times[2][2]; /* pipes: times of the pushes, and of the arrivals */
	struct in_addr address;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_transfer: %s\n", what);
	exit(1);
}

static void must(bool good, const char *what)
{
	if (!good)
		die(what);
}

static size_t size_of(size_t sample)
{
	return sizes[sample < SIZES * RUNS ? sample / RUNS : SIZES - 1];
}

/* Each of the first ones waits for the one before, and a while; those of the row do not. */
static bool in_row(size_t sample)
{
	return sample > SIZES * RUNS;
}

static void tell(const int pipe_ends[2])
{
	uint64_t now = clock_now_ns();
	must(write(pipe_ends[1], &now, sizeof now) == sizeof now, "the pipe broke");
}

static void enter(const char *node)
{
	char path[128];
	snprintf(path, sizeof path, "/run/netns/%s-%s", getenv("WAN_NAME"), node);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && setns(fd, CLONE_NEWNET) == 0, "a namespace of the bed cannot be entered");
	close(fd);
}

/* ---- bare TCP: the bytes, and one back for each object */

static struct sockaddr_in address_of(const struct pair *p)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = p->address};
}

static void read_all(int fd, size_t n)
{
	static uint8_t bytes[1u << 18];
	while (n) {
		ssize_t got = recv(fd, bytes, n < sizeof bytes ? n : sizeof bytes, 0);
		must(got > 0, "the connection ended");
		n -= (size_t)got;
	}
}

static void tcp_receive(const struct pair *p)
{
	struct sockaddr_in a = address_of(p);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	must(bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 1) == 0, "no port");
	tell(p->times[1]);
	int c = accept(s, NULL, NULL);
	must(c >= 0, "no connection");
	(void)setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	for (size_t i = 0; i < SAMPLES; i++) {
		read_all(c, size_of(i));
		tell(p->times[1]);
		must(send(c, "", 1, 0) == 1, "the connection ended");
	}
	must(recv(c, &(char){0}, 1, 0) == 0, "more came than was sent");
	close(c);
	close(s);
}

static void tcp_send(const struct pair *p)
{
	static uint8_t bytes[1u << 18];
	struct sockaddr_in a = address_of(p);
	size_t answers = 0;
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(connect(s, (struct sockaddr *)&a, sizeof a) == 0, "no connection");
	(void)setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	for (size_t i = 0; i < SAMPLES; i++) {
		if (!in_row(i)) {
			(void)poll(NULL, 0, (int)(PAUSE / CLOCK_MS));
			read_all(s, i - answers);
			answers = i;
		}
		tell(p->times[0]);
		for (size_t left = size_of(i), n; left; left -= n) {
			n = left < sizeof bytes ? left : sizeof bytes;
			must(send(s, bytes, n, MSG_NOSIGNAL) == (ssize_t)n, "sending failed");
		}
	}
	read_all(s, SAMPLES - answers);
	close(s);
}

/* ---- links */

static void make_keys(struct keys *k)
{
	char public_text[41], secret_text[41];
	must(zmq_curve_keypair(public_text, secret_text) == 0, "libzmq has no CURVE");
	zmq_z85_decode(k->public_key, public_text);
	zmq_z85_decode(k->secret_key, secret_text);
}

static struct link *link_of(struct link_config *c, const struct keys *k)
{
	struct link *l;
	struct why why;
	memcpy(c->public_key, k->public_key, LINK_KEY);
	memcpy(c->secret_key, k->secret_key, LINK_KEY);
	c->events = mailbox_new();
	c->kinds[0] = (struct transfer_kind){KIND, sizes[SIZES - 1]};
	c->n_kinds = 1;
	if (link_new(c, &l, &why))
		die(why.text);
	return l;
}

/* The next event of this kind, or any but heartbeats. */
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

static void link_receive(const struct pair *p)
{
	struct link_config c;
	link_config_init(&c);
	c.role = LINK_coordinator;
	char bind_to[64];
	snprintf(bind_to, sizeof bind_to, "*:%d", PORT);
	c.bind = bind_to;
	if (p->mode == TOLD)
		c.transfer.eager = 0;
	struct link *l = link_of(&c, &p->server);
	link_admit(l, p->client.public_key, 1);
	tell(p->times[1]);
	for (size_t i = 0; i < SAMPLES;) {
		struct link_event *e = next(&c);
		if (e->mail.kind == LINK_connected) {
			link_send(l, e->key, &(shoal_header){.which_body = MSG_welcome}, NULL);
		} else {
			must(e->size == size_of(i++), "the objects are out of order");
			tell(p->times[1]);
			link_answer(l, e->key, e->ref, ERR_OK, NULL);
		}
		link_event_free(e);
	}
	link_free(l); /* lingers for the last answer */
	mailbox_free(c.events);
}

static void link_sender(const struct pair *p)
{
	struct link_config c;
	char address[LINK_ADDRESS];
	uint8_t delivered = 0;
	link_config_init(&c);
	c.role = LINK_peer;
	struct link *l = link_of(&c, &p->client);
	snprintf(address, sizeof address, "%s:%d", inet_ntoa(p->address), PORT);
	link_connect(l, p->server.public_key, address, &(shoal_hello){.instance = 1});
	link_event_free(next(&c));
	for (uint8_t i = 0; i < SAMPLES; i++) {
		struct shared *bytes = shared_new(alloc_must_zero(1, size_of(i)), size_of(i));
		for (; !in_row(i) && delivered < i; delivered++)
			link_event_free(next(&c));
		if (!in_row(i))
			(void)poll(NULL, 0, (int)(PAUSE / CLOCK_MS));
		tell(p->times[0]);
		link_push(l, p->server.public_key, &(struct link_object){KIND, bytes, &i, 1});
		shared_drop(bytes);
	}
	for (; delivered < SAMPLES; delivered++)
		link_event_free(next(&c));
	link_free(l);
	mailbox_free(c.events);
}

/* ---- measuring */

struct figures {
	double s[SIZES]; /* median, one way */
	double row;      /* bytes/s of those in the row */
};

static void told(int fd, uint64_t *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pollfd f = {.fd = fd, .events = POLLIN};
		must(poll(&f, 1, (int)(PATIENCE / CLOCK_MS)) == 1 && read(fd, &t[i], 8) == 8,
			"an end of the link says nothing");
	}
}

static pid_t process(const struct pair *p, const char *node, void (*run)(const struct pair *))
{
	fflush(NULL);
	pid_t child = fork();
	must(child >= 0, "no process");
	if (child)
		return child;
	enter(node);
	run(p);
	_exit(0);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static struct figures measure(const struct path *at, enum mode mode)
{
	uint64_t ready, pushed[SAMPLES], arrived[SAMPLES];
	struct pair p = {.mode = mode};
	struct figures f;
	int status[2];
	make_keys(&p.server);
	make_keys(&p.client);
	must(pipe(p.times[0]) == 0 && pipe(p.times[1]) == 0, "no pipe");
	must(inet_aton("10.77.0.1", &p.address), "no address"); /* the first node of every bed */
	pid_t receiver = process(&p, "coordinator", mode == TCP ? tcp_receive : link_receive);
	told(p.times[1][0], &ready, 1);
	pid_t sender = process(&p, at->node, mode == TCP ? tcp_send : link_sender);
	told(p.times[1][0], arrived, SAMPLES);
	told(p.times[0][0], pushed, SAMPLES);
	must(waitpid(sender, &status[0], 0) == sender && !status[0] &&
			waitpid(receiver, &status[1], 0) == receiver && !status[1],
		"an end of the link failed");
	for (int i = 0; i < 4; i++)
		close(p.times[i / 2][i % 2]);
	for (size_t i = 0; i < SIZES; i++) {
		double s[RUNS];
		for (size_t k = 0; k < RUNS; k++)
			s[k] = clock_seconds(arrived[i * RUNS + k] - pushed[i * RUNS + k]);
		qsort(s, RUNS, sizeof *s, by_size);
		f.s[i] = s[RUNS / 2];
	}
	f.row = (double)(ROW - 1) * (double)sizes[SIZES - 1] /
		clock_seconds(arrived[SAMPLES - 1] - arrived[SAMPLES - ROW]);
	return f;
}

/* Round trips beyond the time of the bytes. */
static double trips(const struct path *at, size_t size, double s)
{
	return (s - (double)size * 8 / (at->mbit * 1e6)) / (at->rtt_ms / 1000);
}

static json_t *row(const struct path *at, enum mode mode, const struct figures *f)
{
	json_t *ms = json_array(), *rtts = json_array();
	printf("%-11s %-3s %-6s", at->bed, at->node, mode_names[mode]);
	for (size_t i = 0; i < SIZES; i++) {
		json_array_append_new(ms, json_real(f->s[i] * 1000));
		json_array_append_new(rtts, json_real(trips(at, sizes[i], f->s[i])));
		printf(" %7.0f %5.1f", f->s[i] * 1000, trips(at, sizes[i], f->s[i]));
	}
	double share = f->row * 8 / (at->mbit * 1e6);
	printf(" %8.2f %5.2f\n", f->row / 1e6, share);
	return json_pack("{s:s,s:s,s:s,s:o,s:o,s:f,s:f}", "bed", at->bed, "node", at->node, "mode",
		mode_names[mode], "ms", ms, "round_trips", rtts, "row_mb_s", f->row / 1e6,
		"row_share", share);
}

static bool bed(const char *words)
{
	char line[128];
	snprintf(line, sizeof line, SCRIPT " %s", words);
	return system(line) == 0;
}

static pid_t owner; /* of the bed: a child that dies leaves it alone */

static void take_down(void)
{
	if (getpid() == owner)
		(void)bed("down");
}

static void measure_path(const struct path *at, json_t *rows, struct figures f[MODES])
{
	char words[64];
	snprintf(words, sizeof words, "up %s", at->bed);
	sizes[SIZES - 1] = at->largest;
	must(bed(words), "the bed does not come up");
	for (int m = 0; m < MODES; m++) {
		f[m] = measure(at, (enum mode)m);
		json_array_append_new(rows, row(at, (enum mode)m, &f[m]));
		fflush(stdout);
	}
	take_down();
}

int main(void)
{
	char name[32];
	struct figures f[PATHS][MODES];
	json_t *rows = json_array();
	snprintf(name, sizeof name, "bt%d", (int)getpid());
	setenv("WAN_NAME", name, 1);
	owner = getpid();
	must(atexit(take_down) == 0, "no memory");
	if (!bed("allowed")) {
		printf("bench: transfer skipped reason=\"no namespaces here\"\n");
		return 0;
	}
	printf("%-22s", "ms, round trips beyond");
	for (size_t i = 0; i < SIZES - 1; i++)
		printf(" %10zu KB", sizes[i] / 1000);
	printf("    the largest  row MB/s share\n");
	for (size_t i = 0; i < PATHS; i++)
		measure_path(&paths[i], rows, f[i]);
	if (json_dump_file(rows, "build/bench/transfer.json", JSON_INDENT(1)))
		fprintf(stderr, "bench_transfer: build/bench/transfer.json cannot be written\n");
	json_decref(rows);
	printf("bench: transfer");
	for (size_t i = 0; i < PATHS; i++) {
		const struct path *at = &paths[i];
		printf(" %s_%s=\"small_rtts=%.2f told_rtts=%.2f share=%.2f tcp_share=%.2f\"",
			at->bed, at->node, trips(at, sizes[0], f[i][EAGER].s[0]),
			trips(at, sizes[0], f[i][TOLD].s[0]),
			f[i][EAGER].row * 8 / (at->mbit * 1e6),
			f[i][TCP].row * 8 / (at->mbit * 1e6));
	}
	printf("\n");
	return 0;
}
