#include "compress/codes.h"
#include "compress/floats.h"
#include "compress/values.h"

static void encode(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	double sum = 0;
	for (size_t i = 0; i < m; i++)
		sum += (double)floats_from(floats_magnitude(v[i]));
	float scale = values_set_scale(sum / (double)m, VALUES_SCALE_MOST, side);
	for (size_t i = 0; i < m; i++)
		codes[i] = scale > 0 && floats_bits(v[i]) >> 31 ? CODES_SIGN : 0;
}

static enum err decode(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	float scale;
	enum err err = values_get_scale(side, VALUES_SCALE_MOST, &scale, why);
	if (err)
		return err;
	unsigned any = 0;
	for (size_t i = 0; i < m; i++) {
		any |= codes[i];
		out[i] = codes[i] ? -scale : scale;
	}
	if (!(scale > 0) && any)
		return err_why(why, ERR_syntax, "a group of zeros has signs");
	return ERR_OK;
}

const struct values_row values_sign = {
	.name = "sign", .bits = 0, .sign = true, .side = 2, .encode = encode, .decode = decode};
