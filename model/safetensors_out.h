/*
 * A safetensors file, written in a stream: the header first, then one tensor after the other in the
 * given order, all of one type.  The header is as the format's own library writes it, so that
 * the same tensors in the same order give the same bytes there and here.  Nothing appears at the
 * path before commit.
 */
#ifndef MODEL_SAFETENSORS_OUT_H
#define MODEL_SAFETENSORS_OUT_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/safetensors.h"

struct safetensors_out;

struct safetensors_plan {
	const char *name; /* borrowed until safetensors_out_open returns, as all here */
	uint32_t rank;
	uint64_t dim[SAFETENSORS_RANK_MAX];
};

struct safetensors_text {
	const char *key, *value; /* UTF-8 */
};

struct safetensors_plans {
	enum safetensors_type type; /* F32, F16 or BF16 */
	const struct safetensors_plan *tensors;
	size_t n_tensors;
	const struct safetensors_text *meta; /* __metadata__ */
	size_t n_meta;
};

enum err safetensors_out_open(const char *path, const struct safetensors_plans *plans,
	struct safetensors_out **out, struct why *why) MUST_CHECK;
/* The next n elements of the data, rounded to the file's type.  ERR_range when a finite value is
 * too large for it. */
enum err safetensors_out_put(
	struct safetensors_out *f, const float *values, size_t n, struct why *why) MUST_CHECK;
/* ERR_shape when more or fewer elements were put than planned; f is gone in any case. */
enum err safetensors_out_commit(struct safetensors_out *f, struct why *why) MUST_CHECK;
void safetensors_out_discard(struct safetensors_out *f); /* NULL-safe */

#endif
