#include "base/err.h"
#include "base/text.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *err_name(enum err code)
{
	switch (code) {
	case ERR_OK: return "ok";
#define X(number, name, text) \
	case ERR_##name: return #name;
		ERR_LIST(X)
#undef X
	}
	return "unknown";
}

const char *err_text(enum err code)
{
	switch (code) {
	case ERR_OK: return "ok";
#define X(number, name, text) \
	case ERR_##name: return text;
		ERR_LIST(X)
#undef X
	}
	return "unknown";
}

enum err err_from_errno(int errno_value)
{
	switch (errno_value) {
	case 0: return ERR_OK;
	case ENOSPC:
	case EDQUOT: return ERR_full;
	case ENOENT:
	case ENOTDIR: return ERR_missing;
	case EACCES:
	case EPERM:
	case EROFS: return ERR_permission;
	case EEXIST: return ERR_exists;
	case ENOMEM: return ERR_nomem;
	default: return ERR_io;
	}
}

/* Lists of mistakes have a line each, a sentence has one: "a;b" without an end of line. */
static void join_lines(char *text)
{
	size_t n = strlen(text);
	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	for (char *at = text; (at = strchr(at, '\n'));)
		*at = ';';
}

enum err err_why(struct why *why, enum err code, const char *fmt, ...)
{
	if (!why)
		return code;
	// The arguments may point into the old sentence, so the new one is made beside it.
	char text[sizeof why->text];
	va_list args;
	va_start(args, fmt);
	if (vsnprintf(text, sizeof text, fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	join_lines(text);
	text_clean(text);
	why->code = code;
	memcpy(why->text, text, sizeof text);
	return code;
}
