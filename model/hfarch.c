#include "model/hfarch.h"
#include <stdio.h>
#include <string.h>

static const struct hfarch *const all[] = {
#define X(type) &hfarch_##type,
	HFARCH_LIST(X)
#undef X
};
#define N_ALL (sizeof all / sizeof *all)

const struct hfarch *hfarch_of_type(const char *model_type)
{
	for (size_t i = 0; i < N_ALL; i++)
		if (!strcmp(all[i]->model_type, model_type))
			return all[i];
	return NULL;
}

const struct hfarch *hfarch_of_builder(const char *builder)
{
	for (size_t i = 0; i < N_ALL; i++)
		if (!strcmp(all[i]->builder, builder))
			return all[i];
	return NULL;
}

const char *hfarch_types(void)
{
#define X(type) ", " #type
	static const char list[] = HFARCH_LIST(X);
#undef X
	return list + strlen(", ");
}

const char *hfarch_bare(const struct hfarch *a, const char *name)
{
	size_t n = strlen(a->prefix);
	return strncmp(name, a->prefix, n) ? name : name + n;
}

void hfarch_full(const struct hfarch *a, const char *name, char out[static HFARCH_NAME])
{
	bool head = !strcmp(name, HFARCH_HEAD);
	snprintf(out, HFARCH_NAME, "%s%s", head ? "" : a->prefix, hfarch_bare(a, name));
}

/* ---- single members */

bool hfarch_given(const struct json_in *in, const char *name)
{
	const json_t *v = json_object_get(in->object, name);
	return v && !json_is_null(v);
}

void hfarch_refuse(struct json_in *in, const char *name, const char *reason)
{
	if (hfarch_given(in, name) && !json_is_false(json_object_get(in->object, name)))
		json_mistake(in, name, "%s", reason);
}

void hfarch_must_be(struct json_in *in, const char *name, const char *const *texts)
{
	if (!hfarch_given(in, name))
		return;
	const char *is = json_string_value(json_object_get(in->object, name));
	for (size_t i = 0; is && texts[i]; i++)
		if (!strcmp(is, texts[i]))
			return;
	json_mistake(in, name, "must be \"%s\", is \"%.64s\"", texts[0], is ? is : "(no text)");
}

uint32_t hfarch_number(struct json_in *in, const char *name, uint32_t most, uint32_t fallback)
{
	if (fallback && !hfarch_given(in, name))
		return fallback;
	return (uint32_t)json_get_int(in, name, 1, most, NULL);
}

double hfarch_real(struct json_in *in, const char *name, double fallback)
{
	return hfarch_given(in, name) ? json_get_real(in, name, 1e-12, 1e12, NULL) : fallback;
}

bool hfarch_flag(struct json_in *in, const char *name, bool fallback)
{
	return hfarch_given(in, name) ? json_get_flag(in, name, NULL) : fallback;
}
