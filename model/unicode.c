#include "model/unicode.h"

#define S UNICODE_space
#define L UNICODE_letter
#define N UNICODE_number

/* clang-format off */
const uint8_t unicode_ascii[128] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, S, S, S, S, S, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	S, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	N, N, N, N, N, N, N, N, N, N, 0, 0, 0, 0, 0, 0,
	0, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
	L, L, L, L, L, L, L, L, L, L, L, 0, 0, 0, 0, 0,
	0, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
	L, L, L, L, L, L, L, L, L, L, L, 0, 0, 0, 0, 0,
};
/* clang-format on */

/* How many bytes a first byte promises, and the least code point that needs so many. */
static size_t promised(uint8_t first, uint32_t *least)
{
	*least = first < 0xe0 ? 0x80 : first < 0xf0 ? 0x800 : 0x10000;
	return first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

/* Whether code, of which `missing` times 6 bits are still to come, can become a code point. */
static int can_be(uint32_t code, uint32_t least, size_t missing)
{
	uint32_t low = code << 6 * missing, high = low | ((1u << 6 * missing) - 1);
	return high >= least && low <= 0x10ffff && !(low >= 0xd800 && high <= 0xdfff);
}

uint32_t unicode_decode(const uint8_t *bytes, size_t n, size_t *len)
{
	*len = 1;
	if (bytes[0] < 0x80)
		return bytes[0];
	uint32_t least;
	size_t want = promised(bytes[0], &least);
	if (!want)
		return UNICODE_INVALID;
	uint32_t code = bytes[0] & (0xffu >> (want + 1));
	for (size_t i = 1; i < want; i++) {
		if (i == n)
			return UNICODE_PARTIAL;
		if ((bytes[i] & 0xc0) != 0x80)
			return UNICODE_INVALID;
		code = code << 6 | (bytes[i] & 0x3fu);
		if (!can_be(code, least, want - 1 - i))
			return UNICODE_INVALID;
	}
	*len = want;
	return code;
}

static int is_space(uint32_t c)
{
	return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

enum unicode_class unicode_class(uint32_t code)
{
	if (code < 0x80)
		return (enum unicode_class)unicode_ascii[code];
	if (is_space(code))
		return UNICODE_space;
	unsigned low = 0, high = unicode_table_rows;
	while (low < high) {
		unsigned mid = (low + high) / 2;
		if (code > unicode_table[mid].last)
			low = mid + 1;
		else
			high = mid;
	}
	return low < unicode_table_rows && code >= unicode_table[low].first
		       ? unicode_table[low].class
		       : UNICODE_other;
}
