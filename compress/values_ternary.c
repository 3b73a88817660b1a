#include <math.h>
#include "compress/floats.h"
#include "compress/values.h"

/* Codes: 0 zero, 1 the scale, 2 minus the scale.  Where all are near zero the root mean square is
 * too, so that at least one value is not 0 unless the scale is. */

static void encode(const float *v, size_t m, uint8_t *codes, uint8_t *side)
{
	double sum = 0;
	for (size_t i = 0; i < m; i++)
		sum += (double)v[i] * (double)v[i];
	float scale = values_set_scale(sqrt(sum / (double)m), VALUES_SCALE_MOST, side);
	float half = scale / 2;
	for (size_t i = 0; i < m; i++)
		codes[i] = scale > 0 ? (uint8_t)((v[i] >= half) + 2 * (v[i] <= -half)) : 0;
}

static enum err decode(
	const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why)
{
	float scale;
	enum err err = values_get_scale(side, VALUES_SCALE_MOST, &scale, why);
	if (err)
		return err;
	const float value[4] = {0, scale, -scale, 0};
	unsigned any = 0, beyond = 0;
	for (size_t i = 0; i < m; i++) {
		any |= codes[i];
		beyond |= codes[i] == 3;
		out[i] = value[codes[i]];
	}
	if (beyond || (any != 0) != (scale > 0))
		return err_why(why, ERR_syntax, "the codes of a group are not what its scale says");
	return ERR_OK;
}

const struct values_row values_ternary = {
	.name = "ternary", .bits = 2, .side = 2, .encode = encode, .decode = decode};
