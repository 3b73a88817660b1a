#include "base/json_line.h"
#include <stdbool.h>
#include <string.h>

struct scan {
	const char *text;
	size_t at, end;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':';
}

/* The next character that is neither space nor a sign between values; 0 at the end. */
static char next(struct scan *s)
{
	while (s->at < s->end && is_space(s->text[s->at]))
		s->at++;
	return s->at < s->end ? s->text[s->at] : 0;
}

/* From a quote to behind its partner. */
static void skip_string(struct scan *s)
{
	for (s->at++; s->at < s->end && s->text[s->at] != '"'; s->at++)
		if (s->text[s->at] == '\\')
			s->at++;
	s->at = s->at < s->end ? s->at + 1 : s->end;
}

static void skip_value(struct scan *s)
{
	size_t depth = 0;
	do {
		char c = next(s);
		if (c == '"') {
			skip_string(s);
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && depth)
			depth--;
		else
			while (s->at + 1 < s->end && !is_space(s->text[s->at + 1]) &&
				!strchr("{}[]\"", s->text[s->at + 1]))
				s->at++;
		s->at = s->at < s->end ? s->at + 1 : s->end;
	} while (depth && s->at < s->end);
}

/* From an object to the value of its member; *line_at is where the member's name stands. */
static bool enter_member(struct scan *s, const char *name, size_t n, size_t *line_at)
{
	if (next(s) != '{')
		return false;
	s->at++;
	while (next(s) == '"') {
		size_t key = s->at;
		skip_string(s);
		bool is = s->at - key == n + 2 && !memcmp(s->text + key + 1, name, n);
		(void)next(s);
		if (is) {
			*line_at = key;
			return true;
		}
		skip_value(s);
	}
	return false;
}

static bool enter_item(struct scan *s, size_t index, size_t *line_at)
{
	if (next(s) != '[')
		return false;
	s->at++;
	for (; next(s) && next(s) != ']'; index--) {
		if (!index) {
			*line_at = s->at;
			return true;
		}
		skip_value(s);
	}
	return false;
}

/* One step of the path, which it shortens. */
static bool enter(struct scan *s, const char **path, const char *end, size_t *line_at)
{
	const char *at = *path;
	if (*at != '[') {
		at += *at == '.';
		size_t n = 0;
		while (at + n < end && !memchr(".[", at[n], 2))
			n++;
		*path = at + n;
		return enter_member(s, at, n, line_at);
	}
	size_t index = 0;
	for (at++; at < end && *at >= '0' && *at <= '9' && index < s->end; at++)
		index = 10 * index + (size_t)(*at - '0');
	if (at == end || *at++ != ']')
		return false;
	const char *remark = at < end && *at == '(' ? memchr(at, ')', (size_t)(end - at)) : NULL;
	*path = remark ? remark + 1 : at;
	return enter_item(s, index, line_at);
}

size_t json_line_of(const char *text, size_t n, const char *path, size_t n_path)
{
	struct scan s = {.text = text, .end = n};
	const char *end = path + n_path;
	size_t line_at = n, line = 1;
	while (path < end && enter(&s, &path, end, &line_at))
		;
	if (line_at == n)
		return 0;
	for (size_t i = 0; i < line_at; i++)
		line += text[i] == '\n';
	return line;
}
