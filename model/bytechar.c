#include "model/bytechar.h"

#define MOVED 0x100u /* the first of those that do not stand for themselves */

static bool is_moved(unsigned b)
{
	return b < 33 || (b > 126 && b < 161) || b == 173;
}

/* The moved bytes in order: 0-32, 127-160, 173. */
static unsigned char_of(uint8_t b)
{
	if (!is_moved(b))
		return b;
	return MOVED + (b < 33 ? b : b < 161 ? b - 127u + 33 : 67);
}

static bool byte_of(unsigned c, uint8_t *out)
{
	if (c < MOVED) {
		*out = (uint8_t)c;
		return !is_moved(c);
	}
	c -= MOVED;
	*out = (uint8_t)(c < 33 ? c : c < 67 ? c - 33 + 127 : 173);
	return c <= 67;
}

void bytechar_put(struct buf *out, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned c = char_of(bytes[i]);
		if (c >= 0x80)
			buf_put_u8(out, (uint8_t)(0xc0 | c >> 6));
		buf_put_u8(out, (uint8_t)(c < 0x80 ? c : 0x80 | (c & 0x3f)));
	}
}

bool bytechar_get(const char **at, const char *end, uint8_t *out)
{
	const uint8_t *s = (const uint8_t *)*at;
	size_t n = (size_t)(end - *at);
	bool two = n > 1 && (s[0] & 0xe0) == 0xc0 && (s[1] & 0xc0) == 0x80;
	if (n == 0 || (s[0] >= 0x80 && !two))
		return false;
	*at += two ? 2 : 1;
	return byte_of(two ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu) : s[0], out);
}
