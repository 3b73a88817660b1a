/* Text from outside: made safe to print, read as hex, and the name that somebody probably meant. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H
#include <stddef.h>
#include "base/err.h"

/* In place: control characters (C0, DEL, C1) and bytes that are not UTF-8 become '?', so that the
 * text can stand in one log line, on a terminal and in JSON. */
void text_clean(char *text);
/* Bytes as lower-case hex and back; ERR_syntax unless exactly 2 * n such digits. */
void text_hex(const void *bytes, size_t n, char *out); /* 2 * n + 1 */
enum err text_unhex(const char *hex, void *out, size_t n) MUST_CHECK;
/* The name closest to word by edits, or NULL when none is close enough to be what was meant. */
const char *text_nearest(const char *word, const char *const *names, size_t n);

#endif
