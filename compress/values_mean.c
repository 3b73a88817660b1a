#include <math.h>
#include "compress/floats.h"
#include "compress/values.h"

/*
 * SparseLoCo's Q2 (2 bits) and hivemind's uniform 8 bits are one method: bins of equal width over
 * six standard deviations, each read as the mean of what fell into it.
 */
#define BINS_MOST 256u
#define FLOAT_MOST 0x1.fffffep127

static float limited(double v)
{
	return (float)(v > FLOAT_MOST ? FLOAT_MOST : v < -FLOAT_MOST ? -FLOAT_MOST : v);
}

static float mean_of(const float *v, size_t m)
{
	double sum = 0;
	for (size_t i = 0; i < m; i++)
		sum += (double)v[i];
	return limited(sum / (double)m);
}

static double width_of(const float *v, size_t m, double mean, unsigned bins)
{
	double sum = 0;
	for (size_t i = 0; i < m; i++)
		sum += ((double)v[i] - mean) * ((double)v[i] - mean);
	double width = m > 1 ? 6 * sqrt(sum / (double)(m - 1)) / bins : 0;
	return width > 0 ? width : 1;
}

static void encode(const float *v, size_t m, unsigned bins, uint8_t *codes, uint8_t *side)
{
	float mean = mean_of(v, m);
	double width = width_of(v, m, (double)mean, bins), half = bins / 2;
	double sum[BINS_MOST] = {0}, count[BINS_MOST] = {0};
	for (size_t i = 0; i < m; i++) {
		double off = (double)v[i] - (double)mean, q = off / width;
		q = q > half - 1 ? half - 1 : q < -half ? -half : q;
		codes[i] = (uint8_t)((int)(q + (q < 0 ? -0.5 : 0.5)) + (int)half);
		sum[codes[i]] += off;
		count[codes[i]] += 1;
	}
	floats_put(side, mean);
	for (unsigned b = 0; b < bins; b++)
		floats_put(side + 4 + 4 * b, count[b] > 0 ? limited(sum[b] / count[b]) : 0);
}

static enum err decode(const uint8_t *codes, size_t m, unsigned bins, const uint8_t *side,
	float *out, struct why *why)
{
	float value[BINS_MOST], mean = floats_get(side);
	for (unsigned b = 0; b < bins; b++) {
		float off = floats_get(side + 4 + 4 * b);
		if (!floats_finite(mean) || !floats_finite(off))
			return err_why(why, ERR_not_finite, "the mean of a bin is not finite");
		value[b] = limited((double)mean + (double)off);
	}
	for (size_t i = 0; i < m; i++)
		out[i] = value[codes[i]];
	return ERR_OK;
}

static bool is_least(const uint8_t *side, unsigned bins, const bool *used)
{
	for (unsigned b = 0; b < bins; b++)
		if (!used[b] && floats_bits(floats_get(side + 4 + 4 * b)) != 0)
			return false;
	return true;
}

#define BITS(n) \
	static void encode_##n(const float *v, size_t m, uint8_t *codes, uint8_t *side) \
	{ \
		encode(v, m, 1u << (n), codes, side); \
	} \
	static enum err decode_##n( \
		const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why) \
	{ \
		return decode(codes, m, 1u << (n), side, out, why); \
	} \
	static bool is_least_##n(const uint8_t *side, const bool *used) \
	{ \
		return is_least(side, 1u << (n), used); \
	} \
	const struct values_row values_mean_##n = {.name = "mean" #n, \
		.bits = (n), \
		.whole = true, \
		.side = 4 + 4 * (1u << (n)), \
		.encode = encode_##n, \
		.decode = decode_##n, \
		.is_least = is_least_##n};
BITS(8)
BITS(4)
BITS(2)
