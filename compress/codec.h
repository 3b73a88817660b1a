/*
 * Codecs: a vector of float32 (a pseudo-gradient, parameters, activations) as planes of bytes, and
 * back.  A codec is put together from stages, one list each: which values of every chunk are kept
 * (select.h), whether they are a DCT's coefficients (dct.h), how they are quantised (values.h); how
 * places and codes are packed follows from that.  Hashes and signatures are taken over the planes;
 * frame.h packs them for the way.
 *
 * Everything here is a pure function, safe from any thread: the same input gives the same planes on
 * every machine (IEEE single and double precision, no contraction, no libm but sqrt), with any
 * number of threads.  Decoding takes bytes from anybody: what this encoder does not write is
 * refused with a sentence, and nothing is allocated from a length that has not been compared with
 * what n and the parameters allow.  FORMAT.md says what the bytes mean.
 */
#ifndef COMPRESS_CODEC_H
#define COMPRESS_CODEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/pool.h"
#include "compress/planes.h"
#include "compress/select.h"
#include "compress/values.h"

#define CODEC_N_MAX ((size_t)1 << 31) /* values of one vector */
#define CODEC_CHUNK_MAX SELECT_CHUNK_MAX
#define CODEC_NAME_MAX 80

struct codec_params {
	enum select select;
	enum values values;
	bool dct;        /* chunk is DCT_CHUNK */
	uint32_t chunk;  /* values that are selected from, and scaled, together */
	uint32_t k;      /* kept of a chunk, at most; a shorter last chunk keeps its share, rounded
			  * up.  all: the same as chunk */
	float threshold; /* times the root mean square; 0 where select takes none */
	uint64_t seed;   /* of randk; 0 for the others */
};

/* What a spec says, before it is checked. */
struct codec_words {
	const char *select, *values;
	bool dct;
	uint32_t chunk, k; /* k 0: not said */
	double threshold;
};

/* seed is 0.  ERR_unsupported names the selections and values there are, ERR_range a number that is
 * out of its range or that this selection does not take. */
enum err codec_find(
	const struct codec_words *words, struct codec_params *out, struct why *why) MUST_CHECK;
/* "topk 64/4096 two", "dct topk 32/4096 sign", "all/1024 int8", "all f32". */
void codec_describe(const struct codec_params *p, char out[static CODEC_NAME_MAX]);
/* One number for all stages: select + 256 values + 65536 dct. */
uint32_t codec_number(const struct codec_params *p);
/* Nothing is lost, so that there is no error to feed back. */
bool codec_lossless(const struct codec_params *p);

/* Bytes that the planes of n values have at most; 0 < n <= CODEC_N_MAX. */
size_t codec_bound(const struct codec_params *p, size_t n);

/* planes are inited by the caller, with codec_bound or less, and cleared here.  pool: threads to
 * share the work with; NULL: alone.  ERR_not_finite names the first value that is NaN or infinite
 * (or has no finite transform); ERR_range an n that is not allowed; ERR_toobig when the planes'
 * maximum is too small; ERR_nomem. */
enum err codec_encode(const struct codec_params *p, const float *v, size_t n, struct pool *pool,
	struct planes *to, struct why *why) MUST_CHECK;

/* ---- a vector that stays in its planes, and is read chunk by chunk */

struct codec_vector {
	struct codec_params params; /* as the planes say */
	size_t n, count;            /* values, and how many of them are given */
	double norm_squared;        /* the sum of squares, in double precision and order of place */
	struct buf planes;          /* owned */
};

/*
 * planes must be those of n values under these parameters, or under them with a smaller k or
 * another seed: ERR_unsupported for other stages, ERR_version, ERR_shape for other numbers or
 * another n, ERR_truncated, ERR_not_finite, ERR_syntax for everything else that the encoder would
 * not have written.  Takes the bytes of planes, which is empty afterwards, unless it fails; out is
 * then empty.  End it with codec_release.
 */
enum err codec_open(const struct codec_params *p, size_t n, struct buf *planes,
	struct codec_vector *out, struct why *why) MUST_CHECK;
void codec_release(struct codec_vector *v); /* NULL-safe, idempotent */

struct codec_chunk {
	size_t first;          /* number of the chunk's first value in the vector */
	uint32_t len;          /* values it has */
	uint32_t m;            /* how many are given */
	const uint16_t *place; /* m places in the chunk, ascending; NULL: all of them */
	const float *value;    /* m finite values; coefficients where params.dct */
};

struct codec_reader;
/* Borrows v.  ERR_nomem. */
enum err codec_reader_new(const struct codec_vector *v, struct codec_reader **out) MUST_CHECK;
void codec_reader_free(struct codec_reader *r); /* NULL-safe */
/* The next chunk; false after the last one.  What out points to stays until the next call. */
bool codec_reader_next(struct codec_reader *r, struct codec_chunk *out);

/* What a vector stands for, transforms undone, straight from its planes.  ERR_nomem. */
enum err codec_expand(const struct codec_vector *v, float *out) MUST_CHECK; /* n values */
enum err codec_add(
	const struct codec_vector *v, float factor, float *to) MUST_CHECK; /* to += factor v */

#endif
