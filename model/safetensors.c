#include "model/safetensors.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "model/half.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the format is little-endian and is read as it lies"
#endif

#define METADATA "__metadata__"
#define LENGTH_BYTES 8u

static const char *const type_names[] = {
#define X(name, width) #name,
	SAFETENSORS_LIST(X)
#undef X
};
static const uint8_t type_widths[] = {
#define X(name, width) width,
	SAFETENSORS_LIST(X)
#undef X
};

struct safetensors {
	struct file_map map; /* of safetensors_open */
	json_t *header;
	size_t header_bytes; /* of its text */
	const char *name;    /* for sentences, while parsing */
	const uint8_t *data;
	uint64_t data_len;
	struct safetensors_tensor *tensors; /* by place */
	size_t n;
	const struct safetensors_tensor **by_name;
};

/* ---- one tensor of the header */

static bool read_type(const json_t *j, enum safetensors_type *out)
{
	const char *text = json_string_value(j);
	for (unsigned i = 0; text && i < SAFETENSORS_TYPES; i++)
		if (strcmp(text, type_names[i]) == 0) {
			*out = (enum safetensors_type)i;
			return true;
		}
	return false;
}

static bool read_natural(const json_t *j, uint64_t *out)
{
	if (!json_is_integer(j) || json_integer_value(j) < 0)
		return false;
	*out = (uint64_t)json_integer_value(j);
	return true;
}

/* The shape and the bytes it takes. */
static enum err read_shape(const struct safetensors *s, const json_t *j,
	struct safetensors_tensor *t, uint64_t *bytes, struct why *why)
{
	if (!json_is_array(j) || json_array_size(j) > SAFETENSORS_RANK_MAX)
		return err_why(why, ERR_syntax,
			"%s: tensor %s needs a \"shape\" of at most %d whole numbers", s->name,
			t->name, SAFETENSORS_RANK_MAX);
	t->rank = (uint32_t)json_array_size(j);
	t->count = 1;
	for (uint32_t i = 0; i < t->rank; i++) {
		if (!read_natural(json_array_get(j, i), &t->dim[i]))
			return err_why(why, ERR_syntax,
				"%s: the shape of tensor %s is not made of whole numbers", s->name,
				t->name);
		if (__builtin_mul_overflow(t->count, t->dim[i], &t->count))
			return err_why(why, ERR_toobig,
				"%s: the shape of tensor %s has too many elements", s->name,
				t->name);
	}
	if (__builtin_mul_overflow(t->count, (uint64_t)type_widths[t->type], bytes))
		return err_why(why, ERR_toobig, "%s: the shape of tensor %s has too many elements",
			s->name, t->name);
	return ERR_OK;
}

static enum err read_place(const struct safetensors *s, const json_t *j,
	struct safetensors_tensor *t, uint64_t bytes, struct why *why)
{
	uint64_t begin = 0, end = 0;
	if (json_array_size(j) != 2 || !read_natural(json_array_get(j, 0), &begin) ||
		!read_natural(json_array_get(j, 1), &end))
		return err_why(why, ERR_syntax,
			"%s: tensor %s needs \"data_offsets\" of two whole numbers", s->name,
			t->name);
	if (begin > end || end > s->data_len)
		return err_why(why, begin > end ? ERR_range : ERR_truncated,
			"%s: tensor %s lies at %llu to %llu, but the file has %llu bytes of data; "
			"it is cut off "
			"or damaged, fetch it again",
			s->name, t->name, (unsigned long long)begin, (unsigned long long)end,
			(unsigned long long)s->data_len);
	if (end - begin != bytes)
		return err_why(why, ERR_shape,
			"%s: tensor %s has %llu bytes, its shape and type need %llu", s->name,
			t->name, (unsigned long long)(end - begin), (unsigned long long)bytes);
	t->bytes = s->data + begin;
	return ERR_OK;
}

static enum err read_tensor(const struct safetensors *s, const char *name, const json_t *j,
	struct safetensors_tensor *t, struct why *why)
{
	t->name = name;
	if (strlen(name) > SAFETENSORS_NAME_MAX)
		return err_why(why, ERR_toobig,
			"%s: a tensor's name is longer than %d bytes: %.64s...", s->name,
			SAFETENSORS_NAME_MAX, name);
	if (!json_is_object(j) || json_object_size(j) != 3)
		return err_why(why, ERR_syntax,
			"%s: tensor %s needs \"dtype\", \"shape\" and \"data_offsets\", and "
			"nothing else",
			s->name, name);
	const json_t *type = json_object_get(j, "dtype");
	if (!read_type(type, &t->type))
		return err_why(why, ERR_unsupported, "%s: tensor %s has the unknown type \"%s\"",
			s->name, name, json_is_string(type) ? json_string_value(type) : "");
	uint64_t bytes = 0;
	enum err e = read_shape(s, json_object_get(j, "shape"), t, &bytes, why);
	return e ? e : read_place(s, json_object_get(j, "data_offsets"), t, bytes, why);
}

/* ---- the whole header */

static uint64_t tensor_bytes(const struct safetensors_tensor *t)
{
	return t->count * type_widths[t->type];
}

static int compare_place(const void *left, const void *right)
{
	const struct safetensors_tensor *a = left, *b = right;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	/* An empty one lies before the one that begins at the same place. */
	if ((tensor_bytes(a) == 0) != (tensor_bytes(b) == 0))
		return tensor_bytes(a) == 0 ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int compare_name(const void *left, const void *right)
{
	const struct safetensors_tensor *const *a = left, *const *b = right;
	return strcmp((*a)->name, (*b)->name);
}

/* Side by side, from the first byte of the data to the last. */
static enum err check_cover(const struct safetensors *s, struct why *why)
{
	const uint8_t *at = s->data;
	for (size_t i = 0; i < s->n; i++) {
		const struct safetensors_tensor *t = &s->tensors[i];
		if (t->bytes < at)
			return err_why(why, ERR_range, "%s: tensors %s and %s overlap", s->name,
				s->tensors[i - 1].name, t->name);
		if (t->bytes > at)
			return err_why(why, ERR_range,
				"%s: %zu bytes before tensor %s belong to no tensor", s->name,
				(size_t)(t->bytes - at), t->name);
		at += tensor_bytes(t);
	}
	size_t rest = (size_t)(s->data + s->data_len - at);
	if (rest)
		return err_why(why, ERR_range, "%s: the last %zu bytes belong to no tensor",
			s->name, rest);
	return ERR_OK;
}

static enum err check_metadata(const struct safetensors *s, struct why *why)
{
	json_t *meta = json_object_get(s->header, METADATA), *value;
	const char *key;
	if (meta && !json_is_object(meta))
		return err_why(why, ERR_syntax, "%s: \"" METADATA "\" is not an object", s->name);
	json_object_foreach(meta, key, value)
	{
		if (!json_is_string(value))
			return err_why(why, ERR_syntax,
				"%s: \"%s\" in \"" METADATA "\" is not a text", s->name, key);
	}
	return ERR_OK;
}

static enum err read_header(struct safetensors *s, struct why *why)
{
	if (!json_is_object(s->header))
		return err_why(why, ERR_syntax, "%s: the header is not a JSON object", s->name);
	enum err e = check_metadata(s, why);
	if (e)
		return e;
	size_t room = json_object_size(s->header) + 1;
	s->tensors = alloc_try(room, sizeof *s->tensors);
	s->by_name = alloc_try(room, sizeof *s->by_name);
	if (!s->tensors || !s->by_name)
		return err_why(why, ERR_nomem, "%s: no memory for its %zu tensors", s->name, room);
	const char *name;
	json_t *value;
	json_object_foreach(s->header, name, value)
	{
		if (strcmp(name, METADATA) == 0)
			continue;
		e = read_tensor(s, name, value, &s->tensors[s->n], why);
		if (e)
			return e;
		s->n++;
	}
	if (s->n)
		qsort(s->tensors, s->n, sizeof *s->tensors, compare_place);
	for (size_t i = 0; i < s->n; i++)
		s->by_name[i] = &s->tensors[i];
	if (s->n)
		qsort(s->by_name, s->n, sizeof *s->by_name, compare_name);
	return check_cover(s, why);
}

static enum err find_header(struct safetensors *s, const uint8_t *bytes, size_t n, struct why *why)
{
	struct rd r;
	rd_init(&r, bytes, n);
	uint64_t len = rd_u64(&r);
	if (!rd_ok(&r))
		return err_why(why, ERR_truncated,
			"%s has only %zu bytes: no safetensors file, or one that is cut off",
			s->name, n);
	if (len > SAFETENSORS_HEADER_MAX)
		return err_why(why, ERR_toobig,
			"%s speaks of a header of %llu bytes, at most %u are allowed: no "
			"safetensors file, or a "
			"damaged one",
			s->name, (unsigned long long)len, SAFETENSORS_HEADER_MAX);
	const uint8_t *header = rd_bytes(&r, (size_t)len);
	if (!header)
		return err_why(why, ERR_truncated,
			"%s ends within its header: %llu bytes are announced, %zu follow; fetch it "
			"again",
			s->name, (unsigned long long)len, n - LENGTH_BYTES);
	s->header_bytes = (size_t)len;
	s->data = header + len;
	s->data_len = rd_left(&r);
	struct why inner = {0};
	enum err e = json_parse(header, (size_t)len, SAFETENSORS_HEADER_MAX, &s->header, &inner);
	return e ? err_why(why, e, "%s: the header is not sound: %s", s->name, inner.text) : ERR_OK;
}

enum err safetensors_parse(
	const char *name, const uint8_t *bytes, size_t n, struct safetensors **out, struct why *why)
{
	struct safetensors *s = alloc_must_zero(1, sizeof *s);
	s->name = name;
	enum err e = find_header(s, bytes, n, why);
	if (!e)
		e = read_header(s, why);
	if (e) {
		safetensors_close(s);
		return e;
	}
	s->name = NULL;
	*out = s;
	return ERR_OK;
}

enum err safetensors_open(const char *path, struct safetensors **out, struct why *why)
{
	struct file_map map;
	enum err e = file_map(path, &map, why);
	if (e)
		return e;
	e = safetensors_parse(path, map.data, map.len, out, why);
	if (e)
		file_unmap(&map);
	else
		(*out)->map = map;
	return e;
}

void safetensors_close(struct safetensors *s)
{
	if (!s)
		return;
	file_unmap(&s->map);
	json_decref(s->header);
	free(s->tensors);
	free(s->by_name);
	free(s);
}

/* ---- asking */

size_t safetensors_header_bytes(const struct safetensors *s)
{
	return s->header_bytes;
}

size_t safetensors_count(const struct safetensors *s)
{
	return s->n;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i)
{
	assert(i < s->n);
	return &s->tensors[i];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
	struct safetensors_tensor key = {.name = name};
	const struct safetensors_tensor *want = &key;
	const struct safetensors_tensor **found =
		s->n ? bsearch(&want, s->by_name, s->n, sizeof *s->by_name, compare_name) : NULL;
	return found ? *found : NULL;
}

const char *safetensors_meta(const struct safetensors *s, const char *key)
{
	return json_string_value(json_object_get(json_object_get(s->header, METADATA), key));
}

const char *safetensors_type_name(enum safetensors_type type)
{
	return type_names[type];
}

size_t safetensors_width(enum safetensors_type type)
{
	return type_widths[type];
}

struct hash safetensors_hash(const struct safetensors *s)
{
	return hash_of(s->map.data, s->map.len);
}

/* ---- reading values */

enum err safetensors_read(const struct safetensors_tensor *t, uint64_t first, size_t count,
	float *out, struct why *why)
{
	assert(first <= t->count && count <= t->count - first);
	if (t->type != SAFETENSORS_F32 && t->type != SAFETENSORS_F16 && t->type != SAFETENSORS_BF16)
		return err_why(why, ERR_unsupported,
			"tensor %s has type %s; only F32, F16 and BF16 can be read, convert it "
			"first",
			t->name, type_names[t->type]);
	const uint8_t *at = t->bytes + first * type_widths[t->type];
	if (t->type == SAFETENSORS_F32) {
		if (count)
			memcpy(out, at, count * sizeof *out);
		return ERR_OK;
	}
	for (size_t i = 0; i < count; i++, at += 2) {
		uint16_t h = (uint16_t)(at[0] | at[1] << 8);
		out[i] = t->type == SAFETENSORS_F16 ? half_from_f16(h) : half_from_bf16(h);
	}
	return ERR_OK;
}
