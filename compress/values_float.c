#include "compress/floats.h"
#include "compress/values.h"

static enum err check(float v, struct why *why)
{
	return floats_finite(v) ? ERR_OK
				: err_why(why, ERR_not_finite, "a value is infinite or NaN");
}

static void encode_32(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	(void)side;
	for (size_t i = 0; i < m; i++)
		floats_put(codes + 4 * i, v[i]);
}

static enum err decode_32(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	(void)side;
	enum err err = ERR_OK;
	for (size_t i = 0; i < m && !err; i++) {
		out[i] = floats_get(codes + 4 * i);
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
		key |= bits >> 31 << 15;
		codes[2 * i] = (uint8_t)key;
		codes[2 * i + 1] = (uint8_t)(key >> 8);
	}
}

static enum err decode_16(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	(void)side;
	enum err err = ERR_OK;
	for (size_t i = 0; i < m && !err; i++) {
		out[i] = floats_from(
			(uint32_t)codes[2 * i] << 16 | (uint32_t)codes[2 * i + 1] << 24);
		err = check(out[i], why);
	}
	return err;
}

const struct values_row values_float_32 = {
	.name = "f32", .bits = 32, .lossless = true, .encode = encode_32, .decode = decode_32};
const struct values_row values_float_16 = {
	.name = "bf16", .bits = 16, .encode = encode_16, .decode = decode_16};
