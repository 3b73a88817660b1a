#include "coordinator/human.h"
#include <stdio.h>

const char *human_count(uint64_t n, char out[static HUMAN_TEXT])
{
	char digits[HUMAN_TEXT];
	int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = 0;
	return out;
}

const char *human_size(uint64_t n, const char *unit, char out[static HUMAN_TEXT])
{
	static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
	size_t i = 0;
	double v = (double)n;
	/* 999.5 would print as 1000 with the smaller prefix. */
	for (; v >= 999.5; i++)
		v /= 1000;
	int digits = i == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
	const char *space = i || *unit ? " " : "";
	snprintf(out, HUMAN_TEXT, "%.*f%s%s%.8s", digits, v, space, prefixes[i], unit);
	return out;
}
