/*
 * What a pipeline sends between its stages: activations and their gradients, rows x cols float32,
 * one row a token, as a codec whose chunk is a row.  Nothing is kept from one to the next: there is
 * no error feedback, and no state.  Pure, any thread.
 */
#ifndef COMPRESS_ACTIVATION_H
#define COMPRESS_ACTIVATION_H
#include <stdint.h>
#include "base/err.h"
#include "compress/codec.h"

/*
 * Name, selection, values:
 *   f32   as they are
 *   bf16  rounded to 16 bits
 *   int8  a scale for each row
 *   int4  the same
 *   topk  of each row the cols / ratio largest (rounded up), as bf16: AdaTopK's codec
 */
#define ACTIVATION_LIST(X) \
	X(f32, all, f32) \
	X(bf16, all, bf16) X(int8, all, int8) X(int4, all, int4) X(topk, topk, bf16)

#define ACTIVATION_RATIO_MAX 65536.0 /* leaves one value of the longest row */

enum activation {
#define X(name, select, values) ACTIVATION_##name,
	ACTIVATION_LIST(X)
#undef X
		ACTIVATION_kinds
};

const char *activation_name(enum activation kind);
/* ERR_unsupported names the kinds there are. */
enum err activation_find(const char *name, enum activation *out, struct why *why) MUST_CHECK;
/* For rows of cols values, 1 to CODEC_CHUNK_MAX; ratio is of topk alone, 1 to ACTIVATION_RATIO_MAX,
 * and not looked at for the others.  ERR_range tells what is allowed. */
enum err activation_params(enum activation kind, uint32_t cols, double ratio,
	struct codec_params *out, struct why *why) MUST_CHECK;

#endif
