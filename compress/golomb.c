#include "compress/golomb.h"

static unsigned bit_length(uint32_t v)
{
	return v ? 32 - (unsigned)__builtin_clz(v) : 0;
}

struct golomb golomb_for(uint32_t len, uint32_t m)
{
	// The nearest whole number to ln 2 times the mean gap, ln 2 being 45426 / 65536.
	uint64_t divisor = ((uint64_t)(len - m) * 45426 + (uint64_t)m * 32768) / (uint64_t)m >> 16;
	struct golomb g = {.divisor = divisor ? (uint32_t)divisor : 1};
	g.bits = bit_length(g.divisor - 1);
	g.cutoff = ((uint32_t)1 << g.bits) - g.divisor;
	return g;
}

/*
 * A gap takes its quotient, a zero, and the remainder.  All quotients together are at most the free
 * places / divisor, below 3 m by the choice of the divisor; a remainder is below len / m.  One bit
 * more each makes up for fewer places than m, whose remainders are longer.
 */
size_t golomb_bound(uint32_t len, uint32_t m)
{
	return (size_t)m * (6 + bit_length(len / m));
}

void golomb_put(const struct golomb *g, struct bits_out *to, uint32_t gap)
{
	bits_put_ones(to, gap / g->divisor);
	if (g->bits == 0)
		return;
	uint32_t rest = gap % g->divisor;
	if (rest < g->cutoff) {
		bits_put(to, rest, g->bits - 1);
		return;
	}
	// High bits first: they alone tell that one more follows.
	rest += g->cutoff;
	bits_put(to, rest >> 1, g->bits - 1);
	bits_put(to, rest & 1, 1);
}

uint32_t golomb_get(const struct golomb *g, struct bits_in *from, uint32_t most)
{
	uint32_t gap = bits_get_ones(from, most / g->divisor) * g->divisor;
	if (g->bits > 0) {
		uint32_t rest = bits_get(from, g->bits - 1);
		if (rest >= g->cutoff)
			rest = rest * 2 + bits_get(from, 1) - g->cutoff;
		gap += rest;
	}
	if (gap > most)
		from->failed = true;
	return gap;
}
