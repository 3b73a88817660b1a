#include "compress/places.h"

#define DIRECT 8u      /* gaps that are their own symbols */
#define FIRST_OCTAVE 3 /* the binary logarithm of DIRECT */

/* base: the smallest gap of a symbol; bits: how many low bits it has. */
#define OCTAVE(e) \
	{1u << (e), (e)-2}, {5u << ((e)-2), (e)-2}, {6u << ((e)-2), (e)-2}, \
	{ \
		7u << ((e)-2), (e)-2 \
	}
static const struct {
	uint16_t base;
	uint8_t bits;
} symbols[PLACES_SYMBOLS] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0},
	OCTAVE(3), OCTAVE(4), OCTAVE(5), OCTAVE(6), OCTAVE(7), OCTAVE(8), OCTAVE(9), OCTAVE(10),
	OCTAVE(11), OCTAVE(12), OCTAVE(13), OCTAVE(14), OCTAVE(15)};

static unsigned octave(uint32_t gap)
{
	return 31 - (unsigned)__builtin_clz(gap);
}

unsigned places_extra_most(uint32_t len)
{
	return len > DIRECT ? octave(len - 1) - 2 : 0;
}

void places_put(const uint16_t *place, uint32_t m, uint8_t *symbol, struct bits_out *extra)
{
	uint32_t next = 0;
	for (uint32_t i = 0; i < m; i++) {
		uint32_t gap = place[i] - next;
		next = place[i] + 1u;
		if (gap < DIRECT) {
			symbol[i] = (uint8_t)gap;
			continue;
		}
		unsigned e = octave(gap);
		symbol[i] = (uint8_t)(DIRECT + 4 * (e - FIRST_OCTAVE) + (gap >> (e - 2) & 3));
		bits_put(extra, gap, e - 2);
	}
}

bool places_get(
	const uint8_t *symbol, uint32_t m, uint32_t len, struct bits_in *extra, uint16_t *place)
{
	uint32_t next = 0;
	for (uint32_t i = 0; i < m; i++) {
		if (symbol[i] >= PLACES_SYMBOLS)
			return false;
		uint32_t at =
			next + symbols[symbol[i]].base + bits_get(extra, symbols[symbol[i]].bits);
		if (at >= len)
			return false;
		place[i] = (uint16_t)at;
		next = at + 1;
	}
	return !extra->failed;
}
