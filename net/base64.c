#include "net/base64.h"
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64_encode(const void *bytes, size_t n, char *out)
{
	const uint8_t *b = bytes;
	uint32_t bits = 0;
	unsigned held = 0;
	for (size_t i = 0; i < n; i++) {
		bits = (bits & 0xff) << 8 | b[i];
		for (held += 8; held >= 6;) {
			held -= 6;
			*out++ = alphabet[bits >> held & 63];
		}
	}
	if (held > 0)
		*out++ = alphabet[bits << (6 - held) & 63];
	*out = 0;
}

enum err base64_decode(const char *text, size_t len, void *out, size_t n)
{
	uint8_t *b = out;
	uint32_t bits = 0;
	unsigned held = 0;
	if (len != BASE64_TEXT(n) - 1)
		return ERR_syntax;
	for (size_t i = 0; i < len; i++) {
		const char *at = text[i] ? strchr(alphabet, text[i]) : NULL;
		if (!at)
			return ERR_syntax;
		bits = (bits & 0xff) << 6 | (uint32_t)(at - alphabet);
		held += 6;
		if (held >= 8) {
			held -= 8;
			*b++ = (uint8_t)(bits >> held);
		}
	}
	// What is left over must be zero, else several texts would mean one value.
	return bits & ((1u << held) - 1) ? ERR_syntax : ERR_OK;
}

size_t base64_span(const char *text)
{
	return strspn(text, alphabet);
}
