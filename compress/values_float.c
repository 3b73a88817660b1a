#include <string.h>
#include "compress/floats.h"
#include "compress/values.h"

static void put(uint8_t *to, uint32_t bits, size_t width)
{
	for (size_t b = 0; b < width; b++)
		to[b] = (uint8_t)(bits >> 8 * b);
}

static uint32_t get(const uint8_t *from, size_t width)
{
	uint32_t bits = 0;
	for (size_t b = 0; b < width; b++)
		bits |= (uint32_t)from[b] << 8 * b;
	return bits;
}

static enum err check(float v, struct why *why)
{
	return floats_finite(v) ? ERR_OK
				: err_why(why, ERR_not_finite, "a value is infinite or NaN");
}

static void encode_32(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	(void)side;
	for (size_t i = 0; i < m; i++)
		put(codes + 4 * i, floats_bits(v[i]), 4);
}

static enum err decode_32(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	(void)side;
	enum err err = ERR_OK;
	for (size_t i = 0; i < m && !err; i++) {
		out[i] = floats_from(get(codes + 4 * i, 4));
		err = check(out[i], why);
	}
	return err;
}

/* What would round to infinity becomes the largest there is. */
static void encode_16(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	(void)side;
	for (size_t i = 0; i < m; i++) {
		uint32_t bits = floats_bits(v[i]), key = bits & 0x7fffffffu;
		key = (key + 0x7fff + (key >> 16 & 1)) >> 16;
		key = key < FLOATS_INFINITE >> 16 ? key : (FLOATS_INFINITE >> 16) - 1;
		put(codes + 2 * i, (bits >> 31 << 15) | key, 2);
	}
}

static enum err decode_16(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	(void)side;
	enum err err = ERR_OK;
	for (size_t i = 0; i < m && !err; i++) {
		out[i] = floats_from(get(codes + 2 * i, 2) << 16);
		err = check(out[i], why);
	}
	return err;
}

const struct values_row values_float_32 = {
	.name = "f32", .bits = 32, .lossless = true, .encode = encode_32, .decode = decode_32};
const struct values_row values_float_16 = {
	.name = "bf16", .bits = 16, .encode = encode_16, .decode = decode_16};
