#include "compress/floats.h"
#include "compress/values.h"

/* A float of 4 bits: a sign and 3 bits of exponent.  Code 0 is 0, code c from 1 to 7 is 2^(c-7)
 * times the scale, the largest magnitude; 8 is added for negative ones.  The nearest wins. */
#define SIGN 8u

/* Where the codes 1 to 7 begin. */
static const float border[7] = {
	0x1p-7f, 0x1.8p-6f, 0x1.8p-5f, 0x1.8p-4f, 0x1.8p-3f, 0x1.8p-2f, 0x1.8p-1f};

/* Without branches, which compilers then do four at a time.  Where the scale is 0 nothing is near
 * the first border. */
static void encode(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	double largest = (double)floats_from(values_largest(v, m));
	float scale = values_set_scale(largest, VALUES_SCALE_MOST, side),
	      by = scale > 0 ? scale : 1;
	for (size_t i = 0; i < m; i++) {
		uint32_t bits = floats_bits(v[i]), code = 0;
		float x = floats_from(bits & 0x7fffffffu) / by;
		for (unsigned c = 0; c < 7; c++)
			code += x >= border[c];
		codes[i] = (uint8_t)(code + (code > 0) * (bits >> 31) * SIGN);
	}
}

static enum err decode(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	static const float power[8] = {0, 0x1p-6f, 0x1p-5f, 0x1p-4f, 0x1p-3f, 0x1p-2f, 0x1p-1f, 1};
	float scale;
	enum err err = values_get_scale(side, VALUES_SCALE_MOST, &scale, why);
	if (err)
		return err;
	unsigned largest = 0;
	bool signed_zero = false;
	for (size_t i = 0; i < m; i++) {
		unsigned code = codes[i] & 7;
		largest = code > largest ? code : largest;
		signed_zero |= codes[i] == SIGN;
		out[i] = codes[i] & SIGN ? -power[code] * scale : power[code] * scale;
	}
	if (signed_zero || largest != (scale > 0 ? 7u : 0u))
		return err_why(why, ERR_syntax, "the codes of a group are not what its scale says");
	return ERR_OK;
}

const struct values_row values_e3m0 = {
	.name = "e3m0", .bits = 4, .side = 2, .encode = encode, .decode = decode};
