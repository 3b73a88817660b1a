#include "model/hfconfig.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/hfarch.h"

#define MISTAKES_MAX (1u << 14)
#define DTYPE "torch_dtype"
#define DTYPE_NEW "dtype" /* since transformers 5 */

static const char *type_name(enum safetensors_type type)
{
	return type == SAFETENSORS_F16    ? "float16"
	       : type == SAFETENSORS_BF16 ? "bfloat16"
					  : "float32";
}

static enum err read_members(
	const char *name, const json_t *doc, struct model_config *out, struct why *why)
{
	const char *type = json_string_value(json_object_get(doc, "model_type"));
	const struct hfarch *arch = type ? hfarch_of_type(type) : NULL;
	if (!json_is_object(doc) || !type)
		return err_why(why, ERR_syntax, "%s has no \"model_type\"", name);
	if (!arch)
		return err_why(why, ERR_unsupported,
			"%s: the model_type \"%.64s\" is not known here, only %s", name, type,
			hfarch_types());
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, MISTAKES_MAX);
	json_in_init(&in, doc, "", &mistakes);
	*out = (struct model_config){.n_shards = 1};
	snprintf(out->builder, sizeof out->builder, "%s", arch->builder);
	hfarch_refuse(&in, "quantization_config", "must be null: quantised weights are not read");
	arch->read(&in, out);
	enum err e = json_verdict(&mistakes, name, why);
	buf_release(&mistakes);
	return e;
}

enum err hfconfig_parse(
	const char *name, const void *text, size_t n, struct model_config *out, struct why *why)
{
	json_t *doc = NULL;
	struct why inner = {0};
	enum err e = json_parse(text, n, HFCONFIG_MAX, &doc, &inner);
	if (e)
		return err_why(why, e, "%s: %s", name, inner.text);
	e = read_members(name, doc, out, why);
	json_decref(doc);
	return e;
}

/* As transformers writes it, with reals as short as they were given. */
static char *print(const json_t *doc)
{
	char *text = json_dumps(doc, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
	char *line = text ? alloc_must_printf("%s\n", text) : NULL;
	free(text);
	return line;
}

char *hfconfig_print(const struct model_config *m, enum safetensors_type type)
{
	const struct hfarch *arch = hfarch_of_builder(m->builder);
	json_t *doc = arch->write(m);
	json_t *common = json_pack("{s:[s], s:s, s:s}", "architectures", arch->class_name,
		"model_type", arch->model_type, DTYPE, type_name(type));
	char *text = doc && common && !json_object_update(doc, common) ? print(doc) : NULL;
	json_decref(common);
	json_decref(doc);
	return text;
}

char *hfconfig_retype(const void *text, size_t n, enum safetensors_type type)
{
	json_t *doc = NULL;
	const char *want = type_name(type);
	if (json_parse(text, n, HFCONFIG_MAX, &doc, NULL))
		return NULL;
	const char *member = json_object_get(doc, DTYPE_NEW) ? DTYPE_NEW : DTYPE;
	const char *is = json_string_value(json_object_get(doc, member));
	char *out = NULL;
	if (is && !strcmp(is, want))
		out = alloc_must_printf("%.*s", (int)n, (const char *)text);
	else if (!json_object_set_new(doc, member, json_string(want)))
		out = print(doc);
	json_decref(doc);
	return out;
}
