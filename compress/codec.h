/*
 * Codecs: a vector of float32 (a pseudo-gradient, or parameters) as planes of bytes, and back.
 * Hashes and signatures are taken over the planes; frame.h packs them for the way.
 *
 * Everything here is a pure function, safe from any thread: the same input gives the same planes on
 * every machine (IEEE single and double precision, no contraction, no libm).  Decoding takes bytes
 * from anybody: what this encoder does not write is refused with a sentence, and nothing is
 * allocated from a length that has not been compared with what n and the parameters allow.
 * FORMAT.md says what the bytes mean.
 */
#ifndef COMPRESS_CODEC_H
#define COMPRESS_CODEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "compress/decoded.h"
#include "compress/planes.h"

/* Numbers are on the wire: append only.  One row and one file, codec_NAME.c, each. */
#define CODEC_LIST(X) \
	X(1, raw) \
	X(2, int8) \
	X(3, topk2)

enum codec {
#define X(number, name) CODEC_##name = number,
	CODEC_LIST(X)
#undef X
};

#define CODEC_N_MAX ((size_t)1 << 31) /* values of one vector */
#define CODEC_CHUNK_MAX 65536u

struct codec_params {
	enum codec codec;
	uint32_t chunk, k; /* topk2: k of every chunk values, 1 <= k <= chunk <= CODEC_CHUNK_MAX;
			    * 0 for the others */
};

/* What a codec is: a constant in codec_NAME.c.  Callers use the functions below. */
struct codec_row {
	const char *name;
	bool feedback; /* what encoding loses is kept and added to the next vector */
	bool sparse;   /* takes chunk and k */
	/* Bytes at most, without the common header. */
	size_t (*bound)(const struct codec_params *p, size_t n);
	/* v has 0 < n <= CODEC_N_MAX finite values.  ERR_nomem; a failed buffer the caller sees. */
	enum err (*encode)(
		const struct codec_params *p, const float *v, size_t n, struct planes *to);
	/* from stands after the common header; what is left over the caller sees.  out is untouched
	 * on failure, or inited. */
	enum err (*decode)(const struct codec_params *p, size_t n, struct rd *from,
		struct decoded *out, struct why *why);
};

#define X(number, name) extern const struct codec_row codec_##name;
CODEC_LIST(X)
#undef X

/* The row of a number; NULL when there is none. */
const struct codec_row *codec_row(uint32_t number);
/* From a spec's words; ERR_unsupported names the codecs there are, ERR_range chunk or k. */
enum err codec_find(const char *name, uint32_t chunk, uint32_t k, struct codec_params *out,
	struct why *why) MUST_CHECK;

/* Bytes that the planes of n values have at most; 0 < n <= CODEC_N_MAX. */
size_t codec_bound(const struct codec_params *p, size_t n);

/* planes are inited by the caller, with codec_bound or less, and cleared here.  ERR_not_finite
 * names the first value that is NaN or infinite; ERR_range an n that is not allowed; ERR_toobig
 * when the planes' maximum is too small; ERR_nomem. */
enum err codec_encode(const struct codec_params *p, const float *v, size_t n, struct planes *to,
	struct why *why) MUST_CHECK;
/* bytes must be the planes of n values under these parameters: ERR_unsupported for another codec,
 * ERR_version, ERR_shape for other parameters or another n, ERR_truncated, ERR_not_finite,
 * ERR_syntax for everything else that the encoder would not have written.  out is empty on failure;
 * else decoded_release it. */
enum err codec_decode(const struct codec_params *p, size_t n, const struct buf *planes,
	struct decoded *out, struct why *why) MUST_CHECK;

#endif
