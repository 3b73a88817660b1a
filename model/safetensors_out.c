#include "model/safetensors_out.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "model/half.h"

#define METADATA "__metadata__"
#define LENGTH_BYTES 8u
#define PIECE 4096u /* values that are rounded at once */

struct safetensors_out {
	struct file_out *file;
	char *path;
	enum safetensors_type type;
	uint64_t left; /* elements that are still to come */
};

/* ---- the header: members in the order of the data, as the format's own library has them */

static json_t *plan_json(const struct safetensors_plan *t, enum safetensors_type type, uint64_t *at)
{
	json_t *shape = json_array();
	uint64_t count = 1, begin = *at;
	for (uint32_t i = 0; i < t->rank; i++) {
		count *= t->dim[i];
		json_array_append_new(shape, json_integer((json_int_t)t->dim[i]));
	}
	*at += count * safetensors_width(type);
	return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_type_name(type), "shape",
		shape, "data_offsets", (json_int_t)begin, (json_int_t)*at);
}

static bool add_meta(json_t *header, const struct safetensors_plans *plans)
{
	if (!plans->n_meta)
		return true;
	json_t *meta = json_object();
	bool ok = meta;
	for (size_t i = 0; i < plans->n_meta; i++)
		ok &= json_object_set_new(
			      meta, plans->meta[i].key, json_string(plans->meta[i].value)) == 0;
	return json_object_set_new(header, METADATA, meta) == 0 && ok;
}

/* Caller frees; NULL when there is no memory, or a name twice or not UTF-8. */
static char *header_text(const struct safetensors_plans *plans, uint64_t *bytes)
{
	json_t *header = json_object();
	bool ok = header && add_meta(header, plans);
	*bytes = 0;
	for (size_t i = 0; i < plans->n_tensors; i++) {
		const struct safetensors_plan *t = &plans->tensors[i];
		ok &= !json_object_get(header, t->name) &&
		      json_object_set_new(header, t->name, plan_json(t, plans->type, bytes)) == 0;
	}
	char *text = ok ? json_dumps(header, JSON_COMPACT) : NULL;
	json_decref(header);
	return text;
}

/* The header is filled up with spaces, so that the data is aligned. */
static enum err write_header(struct file_out *f, const char *text, struct why *why)
{
	size_t len = strlen(text), padding = -len % LENGTH_BYTES;
	struct buf head;
	buf_init(&head, LENGTH_BYTES + len + padding);
	buf_put_u64(&head, len + padding);
	buf_put(&head, text, len);
	for (size_t i = 0; i < padding; i++)
		buf_put_u8(&head, ' ');
	enum err e = buf_ok(&head)
			     ? file_out_put(f, head.data, head.len, why)
			     : err_why(why, ERR_nomem, "no memory for a header of %zu bytes", len);
	buf_release(&head);
	return e;
}

enum err safetensors_out_open(const char *path, const struct safetensors_plans *plans,
	struct safetensors_out **out, struct why *why)
{
	assert(plans->type <= SAFETENSORS_BF16);
	uint64_t bytes;
	char *text = header_text(plans, &bytes);
	if (!text)
		return err_why(why, ERR_syntax,
			"cannot write %s: a tensor's name comes twice or is no text, or there is "
			"no memory",
			path);
	struct safetensors_out *f = alloc_must_zero(1, sizeof *f);
	f->path = alloc_must_strdup(path);
	f->type = plans->type;
	f->left = bytes / safetensors_width(f->type);
	enum err e = file_out_open(path, 0644, &f->file, why);
	if (!e)
		e = write_header(f->file, text, why);
	free(text);
	if (e) {
		safetensors_out_discard(f);
		return e;
	}
	*out = f;
	return ERR_OK;
}

/* ---- the data */

static enum err put_rounded(
	struct safetensors_out *f, const float *values, size_t n, struct why *why)
{
	uint16_t piece[PIECE];
	bool f16 = f->type == SAFETENSORS_F16;
	for (size_t i = 0; i < n; i++) {
		piece[i] = f16 ? half_to_f16(values[i]) : half_to_bf16(values[i]);
		float back = f16 ? half_from_f16(piece[i]) : half_from_bf16(piece[i]);
		if (isinf(back) && !isinf(values[i]))
			return err_why(why, ERR_range,
				"%s: the value %g is too large for %s; choose a wider type",
				f->path, (double)values[i], safetensors_type_name(f->type));
	}
	return file_out_put(f->file, piece, n * sizeof *piece, why);
}

enum err safetensors_out_put(
	struct safetensors_out *f, const float *values, size_t n, struct why *why)
{
	if (n > f->left)
		return err_why(why, ERR_shape, "%s: %zu more values than its tensors have", f->path,
			(size_t)(n - f->left));
	f->left -= n;
	if (f->type == SAFETENSORS_F32)
		return file_out_put(f->file, values, n * sizeof *values, why);
	enum err e = ERR_OK;
	for (size_t at = 0; at < n && !e; at += PIECE)
		e = put_rounded(f, values + at, n - at < PIECE ? n - at : PIECE, why);
	return e;
}

enum err safetensors_out_commit(struct safetensors_out *f, struct why *why)
{
	if (f->left) {
		enum err e = err_why(why, ERR_shape, "%s: %llu values of its tensors are missing",
			f->path, (unsigned long long)f->left);
		safetensors_out_discard(f);
		return e;
	}
	struct file_out *file = f->file;
	f->file = NULL;
	safetensors_out_discard(f);
	return file_out_commit(file, why);
}

void safetensors_out_discard(struct safetensors_out *f)
{
	if (!f)
		return;
	file_out_discard(f->file);
	free(f->path);
	free(f);
}
