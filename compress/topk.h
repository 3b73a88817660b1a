/* The largest values of a chunk, found without a sort, and the two magnitudes that stand best for
 * them. */
#ifndef COMPRESS_TOPK_H
#define COMPRESS_TOPK_H
#include <stddef.h>
#include <stdint.h>

/*
 * The places of the (at most) k largest magnitudes among v's n values, ascending, into place (room
 * for k); returns how many.  Among equal magnitudes the lower place wins.  Zeros and subnormal
 * values never count, so there may be fewer than k.  0 < n <= 65536, v finite.
 */
uint32_t topk_select(const float *v, uint32_t n, uint32_t k, uint16_t *place);

struct topk_levels {
	double lower, upper; /* means of the smaller and the larger ones */
	uint32_t upper_from; /* the larger ones have magnitudes (as bits) from here on */
};
/*
 * Cuts m magnitudes (bits of positive normal floats, sorted here in place) in two so that the sum
 * of squared distances to the two means is least; among equal cuts the one with fewest smaller
 * values.  Without two different magnitudes lower equals upper.
 */
struct topk_levels topk_levels(uint32_t *magnitudes, uint32_t m);

#endif
