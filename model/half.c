#include "model/half.h"
#include <string.h>

#define INFINITE 0x7f800000u /* float32 */

static float float_of(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static uint32_t bits_of(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

float half_from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
	if (exponent == 31)
		return float_of(sign | INFINITE | fraction << 13);
	if (exponent)
		return float_of(sign | (exponent + 112) << 23 | fraction << 13);
	float tiny = (float)fraction * 0x1p-24f; /* subnormal or zero */
	return sign ? -tiny : tiny;
}

/* v / 2^shift, to nearest, ties to even; shift from 1 to 31. */
static uint32_t shift_even(uint32_t v, uint32_t shift)
{
	return (v + ((1u << (shift - 1)) - 1) + (v >> shift & 1)) >> shift;
}

/* The upper bits of a NaN; one whose fraction would vanish stays a NaN. */
static uint16_t nan_bits(uint32_t upper, uint32_t fraction_mask)
{
	return (uint16_t)(upper & fraction_mask ? upper : upper | 1);
}

uint16_t half_to_f16(float f)
{
	uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
	uint32_t exponent = size >> 23;
	if (size > INFINITE)
		return nan_bits(sign | 0x7c00 | (size >> 13 & 1023), 1023);
	if (exponent >= 143) /* from 65536 on */
		return (uint16_t)(sign | 0x7c00);
	if (exponent >= 113) /* normal; a carry out of the largest gives infinity */
		return (uint16_t)(sign | shift_even(size - (112u << 23), 13));
	uint32_t shift = 126 - exponent; /* of the fraction, to units of 2^-24 */
	if (shift > 24)
		return (uint16_t)sign; /* less than half a unit */
	return (uint16_t)(sign | shift_even((size & 0x7fffff) | 0x800000, shift));
}

float half_from_bf16(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

uint16_t half_to_bf16(float f)
{
	uint32_t bits = bits_of(f);
	if ((bits & 0x7fffffff) > INFINITE)
		return nan_bits(bits >> 16, 0x7f);
	/* sign included: it cannot take part in a carry, since infinity is never exceeded */
	return (uint16_t)shift_even(bits, 16);
}
