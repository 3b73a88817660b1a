/* Base64 with the URL alphabet and without padding (RFC 4648, 5), strict: one text per value. */
#ifndef NET_BASE64_H
#define NET_BASE64_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define BASE64_TEXT(n) (((n)*8 + 5) / 6 + 1) /* of n bytes, with the NUL */

void base64_encode(const void *bytes, size_t n, char *out); /* BASE64_TEXT(n) */
/* Exactly n bytes from exactly len characters, else ERR_syntax. */
enum err base64_decode(const char *text, size_t len, void *out, size_t n) MUST_CHECK;
/* How many of the first characters belong to the alphabet. */
size_t base64_span(const char *text);

#endif
