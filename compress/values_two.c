#include <string.h>
#include "compress/codes.h"
#include "compress/floats.h"
#include "compress/values.h"

/*
 * A sign and one of two magnitudes.  The magnitudes are cut where the squared distance to the two
 * means is least, at a border of sixteenths of an octave: that needs no sorting, and is as good as
 * the best cut within less than what the means are rounded by, to 8 bits of exponent and 3 of
 * mantissa.
 */
#define BIN_SHIFT 19
#define BINS (FLOATS_INFINITE >> BIN_SHIFT)
#define LEVEL_SHIFT 20
#define LEVEL_MOST ((FLOATS_INFINITE >> LEVEL_SHIFT) - 1)
#define UPPER 1u

static uint16_t level_of(double magnitude)
{
	uint32_t bits = floats_bits((float)magnitude);
	uint32_t half = ((uint32_t)1 << (LEVEL_SHIFT - 1)) - 1 + (bits >> LEVEL_SHIFT & 1);
	uint32_t level = (bits + half) >> LEVEL_SHIFT;
	if (level < FLOATS_NORMAL >> LEVEL_SHIFT)
		return 0;
	return (uint16_t)(level < LEVEL_MOST ? level : LEVEL_MOST);
}

struct cut {
	uint32_t from; /* magnitudes from here on are upper */
	double lower, upper;
};

/* Least squared distance is greatest sum of (sum of a part)^2 / its size. */
static struct cut best_cut(const double *sum, const uint32_t *count, uint32_t least, uint32_t most)
{
	double total = 0, below = 0, best = -1;
	uint32_t m = 0, n = 0;
	for (uint32_t b = least; b <= most; b++) {
		total += sum[b];
		m += count[b];
	}
	struct cut cut = {UINT32_MAX, total / m, total / m};
	for (uint32_t b = least; b < most; b++) {
		if (count[b] == 0)
			continue;
		below += sum[b];
		n += count[b];
		double lower = below / n, upper = (total - below) / (m - n);
		double gain = below * lower + (total - below) * upper;
		if (gain > best) {
			best = gain;
			cut = (struct cut){(b + 1) << BIN_SHIFT, lower, upper};
		}
	}
	return cut;
}

static struct cut cut_of(const float *v, size_t m)
{
	double sum[BINS];
	uint32_t count[BINS], least = BINS - 1, most = 0; // filled from least to most
	for (size_t i = 0; i < m; i++) {
		uint32_t bin = floats_magnitude(v[i]) >> BIN_SHIFT;
		least = bin < least ? bin : least;
		most = bin > most ? bin : most;
	}
	for (uint32_t b = least; b <= most; b++) {
		sum[b] = 0;
		count[b] = 0;
	}
	for (size_t i = 0; i < m; i++) {
		uint32_t key = floats_magnitude(v[i]);
		sum[key >> BIN_SHIFT] += (double)floats_from(key);
		count[key >> BIN_SHIFT]++;
	}
	return best_cut(sum, count, least, most);
}

static void encode(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	struct cut cut = cut_of(v, m);
	uint16_t lower = level_of(cut.lower), upper = level_of(cut.upper);
	values_put_u16(side, lower);
	values_put_u16(side + 2, (uint16_t)(upper - lower));
	if (lower == upper)
		cut.from = UINT32_MAX;
	for (size_t i = 0; i < m; i++) {
		uint32_t bits = floats_bits(v[i]), key = bits & 0x7fffffffu;
		unsigned code = key >= cut.from ? UPPER : 0;
		bool zero = code ? upper == 0 : lower == 0;
		codes[i] = (uint8_t)(code | (bits >> 31 && !zero ? CODES_SIGN : 0));
	}
}

static enum err decode(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	uint32_t lower = side[0] | (uint32_t)side[1] << 8;
	uint32_t upper = lower + (side[2] | (uint32_t)side[3] << 8);
	uint32_t least = FLOATS_NORMAL >> LEVEL_SHIFT;
	if (upper > LEVEL_MOST || (lower > 0 && lower < least) || (upper > 0 && upper < least))
		return err_why(why, ERR_syntax,
			"a group has the magnitudes 0x%x and 0x%x, which are none", lower, upper);
	size_t n_upper = 0;
	bool signed_zero = false;
	for (size_t i = 0; i < m; i++) {
		uint32_t level = codes[i] & UPPER ? upper : lower, sign = codes[i] >> 7;
		n_upper += codes[i] & UPPER;
		signed_zero |= sign && level == 0;
		out[i] = floats_from(level << LEVEL_SHIFT | sign << 31);
	}
	if (upper != lower ? n_upper == 0 || n_upper == m : n_upper != 0)
		return err_why(why, ERR_syntax, "a group's magnitudes are not those it uses");
	if (signed_zero)
		return err_why(why, ERR_syntax, "a zero has a sign");
	return ERR_OK;
}

const struct values_row values_two = {
	.name = "two", .bits = 1, .sign = true, .side = 4, .encode = encode, .decode = decode};
