#include "compress/topk.h"
#include <stdlib.h>
#include <string.h>
#include "compress/floats.h"

/* How many can be chosen at all, at most k. */
static uint32_t candidates(const float *v, uint32_t n, uint32_t k)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < n; i++)
		count += floats_magnitude(v[i]) >= FLOATS_NORMAL;
	return count < k ? count : k;
}

/*
 * The m-th largest magnitude, 0 < m <= n, and how many of just that magnitude are among the m
 * largest: digit by digit from the top, each pass counting those that agree so far.
 */
static uint32_t threshold(const float *v, uint32_t n, uint32_t m, uint32_t *ties)
{
	static const struct {
		unsigned shift, bits;
	} digits[] = {{20, 11}, {10, 10}, {0, 10}};
	uint32_t found = 0, known = 0, left = m;
	for (unsigned d = 0; d < 3; d++) {
		uint32_t count[1 << 11] = {0};
		uint32_t digit_mask = ((uint32_t)1 << digits[d].bits) - 1;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t key = floats_magnitude(v[i]);
			if ((key & known) == found)
				count[key >> digits[d].shift & digit_mask]++;
		}
		uint32_t digit = digit_mask;
		while (count[digit] < left)
			left -= count[digit--];
		found |= digit << digits[d].shift;
		known |= digit_mask << digits[d].shift;
	}
	*ties = left;
	return found;
}

uint32_t topk_select(const float *v, uint32_t n, uint32_t k, uint16_t *place)
{
	uint32_t m = candidates(v, n, k);
	if (m == 0)
		return 0;
	uint32_t ties, from = threshold(v, n, m, &ties), at = 0;
	for (uint32_t i = 0; i < n && at < m; i++) {
		uint32_t key = floats_magnitude(v[i]);
		if (key < from || (key == from && ties == 0))
			continue;
		ties -= key == from;
		place[at++] = (uint16_t)i;
	}
	return m;
}

static int compare(const void *a, const void *b)
{
	uint32_t x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

struct topk_levels topk_levels(uint32_t *magnitudes, uint32_t m)
{
	qsort(magnitudes, m, sizeof *magnitudes, compare);
	double total = 0;
	for (uint32_t i = 0; i < m; i++)
		total += (double)floats_from(magnitudes[i]);
	struct topk_levels best = {.lower = total / (m ? m : 1), .upper = total / (m ? m : 1)};
	// Least squared distance is greatest sum of (sum of a part)^2 / its size.
	double below = 0, best_gain = -1;
	for (uint32_t i = 1; i < m; i++) {
		below += (double)floats_from(magnitudes[i - 1]);
		if (magnitudes[i] == magnitudes[i - 1])
			continue;
		double lower = below / i, upper = (total - below) / (m - i);
		double gain = below * lower + (total - below) * upper;
		if (gain <= best_gain)
			continue;
		best_gain = gain;
		best = (struct topk_levels){lower, upper, magnitudes[i]};
	}
	return best;
}
