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

uint64_t network_send(struct network *w, uint32_t from, uint32_t to, size_t bytes, uint64_t now)
{
	struct network_end *a = &w->ends[from], *b = &w->ends[to];
	const uint64_t way = a->away_ns + b->away_ns, begins = later(now, a->up_ns);
	a->up_ns = begins + takes(bytes, a->up);
	b->down_ns = later(later(begins + way, b->down_ns) + takes(bytes, b->down), a->up_ns + way);
	a->sent += bytes;
	b->received += bytes;
	return b->down_ns;
}
