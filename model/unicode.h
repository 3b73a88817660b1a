/*
 * Characters of a text as the split rules of a tokenizer see them: UTF-8 to code points, and the
 * classes letter (category L), number (category N) and white space (White_Space) of Unicode 16.0.
 * Everything else, code points without a meaning included, is UNICODE_other.
 */
#ifndef MODEL_UNICODE_H
#define MODEL_UNICODE_H
#include <stddef.h>
#include <stdint.h>

enum unicode_class { UNICODE_other, UNICODE_letter, UNICODE_number, UNICODE_space };

struct unicode_range {
	uint32_t first, last;
	enum unicode_class class;
};

extern const struct unicode_range unicode_table[]; /* in order, from U+0080 up */
extern const unsigned unicode_table_rows;

/* The classes of ASCII. */
extern const uint8_t unicode_ascii[128];

#define UNICODE_INVALID UINT32_MAX       /* the first byte begins no character */
#define UNICODE_PARTIAL (UINT32_MAX - 1) /* more bytes could make it one */

/* The code point that the n > 0 bytes begin with, and its length.  Overlong forms, surrogates and
 * what lies above U+10FFFF are UNICODE_INVALID, as in RFC 3629; both special values have length 1.
 */
uint32_t unicode_decode(const uint8_t *bytes, size_t n, size_t *len);
enum unicode_class unicode_class(uint32_t code);

#endif
