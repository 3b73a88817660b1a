#include "compress/values.h"
#include "compress/floats.h"

#define SCALE_SHIFT 15

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

void values_put_u16(uint8_t *side, uint16_t v)
{
	side[0] = (uint8_t)v;
	side[1] = (uint8_t)(v >> 8);
}

static float float_of(uint16_t scale)
{
	return floats_from((uint32_t)scale << SCALE_SHIFT);
}

float values_set_scale(double magnitude, uint16_t most, uint8_t *side)
{
	double limit = (double)float_of(most);
	uint32_t bits = floats_bits((float)(magnitude < limit ? magnitude : limit));
	uint32_t half = ((uint32_t)1 << (SCALE_SHIFT - 1)) - 1 + (bits >> SCALE_SHIFT & 1);
	uint32_t scale = (bits + half) >> SCALE_SHIFT;
	if (scale < FLOATS_NORMAL >> SCALE_SHIFT)
		scale = 0;
	if (scale > most)
		scale = most;
	values_put_u16(side, (uint16_t)scale);
	return float_of((uint16_t)scale);
}

enum err values_get_scale(const uint8_t *side, uint16_t most, float *scale, struct why *why)
{
	uint16_t code = (uint16_t)(side[0] | side[1] << 8);
	if (code >= FLOATS_INFINITE >> SCALE_SHIFT)
		return err_why(why, ERR_not_finite, "a scale is not finite");
	if (code > most || (code > 0 && code < FLOATS_NORMAL >> SCALE_SHIFT))
		return err_why(why, ERR_syntax, "a scale of 0x%x is out of its range", code);
	*scale = float_of(code);
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
