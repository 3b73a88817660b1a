#include "tests/wan/star.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/signal.h"
#include "tests/wan/nat.h"
#include "tests/wan/netns.h"
#include "tests/wan/shaper.h"
#include "tests/wan/steer.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define PACKET_MOST 2048
#define BATCH 32 /* packets of one node before others have a turn */
#define STAGES 3
#define SHAPERS (2 * BED_NODES + BED_SITES * BED_SITES)

enum { SOURCE_timer = BED_NODES, SOURCE_control, SOURCE_stop };

struct star {
	struct bed *t;
	struct shaper up[BED_NODES], down[BED_NODES];
	struct shaper across[BED_SITES][BED_SITES]; /* [from][to] */
	struct shaper *busy[SHAPERS];               /* those with packets */
	size_t n_busy;
	struct nat nat[BED_SITES];
	uint64_t unasked; /* packets that routers did not let in */
	int tun[BED_NODES];
	int poll, timer, control;
	uint64_t armed_ns; /* what the timer is set to */
};

/* ---- packets */

static struct shaper *shaper_of(struct star *s, const struct packet *p)
{
	switch (p->stage) {
	case 0: return &s->up[p->from];
	case 1: return &s->across[s->t->node[p->from].site][s->t->node[p->to].site];
	default: return &s->down[p->to];
	}
}

static void put(struct star *s, struct packet *p, uint64_t now_ns)
{
	struct shaper *at = shaper_of(s, p);
	bool was_empty = !at->head;
	shaper_put(at, p, now_ns);
	if (was_empty && at->head)
		s->busy[s->n_busy++] = at;
}

/* The index in busy of what is due first, or n_busy. */
static size_t first_due(const struct star *s)
{
	size_t first = s->n_busy;
	uint64_t due = UINT64_MAX;
	for (size_t i = 0; i < s->n_busy; i++) {
		uint64_t d = shaper_due(s->busy[i]);
		if (d < due) {
			due = d;
			first = i;
		}
	}
	return first;
}

/* In the order of their times, each with the time that it was due and not the time that it is: what
 * comes late here is not later for that at its next link.  Returns when the next one is due. */
static uint64_t carry(struct star *s, uint64_t now_ns)
{
	size_t i;
	while ((i = first_due(s)) < s->n_busy) {
		struct shaper *at = s->busy[i];
		uint64_t due = shaper_due(at);
		if (due > now_ns)
			return due;
		struct packet *p = shaper_take(at, due);
		if (!at->head)
			s->busy[i] = s->busy[--s->n_busy];
		if (!p)
			continue;
		if (++p->stage < STAGES) {
			put(s, p, p->due_ns);
			continue;
		}
		/* A device that does not take it loses it, as a full network card would. */
		if (write(s->tun[p->to], p->bytes, p->len) < 0)
			at->dropped++;
		free(p);
	}
	return UINT64_MAX;
}

/* The last number of the address in 10.77.0.0/24 that an IPv4 packet is for; 0: it is for another.
 */
static size_t receiver(const uint8_t *bytes, size_t len)
{
	struct iphdr ip;
	if (len < sizeof ip)
		return 0;
	memcpy(&ip, bytes, sizeof ip);
	const uint8_t *to = (const uint8_t *)&ip.daddr;
	return ip.version != 4 || to[0] != 10 || to[1] != 77 || to[2] != 0 ? 0 : to[3];
}

/* Through the routers of both sites; the node that it is for, or n_nodes. */
static size_t route(struct star *s, size_t from, uint8_t *bytes, size_t len)
{
	const struct bed *t = s->t;
	const size_t home = t->node[from].site, number = receiver(bytes, len),
		     router = number - BED_ROUTER;
	size_t to = number && number <= t->n_nodes ? number - 1 : t->n_nodes;
	const bool at_router = number >= BED_ROUTER && router < t->n_sites && t->nat[router];
	if (to < t->n_nodes && t->node[to].site == home)
		return to;
	if (to == t->n_nodes && !at_router)
		return to;
	if (t->nat[home] && (home == router || !nat_out(&s->nat[home], bytes, len)))
		return t->n_nodes;
	if (at_router && nat_in(&s->nat[router], bytes, len)) {
		to = receiver(bytes, len) - 1;
		return to < t->n_nodes ? to : t->n_nodes;
	}
	if (!at_router && !t->nat[t->node[to].site])
		return to;
	s->unasked++;
	return t->n_nodes;
}

static void read_node(struct star *s, size_t node)
{
	uint8_t bytes[PACKET_MOST];
	uint64_t now_ns = clock_now_ns();
	for (int i = 0; i < BATCH; i++) {
		ssize_t n = read(s->tun[node], bytes, sizeof bytes);
		if (n <= 0)
			return;
		size_t to = route(s, node, bytes, (size_t)n);
		if (to == s->t->n_nodes)
			continue;
		struct packet *p = alloc_must(sizeof *p + (size_t)n);
		*p = (struct packet){.len = (uint32_t)n, .from = (uint8_t)node, .to = (uint8_t)to};
		memcpy(p->bytes, bytes, (size_t)n);
		put(s, p, now_ns);
	}
}

/* ---- the loop */

static void arm(struct star *s, uint64_t due_ns)
{
	if (due_ns == s->armed_ns)
		return;
	struct itimerspec when = {0}; /* all zero switches it off */
	if (due_ns != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(due_ns / CLOCK_SECOND);
		when.it_value.tv_nsec = (long)(due_ns % CLOCK_SECOND);
	}
	(void)timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &when, NULL);
	s->armed_ns = due_ns;
}

static void stats(const struct star *s, struct buf *out)
{
	const struct bed *t = s->t;
	for (size_t i = 0; i < t->n_nodes; i++)
		buf_printf(out, "%s up_bytes=%llu down_bytes=%llu lost=%llu dropped=%llu\n",
			t->node[i].name, (unsigned long long)s->up[i].passed_bytes,
			(unsigned long long)s->down[i].passed_bytes,
			(unsigned long long)(s->up[i].lost + s->down[i].lost),
			(unsigned long long)(s->up[i].dropped + s->down[i].dropped));
	for (size_t a = 0; a < t->n_sites; a++)
		for (size_t b = 0; b < t->n_sites; b++)
			if (s->across[a][b].passed)
				buf_printf(out, "%s-%s bytes=%llu lost=%llu dropped=%llu\n",
					t->site[a], t->site[b],
					(unsigned long long)s->across[a][b].passed_bytes,
					(unsigned long long)s->across[a][b].lost,
					(unsigned long long)s->across[a][b].dropped);
	if (s->unasked)
		buf_printf(out, "routers unasked=%llu\n", (unsigned long long)s->unasked);
}

static void command(struct star *s)
{
	struct steer_line line;
	struct buf answer;
	struct why why;
	if (!steer_receive(s->control, &line))
		return;
	buf_init(&answer, STEER_ANSWER);
	if (strcmp(line.text, "stats") == 0)
		stats(s, &answer);
	else if (bed_change(s->t, line.text, &why))
		buf_printf(&answer, "%s", why.text);
	else
		buf_printf(&answer, "ok");
	steer_answer(s->control, &line, buf_ok(&answer) ? (const char *)answer.data : "too long");
	buf_release(&answer);
}

static void turn(struct star *s, size_t source)
{
	uint64_t fired;
	if (source < BED_NODES) {
		read_node(s, source);
	} else if (source == SOURCE_control) {
		command(s);
	} else if (source == SOURCE_timer) {
		if (read(s->timer, &fired, sizeof fired) > 0)
			s->armed_ns = UINT64_MAX;
	}
}

static void loop(struct star *s)
{
	struct epoll_event events[BED_NODES + 3];
	while (!signal_asked()) {
		int n = epoll_wait(s->poll, events, sizeof events / sizeof *events, -1);
		for (int i = 0; i < n; i++)
			turn(s, events[i].data.u64);
		arm(s, carry(s, clock_now_ns()));
	}
}

/* ---- opening and closing */

static void shape(struct star *s, uint64_t seed)
{
	struct bed *t = s->t;
	uint64_t stream = 0;
	for (size_t i = 0; i < t->n_nodes; i++) {
		s->up[i] =
			(struct shaper){.way = &t->node[i].way, .seed = seed, .stream = stream++};
		s->down[i] = (struct shaper){
			.way = &t->node[i].way, .down = true, .seed = seed, .stream = stream++};
	}
	for (size_t a = 0; a < t->n_sites; a++)
		s->nat[a].address = htonl(0x0a4d0000u + BED_ROUTER + (uint32_t)a);
	for (size_t a = 0; a < t->n_sites; a++)
		for (size_t b = 0; b < t->n_sites; b++)
			s->across[a][b] = (struct shaper){.way = bed_link(t, a, b),
				.down = a > b,
				.seed = seed,
				.stream = stream++};
}

static bool watch(struct star *s, int fd, uint64_t source)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = source};
	return epoll_ctl(s->poll, EPOLL_CTL_ADD, fd, &e) == 0;
}

static enum err open_all(struct star *s, const char *prefix, const char *control, struct why *why)
{
	s->poll = epoll_create1(EPOLL_CLOEXEC);
	s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	bool ok = s->poll >= 0 && s->timer >= 0 && watch(s, s->timer, SOURCE_timer) &&
		  watch(s, signal_fd(), SOURCE_stop);
	enum err err = ERR_OK;
	for (size_t i = 0; ok && !err && i < s->t->n_nodes; i++) {
		char address[16];
		bed_address(i, address);
		err = netns_tun(prefix, s->t->node[i].name, address, &s->tun[i], why);
		ok = err || watch(s, s->tun[i], i);
	}
	if (ok && !err) /* last: who sees the socket may begin */
		err = steer_listen(control, &s->control, why);
	ok = ok && (err || watch(s, s->control, SOURCE_control));
	return ok ? err
		  : err_why(why, err_from_errno(errno), "cannot watch the devices: %s",
			    strerror(errno));
}

static void close_all(struct star *s)
{
	for (size_t i = 0; i < s->t->n_nodes; i++) {
		if (s->tun[i] >= 0)
			close(s->tun[i]);
		shaper_release(&s->up[i]);
		shaper_release(&s->down[i]);
	}
	for (size_t a = 0; a < s->t->n_sites; a++)
		for (size_t b = 0; b < s->t->n_sites; b++)
			shaper_release(&s->across[a][b]);
	if (s->control >= 0)
		close(s->control);
	if (s->timer >= 0)
		close(s->timer);
	if (s->poll >= 0)
		close(s->poll);
}

enum err star_run(
	struct bed *t, const char *prefix, uint64_t seed, const char *control, struct why *why)
{
	struct star *s = alloc_must_zero(1, sizeof *s);
	*s = (struct star){.t = t, .poll = -1, .timer = -1, .control = -1, .armed_ns = UINT64_MAX};
	for (size_t i = 0; i < BED_NODES; i++)
		s->tun[i] = -1;
	shape(s, seed);
	/* Ahead of those who compute on the same cores, else their time slices are the bed's
	 * jitter; where it is not allowed the bed is less exact. */
	(void)sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1});
	enum err err = open_all(s, prefix, control, why);
	if (!err)
		loop(s);
	if (s->control >= 0)
		(void)unlink(control);
	close_all(s);
	free(s);
	return err;
}
