/*
 * How values are quantised: each becomes a code of a few bits, and a group of values needs some
 * bytes beside its codes to be read again (a scale, the means of the bins).  A group is what is
 * kept of one chunk, or (whole) of the vector.  Wire numbers: append only.  One row each; kinds
 * that differ in their bits alone share a file, values_FAMILY.c.
 *
 *   f32 bf16   the float itself; its upper half, rounded to even
 *   int8 int4  scale times a whole number of +-127, +-7; scale: largest magnitude / that
 *   int2       scale times -3, -1, 1, 3; scale: largest magnitude / 3
 *   mean8 mean4 mean2   2^bits bins of equal width over 6 standard deviations round the mean of
 *              all, each read as the mean of what fell into it (SparseLoCo's Q2, hivemind's int8)
 *   sign       the sign, times the mean magnitude
 *   two        the sign and one of two magnitudes, cut where the squared error is least
 *   e3m0       the sign and one of 0, 2^-6 … 2^0 times the largest (Streaming DiLoCo's 4-bit float)
 *   log8 log4  the sign and one of 0, e^-(rho j) times the largest; rho 1/8 (127 steps), 1/2 (7)
 *   ternary    -1, 0 or 1 times the root mean square
 *
 * Scales are halves: bits 15 to 30 of a float (8 of exponent, 8 of mantissa), so that they take two
 * bytes.  Pure, any thread, the same bits on every machine: single and double precision, no libm
 * but sqrt (exact by IEEE 754), sums in order of place.
 */
#ifndef COMPRESS_VALUES_H
#define COMPRESS_VALUES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Number, name, and the row in values_FAMILY.c. */
#define VALUES_LIST(X) \
	X(1, f32, values_float_32) \
	X(2, bf16, values_float_16) \
	X(3, int8, values_int_8) \
	X(4, int4, values_int_4) \
	X(5, int2, values_int_2) \
	X(6, mean8, values_mean_8) \
	X(7, mean4, values_mean_4) \
	X(8, mean2, values_mean_2) \
	X(9, sign, values_sign) \
	X(10, two, values_two) \
	X(11, e3m0, values_e3m0) \
	X(12, log8, values_log_8) \
	X(13, log4, values_log_4) \
	X(14, ternary, values_ternary)

enum values {
#define X(number, name, row) VALUES_##name = number,
	VALUES_LIST(X)
#undef X
};

#define VALUES_SIDE_MAX 1028u /* bytes beside the codes of a group: mean8's 257 floats */

struct values_row {
	const char *name;
	unsigned bits; /* of a code: 0, 1, 2, 4, 8, 16 or 32; without a sign that is apart */
	bool sign;     /* bit 7 of a code (of 0 to 2 bits) is its sign, which is packed apart */
	bool whole;    /* one group for the vector */
	bool lossless; /* what is decoded is what was given, bit for bit */
	unsigned side; /* bytes beside the codes of a group, at most VALUES_SIDE_MAX */
	/*
	 * m > 0 finite values v.  codes: m of 1 byte, or of 2 or 4 (little-endian) where bits is 16
	 * or 32.  side: row->side bytes.
	 */
	void (*encode)(const float *v, size_t m, uint8_t *codes, uint8_t *side);
	/* Back; out gets m finite values; m is the whole group, or where row->whole any codes of
	 * it. Refuses what encode does not write: ERR_not_finite (a scale or value that is none),
	 * ERR_syntax with a sentence.  Codes are below 2^bits. */
	enum err (*decode)(
		const uint8_t *codes, size_t m, const uint8_t *side, float *out, struct why *why);
	/* Where row->whole: whether side is 0 for the codes that no value has; used: 2^bits. */
	bool (*is_least)(const uint8_t *side, const bool *used);
};

#define X(number, name, row) extern const struct values_row row;
VALUES_LIST(X)
#undef X

/* The row of a number; NULL when there is none. */
const struct values_row *values_row(uint32_t number);
/* The bytes of one code in memory. */
static inline size_t values_width(const struct values_row *row)
{
	return row->bits > 8 ? row->bits / 8 : 1;
}

/* ---- for the rows: the largest magnitude, and scales of two bytes */
uint32_t values_largest(const float *v, size_t m); /* its bits */
#define VALUES_SCALE_MOST 0xfeffu                  /* the largest that is finite */
/* The nearest scale to a magnitude that is not negative, ties to even, at most most; 0 where the
 * result would be subnormal.  Into side, and returned as what it stands for. */
float values_set_scale(double magnitude, uint16_t most, uint8_t *side);
/* What a scale stands for.  ERR_not_finite, ERR_syntax: subnormal or above most (0 is allowed). */
enum err values_get_scale(
	const uint8_t *side, uint16_t most, float *scale, struct why *why) MUST_CHECK;
void values_put_u16(uint8_t *side, uint16_t v); /* low byte first */

#endif
