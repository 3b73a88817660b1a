/*
 * Places in a chunk as gaps in Golomb's code (truncated binary remainders): for m places spread
 * evenly over a chunk it is within a third of a per cent of the entropy of the gaps, needs no
 * tables, and both sides know its parameter from m and the length of the chunk.
 */
#ifndef COMPRESS_GOLOMB_H
#define COMPRESS_GOLOMB_H
#include <stddef.h>
#include <stdint.h>
#include "compress/bits.h"

struct golomb {
	uint32_t divisor; /* of gaps; at least 1 */
	unsigned bits;    /* of the remainder, at most */
	uint32_t cutoff;  /* remainders below it take a bit less */
};

/* For m places in a chunk of len values, 0 < m <= len <= 65536. */
struct golomb golomb_for(uint32_t len, uint32_t m);
/* Bits that m places in a chunk of len can take at most; grows with m. */
size_t golomb_bound(uint32_t len, uint32_t m);
void golomb_put(const struct golomb *g, struct bits_out *to, uint32_t gap);
/* A gap of at most most; the reader is failed when it is larger. */
uint32_t golomb_get(const struct golomb *g, struct bits_in *from, uint32_t most);

#endif
