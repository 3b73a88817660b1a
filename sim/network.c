#include "sim/network.h"
#include <stdlib.h>
#include "base/alloc.h"
#include "base/clock.h"

void network_init(struct network *w, uint32_t n)
{
	w->ends = alloc_must_zero(n, sizeof *w->ends);
	w->n = n;
}

void network_release(struct network *w)
{
	free(w->ends);
	*w = (struct network){0};
}

void network_reset(struct network *w, uint32_t end, uint64_t now)
{
	w->ends[end].up_ns = w->ends[end].down_ns = now;
}

static uint64_t takes(size_t bytes, double bits_per_s)
{
	return (uint64_t)((double)bytes * 8 / bits_per_s * (double)CLOCK_SECOND);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct network_way network_send(
	struct network *w, uint32_t from, uint32_t to, size_t bytes, uint64_t now)
{
	struct network_end *a = &w->ends[from];
	const uint64_t way = a->away_ns + w->ends[to].away_ns, begins = later(now, a->up_ns);
	a->up_ns = begins + takes(bytes, a->up);
	a->sent += bytes;
	return (struct network_way){begins + way, a->up_ns + way};
}

uint64_t network_receive(
	struct network *w, uint32_t to, size_t bytes, uint64_t last_ns, uint64_t now)
{
	struct network_end *b = &w->ends[to];
	b->down_ns = later(now, b->down_ns) + takes(bytes, b->down);
	b->received += bytes;
	return later(b->down_ns, last_ns);
}
