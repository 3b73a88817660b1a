/* The largest values of a chunk, found without a sort. */
#ifndef COMPRESS_TOPK_H
#define COMPRESS_TOPK_H
#include <stddef.h>
#include <stdint.h>

/*
 * The places of the (at most) k largest magnitudes among v's n values, ascending, into place (room
 * for k); returns how many.  Among equal magnitudes the lower place wins.  Those below least (the
 * bits of a positive float) never count, so that there may be fewer than k.  0 < k <= n <= 65536, v
 * finite.  Time is linear in n whatever the values are.
 */
uint32_t topk_select(const float *v, uint32_t n, uint32_t k, uint32_t least, uint16_t *place);

/* The same for one instruction set.  All of them choose the same places. */
struct topk {
	const char *isa;
	uint32_t (*select)(const float *v, uint32_t n, uint32_t k, uint32_t least, uint16_t *place);
};

extern const struct topk topk_plain;
#ifdef __x86_64__
extern const struct topk topk_avx2, topk_avx512;
#endif

/* What this machine can do, the fastest first; NULL after the last. */
const struct topk *topk_at(size_t i);

#endif
