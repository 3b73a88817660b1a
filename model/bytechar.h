/*
 * GPT-2's printable names for bytes, which vocabulary files use so that a token is always text:
 * printable Latin-1 bytes stand for themselves, the other 68 for U+0100 to U+0143 in their order.
 */
#ifndef MODEL_BYTECHAR_H
#define MODEL_BYTECHAR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

/* Appends the characters (UTF-8, two bytes at most each) of n bytes. */
void bytechar_put(struct buf *out, const uint8_t *bytes, size_t n);
/* The byte that the text at *at (which ends before end) begins with; *at goes behind it.  False
 * when it is none of the 256 characters. */
bool bytechar_get(const char **at, const char *end, uint8_t *out);

#endif
