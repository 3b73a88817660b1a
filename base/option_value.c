#include "base/option_value.h"
#include "base/clock.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct suffix {
	const char *text;
	uint64_t factor;
};

static const struct suffix sizes[] = {{"", 1}, {"K", 1ull << 10}, {"M", 1ull << 20},
	{"G", 1ull << 30}, {"T", 1ull << 40}, {NULL, 0}};
static const struct suffix times[] = {{"", CLOCK_SECOND}, {"ns", 1}, {"ms", CLOCK_MS},
	{"s", CLOCK_SECOND}, {"m", 60 * CLOCK_SECOND}, {"h", 3600 * CLOCK_SECOND},
	{"d", 86400 * CLOCK_SECOND}, {NULL, 0}};
static const struct suffix rates[] = {
	{"", 1}, {"k", 1000}, {"M", 1000000}, {"G", 1000000000}, {NULL, 0}};

static const struct {
	const char *word, *must;
} kinds[] = {
	[OPTION_flag] = {"", "yes or no"},
	[OPTION_int] = {"N", "a whole number"},
	[OPTION_real] = {"X", "a number"},
	[OPTION_text] = {"TEXT", "a text"},
	[OPTION_bytes] = {"SIZE", "a size such as 512M or 2G"},
	[OPTION_seconds] = {"TIME", "a time such as 90, 500ms, 5m or 2h"},
	[OPTION_rate] = {"RATE", "a number of bits per second such as 800k or 20M"},
	[OPTION_url] = {"URL", "an address"},
};

const char *option_value_word(enum option_kind kind)
{
	return kinds[kind].word;
}

static enum err bad_syntax(
	const struct option_row *row, const char *text, const char *where, struct why *why)
{
	return err_why(
		why, ERR_syntax, "%s: \"%.80s\" is not %s", where, text, kinds[row->kind].must);
}

/* v is the value in the unit of the bounds. */
static enum err check_range(const struct option_row *row, double v, const char *text,
	const char *where, struct why *why)
{
	bool bounded = row->least != 0 || row->most != 0;
	if (!bounded || (v >= row->least && v <= row->most))
		return ERR_OK;
	return err_why(why, ERR_range, "%s: %.80s is out of range; give %s from %.15g to %.15g",
		where, text, kinds[row->kind].must, row->least, row->most);
}

static bool parse_flag(const char *text, bool *out)
{
	static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*out = i % 2;
			return true;
		}
	}
	return false;
}

static bool parse_int(const char *text, int64_t *out)
{
	char *end;
	if (!*text || strspn(text, "+-0123456789") != strlen(text))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && end != text;
}

/* Decimal only: strtod alone would also take hexadecimal, "nan", "inf" and leading blanks. */
static bool parse_real(const char *text, size_t n, double *out)
{
	char copy[64], *end;
	if (n == 0 || n >= sizeof copy || strspn(text, "+-.eE0123456789") < n)
		return false;
	memcpy(copy, text, n);
	copy[n] = '\0';
	*out = strtod(copy, &end);
	return *end == '\0' && isfinite(*out);
}

/* A number of at least 0 with a suffix of the table.  Whole numbers stay exact beyond 2^53. */
static bool parse_scaled(const char *text, const struct suffix *table, uint64_t *out)
{
	size_t n = strspn(text, "+.0123456789");
	while (table->text && strcasecmp(table->text, text + n) != 0)
		table++;
	if (!table->text || n == 0)
		return false;
	if (strspn(text, "0123456789") == n) {
		errno = 0;
		uint64_t v = strtoull(text, NULL, 10);
		return errno == 0 && !__builtin_mul_overflow(v, table->factor, out);
	}
	double v;
	if (!parse_real(text, n, &v) || v < 0)
		return false;
	v = v * (double)table->factor + 0.5;
	if (v >= 0x1p63)
		return false;
	*out = (uint64_t)v;
	return true;
}

enum err option_value_set(
	const struct option_row *row, const char *text, const char *where, struct why *why)
{
	bool flag = false, ok = false;
	int64_t whole = 0;
	double real = 0, measure = 0;
	uint64_t scaled = 0;
	switch (row->kind) {
	case OPTION_flag: ok = parse_flag(text, &flag); break;
	case OPTION_text:
	case OPTION_url: ok = true; break;
	case OPTION_int:
		ok = parse_int(text, &whole);
		measure = (double)whole;
		break;
	case OPTION_real:
		ok = parse_real(text, strlen(text), &real);
		measure = real;
		break;
	case OPTION_bytes:
		ok = parse_scaled(text, sizes, &scaled);
		measure = (double)scaled;
		break;
	case OPTION_seconds:
		ok = parse_scaled(text, times, &scaled);
		measure = clock_seconds(scaled);
		break;
	case OPTION_rate:
		ok = parse_scaled(text, rates, &scaled);
		measure = (double)scaled;
		break;
	}
	if (!ok)
		return bad_syntax(row, text, where, why);
	bool number =
		row->kind != OPTION_flag && row->kind != OPTION_text && row->kind != OPTION_url;
	enum err err = number ? check_range(row, measure, text, where, why) : ERR_OK;
	if (err)
		return err;
	switch (row->kind) {
	case OPTION_flag: *(bool *)row->into = flag; break;
	case OPTION_text:
	case OPTION_url: *(const char **)row->into = text; break;
	case OPTION_int: *(int64_t *)row->into = whole; break;
	case OPTION_real: *(double *)row->into = real; break;
	case OPTION_bytes:
	case OPTION_seconds:
	case OPTION_rate: *(uint64_t *)row->into = scaled; break;
	}
	return ERR_OK;
}

/* The shortest decimal that reads back to v. */
static void real_text(double v, char *out, size_t room)
{
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(out, room, "%.*g", digits, v);
		if (strtod(out, NULL) == v)
			return;
	}
}

static void scaled_text(uint64_t v, const struct suffix *table, char *out, size_t room)
{
	const struct suffix *best = NULL;
	for (; table->text; table++)
		if (v % table->factor == 0 && (!best || (v > 0 && table->factor > best->factor)))
			best = table;
	snprintf(out, room, "%llu%s", (unsigned long long)(v / best->factor), best->text);
}

void option_value_text(const struct option_row *row, char *out, size_t room)
{
	switch (row->kind) {
	case OPTION_flag: snprintf(out, room, "%s", *(bool *)row->into ? "yes" : "no"); break;
	case OPTION_int: snprintf(out, room, "%lld", (long long)*(int64_t *)row->into); break;
	case OPTION_real: real_text(*(double *)row->into, out, room); break;
	case OPTION_url:
	case OPTION_text: {
		const char *text = *(const char **)row->into;
		snprintf(out, room, "%s", text ? text : "");
		break;
	}
	case OPTION_bytes: scaled_text(*(uint64_t *)row->into, sizes, out, room); break;
	case OPTION_seconds: scaled_text(*(uint64_t *)row->into, times, out, room); break;
	case OPTION_rate: scaled_text(*(uint64_t *)row->into, rates, out, room); break;
	}
}
