/*
 * Places in a chunk as gaps: the number of places skipped since the last one.  A gap is a symbol of
 * a byte, whose skewed distribution zstd's Huffman coder finds (within half a per cent of their
 * entropy, and below a fixed Golomb code as soon as places cluster), and some low bits as they are.
 * Gaps below 8 are their own symbol; above, each octave has four symbols.
 */
#ifndef COMPRESS_PLACES_H
#define COMPRESS_PLACES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "compress/bits.h"

#define PLACES_SYMBOLS 60u /* gaps up to 65535 */

/* Low bits that a gap in a chunk of len has at most. */
unsigned places_extra_most(uint32_t len);
/* m symbols, and the low bits of each. */
void places_put(const uint16_t *place, uint32_t m, uint8_t *symbol, struct bits_out *extra);
/* Back; false when there is no such symbol, a place leaves its chunk, or bits are missing. */
bool places_get(const uint8_t *symbol, uint32_t m, uint32_t len, struct bits_in *extra,
	uint16_t *place) MUST_CHECK;

#endif
