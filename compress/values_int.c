#include "compress/floats.h"
#include "compress/values.h"

/* The largest scale whose multiple by 127, by 7 and by 3 is finite. */
#define MOST_127 0xf802u
#define MOST_7 0xfc24u
#define MOST_3 0xfd55u

static float scale_of(const float *v, size_t m, unsigned steps, uint16_t most, uint8_t *side)
{
	double largest = (double)floats_from(values_largest(v, m));
	return values_set_scale(largest / steps, most, side);
}

/* v / scale as the nearest whole number of at most so many, a half away from zero; offset added. */
static void encode_steps(const float *v, size_t m, float scale, int steps, uint8_t *codes)
{
	float most = (float)steps;
	for (size_t i = 0; i < m; i++) {
		float q = v[i] / scale;
		q = q > most ? most : q < -most ? -most : q;
		codes[i] = (uint8_t)((int)(q + (q < 0 ? -0.5f : 0.5f)) + steps);
	}
}

static void encode_zeros(size_t m, int steps, uint8_t *codes)
{
	for (size_t i = 0; i < m; i++)
		codes[i] = (uint8_t)steps;
}

static void encode_many(
	const float *v, size_t m, int steps, uint16_t most, uint8_t *codes, uint8_t *side)
{
	float scale = scale_of(v, m, (unsigned)steps, most, side);
	if (scale > 0)
		encode_steps(v, m, scale, steps, codes);
	else
		encode_zeros(m, steps, codes);
}

static enum err decode_many(const uint8_t *codes, size_t m, int steps, uint16_t most,
	const uint8_t *side, float *out, struct why *why)
{
	float scale;
	enum err err = values_get_scale(side, most, &scale, why);
	if (err)
		return err;
	int largest = 0, beyond = 0;
	for (size_t i = 0; i < m; i++) {
		int q = codes[i] - steps, size = q < 0 ? -q : q;
		beyond |= size > steps;
		largest = size > largest ? size : largest;
		out[i] = (float)q * scale;
	}
	if (beyond || largest != (scale > 0 ? steps : 0))
		return err_why(why, ERR_syntax,
			"the largest code of a group is %d, not what its scale says", largest);
	return ERR_OK;
}

static void encode_8(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	encode_many(v, m, 127, MOST_127, codes, side);
}

static enum err decode_8(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	return decode_many(codes, m, 127, MOST_127, side, out, why);
}

static void encode_4(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	encode_many(v, m, 7, MOST_7, codes, side);
}

static enum err decode_4(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	return decode_many(codes, m, 7, MOST_7, side, out, why);
}

/* Codes 0 to 3 are -3, -1, 1, 3 times the scale: no zero, which two bits have no room for. */
static void encode_2(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	float scale = scale_of(v, m, 3, MOST_3, side), middle = 2 * scale;
	for (size_t i = 0; i < m; i++)
		codes[i] = scale > 0 ? (uint8_t)((v[i] >= -middle) + (v[i] >= 0) + (v[i] >= middle))
				     : 0;
}

static enum err decode_2(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	float scale;
	enum err err = values_get_scale(side, MOST_3, &scale, why);
	if (err)
		return err;
	unsigned ends = 0, any = 0;
	for (size_t i = 0; i < m; i++) {
		ends |= codes[i] == 0 || codes[i] == 3;
		any |= codes[i];
		out[i] = scale > 0 ? (float)(2 * codes[i] - 3) * scale : 0;
	}
	if (scale > 0 ? !ends : any)
		return err_why(why, ERR_syntax, "the codes of a group are not what its scale says");
	return ERR_OK;
}

const struct values_row values_int_8 = {
	.name = "int8", .bits = 8, .side = 2, .encode = encode_8, .decode = decode_8};
const struct values_row values_int_4 = {
	.name = "int4", .bits = 4, .side = 2, .encode = encode_4, .decode = decode_4};
const struct values_row values_int_2 = {
	.name = "int2", .bits = 2, .side = 2, .encode = encode_2, .decode = decode_2};
