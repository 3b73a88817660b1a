#include "net/https_range.h"
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Digits at *at; what is too large for 64 bits is as good as the largest.  false: no digit. */
static bool number(const char **at, uint64_t *v)
{
	if (!isdigit((unsigned char)**at))
		return false;
	*v = 0;
	for (; isdigit((unsigned char)**at); ++*at) {
		uint64_t d = (uint64_t)(**at - '0');
		*v = *v > (UINT64_MAX - d) / 10 ? UINT64_MAX : *v * 10 + d;
	}
	return true;
}

static enum https_range whole(uint64_t size, uint64_t *first, uint64_t *end)
{
	*first = 0;
	*end = size;
	return HTTPS_RANGE_whole;
}

enum https_range https_range_parse(const char *text, uint64_t size, uint64_t *first, uint64_t *end)
{
	uint64_t a, b;
	if (!text || strncasecmp(text, "bytes=", 6) != 0)
		return whole(size, first, end);
	text += 6;
	bool has_a = number(&text, &a);
	if (*text++ != '-')
		return whole(size, first, end);
	bool has_b = number(&text, &b);
	if (*text || (!has_a && !has_b) || (has_a && has_b && a > b))
		return whole(size, first, end);
	if (has_a ? a >= size : b == 0 || size == 0)
		return HTTPS_RANGE_outside;
	*first = has_a ? a : b < size ? size - b : 0;
	*end = has_a && has_b && b < size ? b + 1 : size;
	return HTTPS_RANGE_part;
}
