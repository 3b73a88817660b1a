#include "compress/codes.h"
#include <string.h>

static unsigned in_a_byte(unsigned bits)
{
	return bits <= 2 ? 4 : bits == 4 ? 2 : 1;
}

size_t codes_bytes(unsigned bits, size_t m)
{
	if (bits == 0)
		return 0;
	return bits < 8 ? (m + in_a_byte(bits) - 1) / in_a_byte(bits) : m * (bits / 8);
}

size_t codes_sign_bytes(size_t m)
{
	return (m + 7) / 8;
}

/* The last byte of n codes of which each byte has so many. */
static uint8_t rest_of(const uint8_t *codes, unsigned bits, size_t n)
{
	unsigned byte = 0;
	for (size_t i = 0; i < n; i++)
		byte |= (codes[i] & ((1u << bits) - 1)) << (bits * i);
	return (uint8_t)byte;
}

void codes_pack(const uint8_t *codes, unsigned bits, size_t m, uint8_t *to)
{
	if (bits == 8)
		memcpy(to, codes, m);
	if (bits == 0 || bits == 8)
		return;
	if (bits > 8) {
		size_t width = bits / 8;
		for (size_t b = 0; b < width; b++)
			for (size_t i = 0; i < m; i++)
				to[b * m + i] = codes[i * width + b];
		return;
	}
	size_t per = in_a_byte(bits), whole = m / per;
	uint8_t mask = (uint8_t)((1u << bits) - 1);
	if (per == 2)
		for (size_t i = 0; i < whole; i++)
			to[i] = (uint8_t)((codes[2 * i] & mask) | (codes[2 * i + 1] & mask) << 4);
	else
		for (size_t i = 0; i < whole; i++)
			to[i] = (uint8_t)((codes[4 * i] & mask) |
					  (codes[4 * i + 1] & mask) << bits |
					  (codes[4 * i + 2] & mask) << 2 * bits |
					  (codes[4 * i + 3] & mask) << 3 * bits);
	if (m % per)
		to[whole] = rest_of(codes + whole * per, bits, m % per);
}

void codes_pack_signs(const uint8_t *codes, size_t m, uint8_t *to)
{
	memset(to, 0, codes_sign_bytes(m));
	for (size_t i = 0; i < m; i++)
		to[i / 8] |= (uint8_t)(codes[i] >> 7 << i % 8);
}

static void unpack_one(const uint8_t *from, unsigned bits, size_t at, uint8_t *code)
{
	size_t per = in_a_byte(bits);
	*code = (uint8_t)(from[at / per] >> (bits * (at % per)) & ((1u << bits) - 1));
}

/* Whole bytes: loops that compilers do sixteen bytes at a time. */
static void unpack_whole(const uint8_t *from, unsigned bits, size_t bytes, uint8_t *codes)
{
	uint8_t mask = (uint8_t)((1u << bits) - 1);
	if (bits == 4)
		for (size_t i = 0; i < bytes; i++) {
			codes[2 * i] = from[i] & mask;
			codes[2 * i + 1] = from[i] >> 4;
		}
	else
		for (size_t i = 0; i < bytes; i++)
			for (unsigned j = 0; j < 4; j++)
				codes[4 * i + j] = (uint8_t)(from[i] >> bits * j & mask);
}

static void unpack_part(const uint8_t *from, unsigned bits, size_t first, size_t m, uint8_t *codes)
{
	size_t per = in_a_byte(bits), i = 0;
	for (; i < m && (first + i) % per != 0; i++)
		unpack_one(from, bits, first + i, codes + i);
	size_t bytes = (m - i) / per;
	unpack_whole(from + (first + i) / per, bits, bytes, codes + i);
	for (i += bytes * per; i < m; i++)
		unpack_one(from, bits, first + i, codes + i);
}

void codes_unpack(
	const uint8_t *from, unsigned bits, size_t first, size_t m, size_t total, uint8_t *codes)
{
	if (bits == 0)
		memset(codes, 0, m);
	else if (bits == 8)
		memcpy(codes, from + first, m);
	else if (bits > 8) {
		size_t width = bits / 8;
		for (size_t b = 0; b < width; b++)
			for (size_t i = 0; i < m; i++)
				codes[i * width + b] = from[b * total + first + i];
	} else {
		unpack_part(from, bits, first, m, codes);
	}
}

void codes_unpack_signs(const uint8_t *from, size_t first, size_t m, uint8_t *codes)
{
	for (size_t i = 0; i < m; i++)
		codes[i] |= (uint8_t)((from[(first + i) / 8] >> (first + i) % 8 & 1u) << 7);
}

bool codes_clean(const uint8_t *from, unsigned bits, size_t m)
{
	if (bits == 0 || bits >= 8 || m == 0)
		return true;
	size_t per = in_a_byte(bits), rest = m % per;
	if (rest && from[m / per] >> (bits * rest))
		return false;
	for (size_t i = 0; bits == 1 && i < m / per; i++)
		if (from[i] > 15)
			return false;
	return true;
}

bool codes_signs_clean(const uint8_t *from, size_t m)
{
	return m % 8 == 0 || from[m / 8] >> m % 8 == 0;
}
