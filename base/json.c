#include "base/json.h"
#include "base/text.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST 64
#define SHOWN_MOST 60
#define VERDICT_MOST 300 /* of a sentence, which has room for 400 */

/* Before jansson recurses: nesting outside of strings.  Also counts the lines for the sentence. */
static enum err check_depth(const char *text, size_t n, struct why *why)
{
	size_t depth = 0, line = 1, line_start = 0;
	bool in_string = false;
	for (size_t i = 0; i < n; i++) {
		char c = text[i];
		if (c == '\n') {
			line++;
			line_start = i + 1;
		}
		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && (c == '{' || c == '['))
			depth++;
		else if (!in_string && (c == '}' || c == ']') && depth > 0)
			depth--;
		if (depth > DEPTH_MOST)
			return err_why(why, ERR_toobig,
				"line %zu, column %zu: JSON nested deeper than %d levels", line,
				i - line_start + 1, DEPTH_MOST);
	}
	return ERR_OK;
}

enum err json_parse(const void *bytes, size_t n, size_t max, json_t **out, struct why *why)
{
	*out = NULL;
	if (n > max)
		return err_why(
			why, ERR_toobig, "JSON of %zu bytes, at most %zu are allowed", n, max);
	if (n == 0)
		return err_why(why, ERR_truncated, "JSON text is empty");
	enum err err = check_depth(bytes, n, why);
	if (err)
		return err;
	json_error_t e;
	*out = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &e);
	if (*out)
		return ERR_OK;
	switch (json_error_code(&e)) {
	case json_error_out_of_memory: err = ERR_nomem; break;
	case json_error_premature_end_of_input: err = ERR_truncated; break;
	default: err = ERR_syntax; break;
	}
	return err_why(why, err, "not JSON at line %d, column %d: %s", e.line, e.column, e.text);
}

char *json_canonical(const json_t *doc)
{
	return json_dumps(doc, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
}

void json_mistake(struct json_in *in, const char *name, const char *fmt, ...)
{
	char text[300], where[200];
	va_list args;
	va_start(args, fmt);
	if (vsnprintf(text, sizeof text, fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	// A name may come from outside and be long; its beginning is enough to find it.
	snprintf(where, sizeof where, "%s%s%s", in->path, *in->path && *name ? "." : "", name);
	text_clean(text);
	text_clean(where);
	buf_printf(in->mistakes, "%s%s%s\n", where, *where ? ": " : "", text);
}

void json_in_init(struct json_in *in, const json_t *object, const char *path, struct buf *mistakes)
{
	*in = (struct json_in){.path = path, .mistakes = mistakes};
	if (object && !json_is_object(object))
		json_mistake(in, "", "must be an object");
	else
		in->object = object;
}

/* The member, noted as asked for; when it is missing and required, that is a mistake. */
static const json_t *member(struct json_in *in, const char *name, bool required)
{
	assert(in->n_seen < sizeof in->seen / sizeof in->seen[0]);
	in->seen[in->n_seen++] = name;
	if (!in->object)
		return NULL;
	const json_t *v = json_object_get(in->object, name);
	if (!v && required)
		json_mistake(in, name, "is missing");
	return v;
}

/* A value as a short text for a mistake. */
static void show(const json_t *v, char out[static SHOWN_MOST + 8])
{
	size_t room = SHOWN_MOST + 8;
	if (json_is_string(v)) {
		const char *s = json_string_value(v);
		bool whole = strnlen(s, SHOWN_MOST + 1) <= SHOWN_MOST;
		snprintf(out, room, "\"%.*s%s", SHOWN_MOST, s, whole ? "\"" : "...\"");
	} else if (json_is_integer(v))
		snprintf(out, room, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (json_is_real(v))
		snprintf(out, room, "%g", json_real_value(v));
	else if (json_is_object(v) || json_is_array(v))
		snprintf(out, room, "%s", json_is_object(v) ? "an object" : "an array");
	else
		snprintf(out, room, "%s",
			json_is_null(v)   ? "null"
			: json_is_true(v) ? "true"
					  : "false");
}

static void wrong(struct json_in *in, const char *name, const char *must, const json_t *v)
{
	char shown[SHOWN_MOST + 8];
	show(v, shown);
	json_mistake(in, name, "must be %s, is %s", must, shown);
}

int64_t json_get_int(
	struct json_in *in, const char *name, int64_t least, int64_t most, const int64_t *fallback)
{
	int64_t other = fallback ? *fallback : least;
	const json_t *v = member(in, name, !fallback);
	if (!v)
		return other;
	int64_t got = json_integer_value(v);
	if (json_is_integer(v) && got >= least && got <= most)
		return got;
	char must[80];
	snprintf(must, sizeof must, "a whole number from %lld to %lld", (long long)least,
		(long long)most);
	wrong(in, name, must, v);
	return other;
}

double json_get_real(
	struct json_in *in, const char *name, double least, double most, const double *fallback)
{
	double other = fallback ? *fallback : least;
	const json_t *v = member(in, name, !fallback);
	if (!v)
		return other;
	double got = json_number_value(v);
	if (json_is_number(v) && got >= least && got <= most)
		return got;
	char must[80];
	snprintf(must, sizeof must, "a number from %g to %g", least, most);
	wrong(in, name, must, v);
	return other;
}

bool json_get_flag(struct json_in *in, const char *name, const bool *fallback)
{
	bool other = fallback && *fallback;
	const json_t *v = member(in, name, !fallback);
	if (!v)
		return other;
	if (json_is_boolean(v))
		return json_is_true(v);
	wrong(in, name, "true or false", v);
	return other;
}

const char *json_get_text(
	struct json_in *in, const char *name, size_t max_len, const char *fallback)
{
	const char *other = fallback ? fallback : "";
	const json_t *v = member(in, name, !fallback);
	if (!v)
		return other;
	if (json_is_string(v) && json_string_length(v) <= max_len)
		return json_string_value(v);
	char must[80];
	snprintf(must, sizeof must, "a text of at most %zu bytes", max_len);
	wrong(in, name, must, v);
	return "";
}

/* Where text stands in names; their number when it is not there. */
static size_t choice_of(const char *const *names, const char *text)
{
	size_t i = 0;
	while (names[i] && strcmp(names[i], text) != 0)
		i++;
	return i;
}

size_t json_get_choice(
	struct json_in *in, const char *name, const char *const *names, const char *fallback)
{
	const json_t *v = member(in, name, !fallback);
	const char *text = v ? json_string_value(v) : fallback;
	size_t i = text ? choice_of(names, text) : 0;
	if (text && names[i])
		return i;
	if (v) {
		char must[200] = "one of";
		for (size_t k = 0; names[k]; k++) {
			size_t at = strlen(must);
			snprintf(must + at, sizeof must - at, "%s %s", k ? "," : "", names[k]);
		}
		wrong(in, name, must, v);
	}
	return 0;
}

struct hash json_get_hash(struct json_in *in, const char *name, bool required)
{
	struct hash h = {{0}};
	const json_t *v = member(in, name, required);
	if (v && (!json_is_string(v) || hash_parse(json_string_value(v), &h) != ERR_OK))
		wrong(in, name, "a SHA-256 in 64 lower-case hexadecimal digits", v);
	return h;
}

const json_t *json_get_object(struct json_in *in, const char *name, bool required)
{
	const json_t *v = member(in, name, required);
	if (!v || json_is_object(v))
		return v;
	wrong(in, name, "an object", v);
	return NULL;
}

const json_t *json_get_array(struct json_in *in, const char *name, size_t max_items, bool required)
{
	const json_t *v = member(in, name, required);
	if (!v)
		return NULL;
	if (!json_is_array(v)) {
		wrong(in, name, "an array", v);
		return NULL;
	}
	if (json_array_size(v) <= max_items)
		return v;
	json_mistake(
		in, name, "must have at most %zu items, has %zu", max_items, json_array_size(v));
	return NULL;
}

void json_in_finish(struct json_in *in)
{
	if (!in->object)
		return;
	const char *name;
	json_t *v;
	json_object_foreach((json_t *)(uintptr_t)in->object, name, v)
	{
		size_t i = 0;
		while (i < in->n_seen && strcmp(in->seen[i], name) != 0)
			i++;
		if (i < in->n_seen)
			continue;
		const char *near = text_nearest(name, in->seen, in->n_seen);
		json_mistake(in, name, "is not known here%s%s%s", near ? "; did you mean " : "",
			near ? near : "", near ? "?" : "");
	}
}

enum err json_verdict(const struct buf *mistakes, const char *what, struct why *why)
{
	if (mistakes->len == 0 && buf_ok(mistakes))
		return ERR_OK;
	if (mistakes->len == 0)
		return err_why(why, ERR_nomem, "%s: no memory to say why", what);
	char list[VERDICT_MOST + 3];
	size_t n = 0;
	for (size_t i = 0; i + 1 < mistakes->len && n < VERDICT_MOST; i++) {
		char c = (char)mistakes->data[i];
		list[n++] = c == '\n' ? ';' : c;
		if (c == '\n')
			list[n++] = ' ';
	}
	list[n] = '\0';
	return err_why(why, ERR_syntax, "%s: %s", what, list);
}
