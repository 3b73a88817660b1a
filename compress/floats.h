/* Floats by their bits: order of magnitude is order of the 31 low bits. */
#ifndef COMPRESS_FLOATS_H
#define COMPRESS_FLOATS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FLOATS_INFINITE 0x7f800000u /* magnitudes from here on are infinite or NaN */
#define FLOATS_NORMAL 0x00800000u   /* the smallest magnitude that is not subnormal */

static inline uint32_t floats_bits(float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	return bits;
}

static inline float floats_from(uint32_t bits)
{
	float v;
	memcpy(&v, &bits, sizeof v);
	return v;
}

/* Four bytes, the lowest first. */
static inline void floats_put(uint8_t *to, float v)
{
	uint32_t bits = floats_bits(v);
	for (unsigned b = 0; b < 4; b++)
		to[b] = (uint8_t)(bits >> 8 * b);
}

static inline float floats_get(const uint8_t *from)
{
	uint32_t bits = 0;
	for (unsigned b = 0; b < 4; b++)
		bits |= (uint32_t)from[b] << 8 * b;
	return floats_from(bits);
}

static inline uint32_t floats_magnitude(float v)
{
	return floats_bits(v) & 0x7fffffffu;
}

static inline bool floats_finite(float v)
{
	return floats_magnitude(v) < FLOATS_INFINITE;
}

/* Whether all n values are finite. */
bool floats_all_finite(const float *v, size_t n);

#endif
