/*
 * Bit strings, the lowest bit of a byte first.  A writer that runs out of room marks its buffer
 * failed; a reader never leaves its bytes, and is failed from the first bit that is missing.
 */
#ifndef COMPRESS_BITS_H
#define COMPRESS_BITS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

struct bits_out {
	struct buf *to;
	uint64_t hold; /* the low held bits wait */
	unsigned held;
};

void bits_out_init(struct bits_out *b, struct buf *to);
void bits_put(struct bits_out *b, uint32_t v, unsigned n); /* the low n bits of v, n <= 32 */
void bits_out_end(struct bits_out *b);                     /* zeros up to a whole byte */

struct bits_in {
	const uint8_t *at, *end;
	uint64_t hold;
	unsigned held;
	bool failed;
};

void bits_in_init(struct bits_in *b, const uint8_t *bytes, size_t n); /* borrows */
uint32_t bits_get(struct bits_in *b, unsigned n);                     /* n <= 32 */
/* Nothing failed, and what is left is less than a byte of zeros. */
bool bits_in_done(const struct bits_in *b);

#endif
