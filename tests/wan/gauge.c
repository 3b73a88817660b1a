#include "tests/wan/gauge.h"
#include "base/clock.h"
#include "tests/wan/netns.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 7799
#define ECHOES 3000
#define ECHO_EVERY_NS CLOCK_MS
#define PATIENCE_NS (10 * CLOCK_SECOND)
/* A stream is timed over its second half: the first one finds out how fast it may be. */
#define STREAM_NS (4 * CLOCK_SECOND)
#define STREAM_ROUND_TRIPS 24

struct echo {
	uint32_t number, unused;
	uint64_t sent_ns;
	uint8_t more[84]; /* 100 bytes in all, as a small message has */
};

struct ends {
	int from, to; /* descriptors */
};

static enum err failed(struct why *why, const char *what)
{
	return err_why(why, err_from_errno(errno), "cannot %s: %s", what, strerror(errno));
}

static struct sockaddr_in at(size_t node)
{
	char text[16];
	bed_address(node, text);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	(void)inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}

static void close_ends(struct ends *e)
{
	if (e->from >= 0)
		close(e->from);
	if (e->to >= 0)
		close(e->to);
	*e = (struct ends){-1, -1};
}

static void wait_for(const struct ends *e, short from, short to, uint64_t until_ns, uint64_t now_ns)
{
	struct pollfd fds[] = {{.fd = e->from, .events = from}, {.fd = e->to, .events = to}};
	uint64_t ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec left = {
		.tv_sec = (time_t)(ns / CLOCK_SECOND), .tv_nsec = (long)(ns % CLOCK_SECOND)};
	(void)ppoll(fds, 2, &left, NULL);
}

static enum err open_ends(const struct bed *t, const char *prefix, const size_t node[2], int kind,
	struct ends *e, struct why *why)
{
	struct sockaddr_in to = at(node[1]);
	*e = (struct ends){-1, -1};
	enum err err = netns_socket(prefix, t->node[node[0]].name, kind, &e->from, why);
	if (!err)
		err = netns_socket(prefix, t->node[node[1]].name, kind, &e->to, why);
	if (err)
		return err;
	(void)setsockopt(e->to, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(e->to, (struct sockaddr *)&to, sizeof to))
		return failed(why, "listen in the bed");
	if (kind == SOCK_STREAM && listen(e->to, 1))
		return failed(why, "listen in the bed");
	if (connect(e->from, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS)
		return failed(why, "connect in the bed");
	return ERR_OK;
}

/* ---- packets */

struct echoes {
	uint64_t rtt_ns[ECHOES];
	unsigned sent, arrived, back;
};

static void take_echoes(const struct ends *e, struct echoes *x)
{
	struct echo m;
	struct sockaddr_in who;
	socklen_t len = sizeof who;
	while (recvfrom(e->to, &m, sizeof m, 0, (struct sockaddr *)&who, &len) == sizeof m) {
		x->arrived++;
		(void)sendto(e->to, &m, sizeof m, 0, (struct sockaddr *)&who, len);
		len = sizeof who;
	}
	while (recv(e->from, &m, sizeof m, 0) == sizeof m && x->back < ECHOES)
		x->rtt_ns[x->back++] = clock_now_ns() - m.sent_ns;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static enum err packets(const struct ends *e, uint64_t rtt_ns, struct gauge *out, struct why *why)
{
	static struct echoes x; /* large; one thread */
	memset(&x, 0, sizeof x);
	uint64_t now = clock_now_ns(), next = now, end = UINT64_MAX;
	while (now < end && x.back < ECHOES) {
		if (x.sent < ECHOES && now >= next) {
			struct echo m = {.number = x.sent, .sent_ns = now};
			if (send(e->from, &m, sizeof m, 0) < 0 && errno != EAGAIN)
				return failed(why, "send in the bed");
			next += ECHO_EVERY_NS;
			if (++x.sent == ECHOES)
				end = next = now + 2 * rtt_ns + CLOCK_SECOND;
		}
		wait_for(e, POLLIN, POLLIN, next, now);
		take_echoes(e, &x);
		now = clock_now_ns();
	}
	if (!x.back)
		return err_why(why, ERR_network, "none of %u packets came back", x.sent);
	qsort(x.rtt_ns, x.back, sizeof *x.rtt_ns, by_size);
	out->rtt_ms = (double)x.rtt_ns[x.back / 2] / CLOCK_MS;
	out->least_rtt_ms = (double)x.rtt_ns[0] / CLOCK_MS;
	out->loss = 1 - (double)(x.arrived + x.back) / (double)(x.sent + x.arrived);
	return ERR_OK;
}

/* ---- streams */

static enum err accepted(struct ends *e, struct why *why)
{
	uint64_t now = clock_now_ns(), end = now + PATIENCE_NS;
	int fd = -1;
	while (fd < 0 && now < end) {
		wait_for(&(struct ends){-1, e->to}, 0, POLLIN, end, now);
		fd = accept4(e->to, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		now = clock_now_ns();
	}
	if (fd < 0)
		return err_why(why, ERR_timeout, "no connection between the two nodes in %llu s",
			PATIENCE_NS / CLOCK_SECOND);
	close(e->to);
	e->to = fd;
	return ERR_OK;
}

/* Sends from e->from to e->to for a time; Mbit/s of the second half. */
static enum err stream(const struct ends *e, uint64_t takes_ns, double *mbit, struct why *why)
{
	static uint8_t bytes[1 << 18];
	uint64_t now = clock_now_ns(), begin = now, half = now + takes_ns / 2, from = 0, got = 0;
	while (now - begin < takes_ns) {
		if (send(e->from, bytes, sizeof bytes, MSG_NOSIGNAL) < 0 && errno != EAGAIN)
			return failed(why, "send a stream");
		ssize_t n = recv(e->to, bytes, sizeof bytes, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return failed(why, "receive a stream");
		now = clock_now_ns();
		if (n > 0 && now >= half) {
			got += from ? (uint64_t)n
				    : 0; /* from the first arrival on, not before it */
			from = from ? from : now;
		}
		wait_for(e, POLLOUT, POLLIN, begin + takes_ns, now);
	}
	*mbit = from ? (double)got * 8 * 1000 / (double)(now - from) : 0;
	return ERR_OK;
}

static enum err one_stream(const struct bed *t, const char *prefix, const size_t node[2], bool back,
	uint64_t takes_ns, double *mbit, struct why *why)
{
	struct ends e;
	enum err err = open_ends(t, prefix, node, SOCK_STREAM, &e, why);
	if (!err)
		err = accepted(&e, why);
	if (!err)
		err = stream(back ? &(struct ends){e.to, e.from} : &e, takes_ns, mbit, why);
	/* What is still in queues is thrown away with the connection, not measured by the next. */
	if (e.from >= 0)
		(void)setsockopt(e.from, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
			sizeof(struct linger));
	if (e.to >= 0)
		(void)setsockopt(
			e.to, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close_ends(&e);
	return err;
}

enum err gauge_pair(const struct bed *t, const char *prefix, size_t from, size_t to,
	struct gauge *out, struct why *why)
{
	const size_t node[2] = {from, to};
	struct ends e;
	struct bed_path path = bed_path(t, from, to);
	uint64_t rtt_ns = (uint64_t)(2 * (path.delay + path.jitter) * CLOCK_MS);
	uint64_t takes_ns = STREAM_NS;
	if (takes_ns < STREAM_ROUND_TRIPS * rtt_ns)
		takes_ns = STREAM_ROUND_TRIPS * rtt_ns;
	*out = (struct gauge){0};
	enum err err = open_ends(t, prefix, node, SOCK_DGRAM, &e, why);
	if (!err)
		err = packets(&e, rtt_ns, out, why);
	close_ends(&e);
	if (!err)
		err = one_stream(t, prefix, node, false, takes_ns, &out->up, why);
	if (!err)
		err = one_stream(t, prefix, node, true, takes_ns, &out->down, why);
	return err;
}

/* ---- the verdict */

#define MACHINE_MBIT 200.0 /* what any machine should carry */

static bool rate_holds(double asked, double got, double loss)
{
	double expected = asked > 0 && asked < MACHINE_MBIT ? asked : MACHINE_MBIT;
	if (asked > 0 && got > 1.05 * asked)
		return false;
	return loss > 0 ? got > 0 : got >= 0.5 * expected;
}

bool gauge_holds(const struct bed_path *asked, const struct gauge *got, const char **what)
{
	double rtt = 2 * asked->delay, off = got->loss - asked->loss;
	*what = NULL;
	if (got->least_rtt_ms < rtt || got->rtt_ms > 1.25 * rtt + 2 * asked->jitter + 10)
		*what = "rtt";
	else if (!rate_holds(asked->up, got->up, asked->loss))
		*what = "up";
	else if (!rate_holds(asked->down, got->down, asked->loss))
		*what = "down";
	else if (off > 0.005 + asked->loss / 2 || off < -asked->loss / 2)
		*what = "loss";
	return !*what;
}
