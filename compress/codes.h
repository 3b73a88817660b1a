/*
 * Codes packed into bytes.  Codes of 1 and 2 bits stand four in a byte (1-bit codes leave its upper
 * half 0), of 4 bits two: so that zstd's Huffman coder sees their distribution, and that of
 * neighbours together; the first code is lowest.  Longer codes are split, their lowest bytes first.
 * Signs, which have nothing to gain, stand eight in a byte.
 */
#ifndef COMPRESS_CODES_H
#define COMPRESS_CODES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODES_SIGN 0x80u /* of a code whose sign is apart */

/* Bytes of m codes of so many bits: 0 (none), 1, 2, 4, 8, 16 or 32. */
size_t codes_bytes(unsigned bits, size_t m);
size_t codes_sign_bytes(size_t m);
/* codes: m of 1 byte, or 2, 4 (little-endian).  to: codes_bytes. */
void codes_pack(const uint8_t *codes, unsigned bits, size_t m, uint8_t *to);
void codes_pack_signs(const uint8_t *codes, size_t m, uint8_t *to);
/* m codes from number first on, of total; signs are added by the second. */
void codes_unpack(
	const uint8_t *from, unsigned bits, size_t first, size_t m, size_t total, uint8_t *codes);
void codes_unpack_signs(const uint8_t *from, size_t first, size_t m, uint8_t *codes);
/* What fills the last byte is 0, and (1 bit) the upper halves are. */
bool codes_clean(const uint8_t *from, unsigned bits, size_t m);
bool codes_signs_clean(const uint8_t *from, size_t m);

#endif
