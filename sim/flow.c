#include "sim/flow.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include "base/alloc.h"

struct line {
	double bytes_per_s, carried; /* carried: in all */
	/* While rates are made: */
	uint32_t first, n; /* transfers that pass: where they stand in `over`, and how many */
	uint32_t rising;   /* of them */
	double left;       /* of the capacity, for these */
	double share;      /* as the heap knows it */
};

struct transfer {
	struct flow_transfer is;
	uint32_t waits; /* for so many others */
	uint32_t after,
		behind; /* first edges of those that wait for it to be there, to have left */
	double left, rate, end_s;
	bool held; /* has its rate */
};

struct edge {
	uint32_t second, next;
};

enum what { STARTS, ARRIVES };

struct event {
	double at_s;
	uint32_t transfer;
	enum what what;
};

struct flow {
	struct line *lines;
	struct transfer *transfers;
	struct edge *edges;
	struct event *events;    /* a heap */
	uint32_t *active, *over; /* transfers with bytes on their way; those of each line */
	uint32_t *heap;          /* lines, by share */
	uint32_t n_lines, n_transfers, n_edges, n_events, n_active;
	uint32_t cap_lines, cap_transfers, cap_edges, cap_events;
	double now_s;
};

struct flow *flow_new(void)
{
	return alloc_must_zero(1, sizeof(struct flow));
}

void flow_free(struct flow *f)
{
	if (!f)
		return;
	free(f->lines);
	free(f->transfers);
	free(f->edges);
	free(f->events);
	free(f->active);
	free(f->over);
	free(f->heap);
	free(f);
}

static void *room(void *at, uint32_t n, uint32_t *cap, size_t size)
{
	if (n < *cap)
		return at;
	*cap = *cap ? 2 * *cap : 64;
	return alloc_must_resize(at, *cap, size);
}

uint32_t flow_line(struct flow *f, double bytes_per_s)
{
	if (bytes_per_s <= 0)
		return FLOW_NONE;
	f->lines = room(f->lines, f->n_lines, &f->cap_lines, sizeof *f->lines);
	f->lines[f->n_lines] = (struct line){.bytes_per_s = bytes_per_s};
	return f->n_lines++;
}

uint32_t flow_add(struct flow *f, const struct flow_transfer *t)
{
	f->transfers = room(f->transfers, f->n_transfers, &f->cap_transfers, sizeof *f->transfers);
	f->transfers[f->n_transfers] = (struct transfer){.is = *t,
		.after = FLOW_NONE,
		.behind = FLOW_NONE,
		.left = t->bytes,
		.end_s = INFINITY};
	return f->n_transfers++;
}

static void add_edge(struct flow *f, uint32_t second, uint32_t *first_edge)
{
	f->edges = room(f->edges, f->n_edges, &f->cap_edges, sizeof *f->edges);
	f->edges[f->n_edges] = (struct edge){second, *first_edge};
	*first_edge = f->n_edges++;
	f->transfers[second].waits++;
}

void flow_after(struct flow *f, uint32_t second, uint32_t first)
{
	assert(first < f->n_transfers && second < f->n_transfers);
	add_edge(f, second, &f->transfers[first].after);
}

void flow_behind(struct flow *f, uint32_t second, uint32_t first)
{
	assert(first < f->n_transfers && second < f->n_transfers);
	add_edge(f, second, &f->transfers[first].behind);
}

/* ---- events, a heap by time and then by number */

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at_s < b->at_s || (a->at_s == b->at_s && a->transfer < b->transfer);
}

static void put(struct flow *f, double at_s, uint32_t transfer, enum what what)
{
	const struct event e = {at_s, transfer, what};
	f->events = room(f->events, f->n_events, &f->cap_events, sizeof *f->events);
	uint32_t i = f->n_events++;
	for (; i && sooner(&e, &f->events[(i - 1) / 2]); i = (i - 1) / 2)
		f->events[i] = f->events[(i - 1) / 2];
	f->events[i] = e;
}

static struct event take(struct flow *f)
{
	const struct event first = f->events[0], e = f->events[--f->n_events];
	uint32_t i = 0;
	for (uint32_t child; (child = 2 * i + 1) < f->n_events; i = child) {
		if (child + 1 < f->n_events && sooner(&f->events[child + 1], &f->events[child]))
			child++;
		if (!sooner(&f->events[child], &e))
			break;
		f->events[i] = f->events[child];
	}
	f->events[i] = e;
	return first;
}

/* ---- fair rates */

static bool fuller(const struct flow *f, uint32_t a, uint32_t b)
{
	const double x = f->lines[a].share, y = f->lines[b].share;
	return x < y || (x == y && a < b);
}

static void sift(struct flow *f, uint32_t n, uint32_t i)
{
	const uint32_t line = f->heap[i];
	for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && fuller(f, f->heap[child + 1], f->heap[child]))
			child++;
		if (!fuller(f, f->heap[child], line))
			break;
		f->heap[i] = f->heap[child];
	}
	f->heap[i] = line;
}

/* Which transfers pass over each line; the lines that have any are in the heap. */
static uint32_t sort_by_line(struct flow *f)
{
	uint32_t n = 0, at = 0;
	for (uint32_t i = 0; i < f->n_lines; i++)
		f->lines[i].n = 0;
	for (uint32_t i = 0; i < f->n_active; i++)
		for (uint32_t k = 0; k < FLOW_LINES; k++) {
			const uint32_t line = f->transfers[f->active[i]].is.line[k];
			if (line != FLOW_NONE)
				f->lines[line].n++;
		}
	for (uint32_t i = 0; i < f->n_lines; i++) {
		struct line *l = &f->lines[i];
		l->first = at;
		at += l->n;
		l->rising = 0;
		l->left = l->bytes_per_s;
		l->share = l->left / l->n;
		if (l->n)
			f->heap[n++] = i;
	}
	for (uint32_t i = 0; i < f->n_active; i++)
		for (uint32_t k = 0; k < FLOW_LINES; k++) {
			const uint32_t line = f->transfers[f->active[i]].is.line[k];
			if (line != FLOW_NONE)
				f->over[f->lines[line].first + f->lines[line].rising++] =
					f->active[i];
		}
	for (uint32_t i = n / 2; i-- > 0;)
		sift(f, n, i);
	return n;
}

/* This line is full: those that pass over it rise no more. */
static void hold(struct flow *f, const struct line *full)
{
	const double rate = full->share;
	for (uint32_t i = 0; i < full->n; i++) {
		struct transfer *t = &f->transfers[f->over[full->first + i]];
		if (t->held)
			continue;
		t->held = true;
		t->rate = rate;
		for (uint32_t k = 0; k < FLOW_LINES; k++) {
			if (t->is.line[k] == FLOW_NONE)
				continue;
			struct line *l = &f->lines[t->is.line[k]];
			l->left = fmax(0, l->left - rate);
			l->rising--;
		}
	}
}

/* A line's share only grows while others are held, so that one in the heap is looked at again when
 * it comes to the top. */
static void share_out(struct flow *f)
{
	uint32_t n = sort_by_line(f);
	for (uint32_t i = 0; i < f->n_active; i++)
		f->transfers[f->active[i]].held = false;
	while (n) {
		struct line *l = &f->lines[f->heap[0]];
		const double share = l->rising ? l->left / l->rising : l->share;
		if (share > l->share) {
			l->share = share;
		} else {
			if (l->rising)
				hold(f, l);
			f->heap[0] = f->heap[--n];
		}
		if (n)
			sift(f, n, 0);
	}
}

/* ---- time */

static bool has_lines(const struct transfer *t)
{
	for (uint32_t k = 0; k < FLOW_LINES; k++)
		if (t->is.line[k] != FLOW_NONE)
			return true;
	return false;
}

/* One less to wait for, for all of these. */
static void release(struct flow *f, uint32_t first_edge)
{
	for (uint32_t e = first_edge; e != FLOW_NONE; e = f->edges[e].next) {
		struct transfer *next = &f->transfers[f->edges[e].second];
		if (--next->waits == 0)
			put(f, fmax(f->now_s, next->is.not_before_s), f->edges[e].second, STARTS);
	}
}

static void leave(struct flow *f, uint32_t number)
{
	const struct transfer *t = &f->transfers[number];
	put(f, f->now_s + t->is.delay_s, number, ARRIVES);
	release(f, t->behind);
}

static void start(struct flow *f, uint32_t number)
{
	const struct transfer *t = &f->transfers[number];
	if (t->is.bytes > 0 && has_lines(t))
		f->active[f->n_active++] = number;
	else
		leave(f, number);
}

static void arrive(struct flow *f, uint32_t number)
{
	f->transfers[number].end_s = f->now_s;
	release(f, f->transfers[number].after);
}

/* Until what comes first: an event, or that something has been sent. */
static double next_s(const struct flow *f)
{
	double at = f->n_events ? f->events[0].at_s : INFINITY;
	for (uint32_t i = 0; i < f->n_active; i++) {
		const struct transfer *t = &f->transfers[f->active[i]];
		at = fmin(at, f->now_s + t->left / t->rate);
	}
	return at;
}

/* True: some have been sent. */
static bool advance(struct flow *f, double to_s)
{
	const double passed = to_s - f->now_s;
	uint32_t n = 0;
	f->now_s = to_s;
	for (uint32_t i = 0; i < f->n_active; i++) {
		struct transfer *t = &f->transfers[f->active[i]];
		t->left -= t->rate * passed;
		/* What would take less time than the clock can tell is rounding. */
		if (f->now_s + t->left / t->rate > f->now_s)
			f->active[n++] = f->active[i];
		else
			leave(f, f->active[i]);
	}
	const bool some = n < f->n_active;
	f->n_active = n;
	return some;
}

static void prepare(struct flow *f)
{
	f->active = alloc_must_zero(f->n_transfers + 1, sizeof *f->active);
	f->over = alloc_must_zero((size_t)f->n_transfers * FLOW_LINES + 1, sizeof *f->over);
	f->heap = alloc_must_zero(f->n_lines + 1, sizeof *f->heap);
	for (uint32_t i = 0; i < f->n_transfers; i++) {
		const struct transfer *t = &f->transfers[i];
		if (!t->waits)
			put(f, t->is.not_before_s, i, STARTS);
		for (uint32_t k = 0; k < FLOW_LINES; k++)
			if (t->is.line[k] != FLOW_NONE)
				f->lines[t->is.line[k]].carried += t->is.bytes;
	}
}

void flow_run(struct flow *f)
{
	prepare(f);
	for (double at; isfinite(at = next_s(f));) {
		bool changed = advance(f, at);
		while (f->n_events && f->events[0].at_s <= f->now_s) {
			const struct event e = take(f);
			const uint32_t before = f->n_active;
			if (e.what == STARTS)
				start(f, e.transfer);
			else
				arrive(f, e.transfer);
			changed = changed || f->n_active != before;
		}
		if (changed)
			share_out(f);
	}
}

double flow_end_s(const struct flow *f, uint32_t transfer)
{
	return f->transfers[transfer].end_s;
}

double flow_carried(const struct flow *f, uint32_t line)
{
	return line == FLOW_NONE ? 0 : f->lines[line].carried;
}
