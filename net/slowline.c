#include "net/slowline.h"
#include "base/alloc.h"
#include "base/clock.h"
#include <stdlib.h>

#define AHEAD (CLOCK_SECOND / 4) // of the line: what waits in here cannot be overtaken
#define OVERHEAD 64              // bytes that a message has around its payload, about

struct waiting {
	struct waiting *after;
	uint64_t due_ns;
	struct slowline_item item;
};

struct slowline {
	double bytes_per_s;
	uint64_t delay_ns;
	uint64_t free_ns; // when the last byte of what was put has been sent
	struct waiting *first, **end;
	size_t messages, bytes; // that wait beside chunks, and their payloads
};

static bool is_chunk(const struct slowline_item *item)
{
	return item->out.header.which_body == MSG_chunk;
}

struct slowline *slowline_new(double bytes_per_s, uint64_t delay_ns)
{
	struct slowline *s = alloc_must_zero(1, sizeof *s);
	s->bytes_per_s = bytes_per_s;
	s->delay_ns = delay_ns;
	s->end = &s->first;
	return s;
}

void slowline_free(struct slowline *s)
{
	struct slowline_item item;
	while (s && slowline_take(s, UINT64_MAX, &item))
		shared_drop(item.out.bytes);
	free(s);
}

bool slowline_put(struct slowline *s, const struct slowline_item *item, uint64_t now_ns)
{
	// Chunks are handed over again.  Nobody repeats the other messages, with or without a
	// payload, so they are taken however busy the line is, up to a bound on what they keep.
	if (is_chunk(item) ? s->free_ns > now_ns + AHEAD
			   : s->messages >= SLOWLINE_MESSAGES ||
				     item->out.len > SLOWLINE_BYTES - s->bytes)
		return false;
	if (!is_chunk(item)) {
		s->messages++;
		s->bytes += item->out.len;
	}
	struct waiting *w = alloc_must_zero(1, sizeof *w);
	uint64_t start = s->free_ns > now_ns ? s->free_ns : now_ns;
	double took = 0;
	if (s->bytes_per_s > 0)
		took = (double)(item->out.len + OVERHEAD) / s->bytes_per_s * (double)CLOCK_SECOND;
	s->free_ns = start + (uint64_t)took;
	w->due_ns = s->free_ns + s->delay_ns;
	w->item = *item;
	if (item->out.bytes)
		shared_hold(item->out.bytes);
	*s->end = w;
	s->end = &w->after;
	return true;
}

bool slowline_take(struct slowline *s, uint64_t now_ns, struct slowline_item *out)
{
	struct waiting *w = s->first;
	if (!w || w->due_ns > now_ns)
		return false;
	s->first = w->after;
	if (!s->first)
		s->end = &s->first;
	*out = w->item;
	if (!is_chunk(out)) {
		s->messages--;
		s->bytes -= out->out.len;
	}
	free(w);
	return true;
}

uint64_t slowline_due(const struct slowline *s)
{
	return s->first ? s->first->due_ns : UINT64_MAX;
}
