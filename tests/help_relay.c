#include "tests/help_relay.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/help_proc.h"
#include "tests/help_run.h"

#define PORTS_MAX 4
#define WIRES_MAX 120
#define PIECE 16384
#define SLICE_MS 5 /* how late a change of the settings is seen, and how finely a rate is kept */
/* Else the system's own buffers hide for minutes that a line is slow or stalled. */
#define SOCKET_BUFFER 32768

/* One direction of a connection: what was read and not yet written. */
struct flow {
	uint8_t bytes[PIECE];
	size_t at, len;
	bool ended, told; /* nothing more comes; and the other side knows */
};

struct wire {
	struct wire *next;
	int fd[2]; /* by the direction that is read from it: who connected, the coordinator */
	struct flow flows[2];
	bool broken;
};

struct relay {
	struct relay *next;
	uint16_t ports[PORTS_MAX];
	int listeners[PORTS_MAX];
	size_t n_ports;
	pthread_t thread;
	atomic_bool stop, cut, stalled[2];
	atomic_uint rate[2];
	atomic_ullong passed[2];
	/* ---- the thread's own */
	struct wire *wires;
	unsigned n_wires;
	double allowance[2]; /* bytes that may pass now */
	uint64_t seen_ns;
};

static struct relay *relays;

/* ---- connections */

static void wire_free(struct wire *w, bool reset)
{
	const struct linger at_once = {.l_onoff = 1};
	for (int i = 0; i < 2; i++) {
		if (reset)
			(void)setsockopt(w->fd[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
		close(w->fd[i]);
	}
	free(w);
}

static int call(uint16_t port)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void take(struct relay *r, size_t port)
{
	const int size = SOCKET_BUFFER, yes = 1;
	int here = accept4(r->listeners[port], NULL, NULL, SOCK_CLOEXEC);
	int there = here < 0 || atomic_load(&r->cut) || r->n_wires == WIRES_MAX
			    ? -1
			    : call(r->ports[port]);
	if (there < 0) {
		if (here >= 0)
			close(here);
		return;
	}
	struct wire *w = alloc_must_zero(1, sizeof *w);
	*w = (struct wire){.next = r->wires, .fd = {here, there}};
	for (int i = 0; i < 2; i++) {
		(void)fcntl(w->fd[i], F_SETFL, O_NONBLOCK);
		(void)setsockopt(w->fd[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
		(void)setsockopt(w->fd[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
		(void)setsockopt(w->fd[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	}
	r->wires = w;
	r->n_wires++;
}

/* ---- bytes */

static bool would_wait(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void carry(struct relay *r, struct wire *w, int way)
{
	struct flow *f = &w->flows[way];
	const bool slow = atomic_load(&r->rate[way]) != 0;
	if (atomic_load(&r->stalled[way]))
		return;
	if (!f->len && !f->ended) {
		ssize_t n = read(w->fd[way], f->bytes, PIECE);
		f->at = 0;
		f->len = n > 0 ? (size_t)n : 0;
		f->ended = n == 0;
		w->broken |= n < 0 && !would_wait(n);
	}
	size_t now = f->len;
	if (slow && (double)now > r->allowance[way])
		now = r->allowance[way] > 0 ? (size_t)r->allowance[way] : 0;
	ssize_t n = now ? send(w->fd[!way], f->bytes + f->at, now, MSG_NOSIGNAL) : 0;
	w->broken |= n < 0 && !would_wait(n);
	if (n > 0) {
		f->at += (size_t)n;
		f->len -= (size_t)n;
		r->allowance[way] -= slow ? (double)n : 0;
		atomic_fetch_add(&r->passed[way], (unsigned long long)n);
	}
	if (f->ended && !f->len && !f->told) {
		(void)shutdown(w->fd[!way], SHUT_WR);
		f->told = true;
	}
}

static void refill(struct relay *r)
{
	const uint64_t now = clock_now_ns();
	for (int way = 0; way < 2; way++) {
		const double rate = atomic_load(&r->rate[way]), most = rate / 20 + 1;
		r->allowance[way] += rate * clock_seconds(now - r->seen_ns);
		if (r->allowance[way] > most)
			r->allowance[way] = most;
	}
	r->seen_ns = now;
}

static bool over(const struct wire *w)
{
	return w->broken || (w->flows[RELAY_up].told && w->flows[RELAY_down].told);
}

/* Bytes that may not pass yet wake nobody: the next slice sees to them. */
static nfds_t watch(const struct relay *r, struct pollfd *fds)
{
	nfds_t n = 0;
	for (size_t i = 0; i < r->n_ports; i++)
		fds[n++] = (struct pollfd){.fd = r->listeners[i], .events = POLLIN};
	for (const struct wire *w = r->wires; w; w = w->next)
		for (int way = 0; way < 2; way++)
			if (!atomic_load(&r->stalled[way]) && !w->flows[way].len &&
				!w->flows[way].ended)
				fds[n++] = (struct pollfd){.fd = w->fd[way], .events = POLLIN};
	return n;
}

static void *run(void *arg)
{
	struct relay *r = arg;
	struct pollfd fds[PORTS_MAX + 2 * WIRES_MAX];
	while (!atomic_load(&r->stop)) {
		(void)poll(fds, watch(r, fds), SLICE_MS);
		for (size_t i = 0; i < r->n_ports; i++)
			if (fds[i].revents)
				take(r, i);
		refill(r);
		const bool cut = atomic_load(&r->cut);
		for (struct wire **at = &r->wires; *at;) {
			struct wire *w = *at;
			for (int way = 0; way < 2 && !cut; way++)
				carry(r, w, way);
			if (!cut && !over(w)) {
				at = &w->next;
				continue;
			}
			*at = w->next;
			r->n_wires--;
			wire_free(w, cut || w->broken);
		}
	}
	return NULL;
}

/* ---- the test's side */

static int listen_at(const char *address, uint16_t port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	const int yes = 1, size = SOCKET_BUFFER;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	(void)setsockopt(
		fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size); /* those accepted have it */
	if (inet_pton(AF_INET, address, &at.sin_addr) != 1 ||
		bind(fd, (const struct sockaddr *)&at, sizeof at) || listen(fd, 64))
		fail_msg("cannot listen at %s:%u: %s", address, port, strerror(errno));
	return fd;
}

struct relay *relay_start(const char *address, const uint16_t *ports, size_t n)
{
	assert_true(n <= PORTS_MAX);
	struct relay *r = alloc_must_zero(1, sizeof *r);
	r->seen_ns = clock_now_ns();
	for (; r->n_ports < n; r->n_ports++) {
		r->ports[r->n_ports] = ports[r->n_ports];
		r->listeners[r->n_ports] = listen_at(address, ports[r->n_ports]);
	}
	assert_int_equal(pthread_create(&r->thread, NULL, run, r), 0);
	r->next = relays;
	relays = r;
	return r;
}

const char *relay_link(const char *link_file, const char *address)
{
	const char *link = help_run_read(link_file), *host = strstr(link, "://");
	assert_non_null(host);
	host += strlen("://");
	const char *port = strchr(host, ':'), *path = proc_text("%s.%s", link_file, address);
	assert_non_null(port);
	help_run_write(path, proc_text("%.*s%s%s", (int)(host - link), link, address, port));
	return path;
}

void relay_cut(struct relay *r)
{
	atomic_store(&r->cut, true);
}

void relay_stall(struct relay *r, enum relay_way way)
{
	atomic_store(&r->stalled[way], true);
}

void relay_rate(struct relay *r, enum relay_way way, uint32_t bytes_per_s)
{
	atomic_store(&r->rate[way], bytes_per_s);
}

void relay_heal(struct relay *r)
{
	atomic_store(&r->cut, false);
	for (int way = 0; way < 2; way++) {
		atomic_store(&r->stalled[way], false);
		atomic_store(&r->rate[way], 0);
	}
}

uint64_t relay_bytes(const struct relay *r, enum relay_way way)
{
	return atomic_load(&r->passed[way]);
}

int relay_teardown(void **state)
{
	for (struct relay *r; (r = relays) != NULL;) {
		relays = r->next;
		atomic_store(&r->stop, true);
		pthread_join(r->thread, NULL);
		for (struct wire *w; (w = r->wires) != NULL;) {
			r->wires = w->next;
			wire_free(w, true);
		}
		for (size_t i = 0; i < r->n_ports; i++)
			close(r->listeners[i]);
		free(r);
	}
	return proc_teardown(state);
}
