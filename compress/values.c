#include "compress/values.h"
#include "compress/floats.h"

static const struct values_row *const rows[] = {
#define X(number, name, row) [number] = &row,
	VALUES_LIST(X)
#undef X
};
#define N_ROWS (sizeof rows / sizeof rows[0])

const struct values_row *values_row(uint32_t number)
{
	return number < N_ROWS ? rows[number] : NULL;
}

uint16_t values_scale(double magnitude, uint16_t most)
{
	float single = magnitude < (double)values_scale_float(most) ? (float)magnitude
								    : values_scale_float(most);
	uint32_t bits = floats_bits(single);
	uint32_t half =
		((uint32_t)1 << (VALUES_SCALE_SHIFT - 1)) - 1 + (bits >> VALUES_SCALE_SHIFT & 1);
	uint32_t scale = (bits + half) >> VALUES_SCALE_SHIFT;
	if (scale < FLOATS_NORMAL >> VALUES_SCALE_SHIFT)
		return 0;
	return (uint16_t)(scale < most ? scale : most);
}

float values_scale_float(uint16_t scale)
{
	return floats_from((uint32_t)scale << VALUES_SCALE_SHIFT);
}

void values_put_scale(uint8_t *side, uint16_t scale)
{
	side[0] = (uint8_t)scale;
	side[1] = (uint8_t)(scale >> 8);
}

enum err values_get_scale(const uint8_t *side, uint16_t most, uint16_t *scale, struct why *why)
{
	*scale = (uint16_t)(side[0] | side[1] << 8);
	if (*scale >= FLOATS_INFINITE >> VALUES_SCALE_SHIFT)
		return err_why(why, ERR_not_finite, "a scale is not finite");
	if (*scale > most || (*scale > 0 && *scale < FLOATS_NORMAL >> VALUES_SCALE_SHIFT))
		return err_why(why, ERR_syntax, "a scale of 0x%x is out of its range", *scale);
	return ERR_OK;
}

uint32_t values_largest(const float *v, size_t m)
{
	uint32_t largest = 0;
	for (size_t i = 0; i < m; i++) {
		uint32_t key = floats_magnitude(v[i]);
		largest = key > largest ? key : largest;
	}
	return largest;
}
