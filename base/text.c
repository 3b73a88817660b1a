#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WORD_MAX 40

/* The length of the UTF-8 sequence at s (shortest form, no surrogates, up to U+10FFFF), with its
 * code point; 0 when there is none.  A NUL ends the text, so it never counts as a continuation. */
static size_t decode(const uint8_t *s, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
	if (n == 0 || s[0] >= 0xf8)
		return 0;
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*code = c;
	return n;
}

void text_clean(char *text)
{
	uint8_t *s = (uint8_t *)text;
	while (*s) {
		uint32_t code = 0;
		size_t n = decode(s, &code);
		bool plain = n > 0 && code >= 0x20 && (code < 0x7f || code >= 0xa0);
		if (n == 0)
			n = 1;
		if (!plain)
			memset(s, '?', n);
		s += n;
	}
}

void text_hex(const void *bytes, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *b = bytes;
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[b[i] >> 4];
		out[2 * i + 1] = digits[b[i] & 15];
	}
	out[2 * n] = '\0';
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum err text_unhex(const char *hex, void *out, size_t n)
{
	uint8_t *b = out;
	if (strnlen(hex, 2 * n + 1) != 2 * n)
		return ERR_syntax;
	for (size_t i = 0; i < n; i++) {
		int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return ERR_syntax;
		b[i] = (uint8_t)(high << 4 | low);
	}
	return ERR_OK;
}

/* Edits between two words (insert, delete, replace), by the two-row form of the usual table. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t row[WORD_MAX + 1];
	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t replace = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			size_t shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
			row[j] = replace < shift ? replace : shift;
		}
	}
	return row[nb];
}

const char *text_nearest(const char *word, const char *const *names, size_t n)
{
	size_t len = strlen(word);
	if (len == 0 || len > WORD_MAX)
		return NULL;
	// More than a third of the word wrong is another word, not a slip.
	size_t best = len / 3 + 2;
	const char *found = NULL;
	for (size_t i = 0; i < n; i++) {
		size_t m = strlen(names[i]);
		size_t d = m > WORD_MAX ? best : distance(word, len, names[i], m);
		if (d < best) {
			best = d;
			found = names[i];
		}
	}
	return found;
}
