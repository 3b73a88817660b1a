/* What the readers of a spec's sections share. */
#ifndef MODEL_SPEC_IN_H
#define MODEL_SPEC_IN_H
#include <string.h>
#include "base/json.h"

static inline uint32_t spec_in_u32(
	struct json_in *in, const char *name, uint32_t least, uint32_t most)
{
	return (uint32_t)json_get_int(in, name, least, most, NULL);
}

static inline uint32_t spec_in_u32_or(
	struct json_in *in, const char *name, uint32_t least, uint32_t most, uint32_t fallback)
{
	const int64_t value = fallback;
	return (uint32_t)json_get_int(in, name, least, most, &value);
}

static inline double spec_in_real_or(
	struct json_in *in, const char *name, double least, double most, double fallback)
{
	return json_get_real(in, name, least, most, &fallback);
}

/* A name: it stands in logs, on the page and in file names.  Borrowed; "" when it is wrong. */
static inline const char *spec_in_name(struct json_in *in, const char *name, size_t max_len)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-.";
	const char *text = json_get_text(in, name, max_len, NULL);
	const json_t *value = json_object_get(in->object, name);
	if (json_is_string(value) && !json_string_length(value))
		json_mistake(in, name, "must not be empty");
	if (!text[strspn(text, allowed)])
		return text;
	json_mistake(in, name, "may have letters, digits and the signs _ - . only");
	return "";
}

#endif
