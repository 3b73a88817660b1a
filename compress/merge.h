/*
 * Several vectors made one: what a round's contributions come to, for whoever does not need each of
 * them.  Read in lockstep through their planes, chunk by chunk, so that beside what was sent and
 * what comes out only one chunk is in memory; a vector that keeps one value in 64 is never spread
 * out.  Sums are in double precision in the order of the inputs: the same bits on every machine.
 * Pure; one thread at a time.
 */
#ifndef COMPRESS_MERGE_H
#define COMPRESS_MERGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "compress/codec.h"

struct merge_input {
	const struct codec_vector *vector;
	double weight; /* its values count times so much; finite, not negative */
	double part;   /* of what is divided by; positive */
};

struct merge_config {
	const struct merge_input *inputs; /* borrowed; at least 1 */
	size_t count;
	bool per_sender; /* a coordinate is divided by the parts of those who sent it, else by all
			  */
};

struct merge;
/* ERR_shape names the input (from 0) that has another n, chunk or transform than the first, or that
 * there is none; ERR_nomem. */
enum err merge_new(
	const struct merge_config *config, struct merge **out, struct why *why) MUST_CHECK;
void merge_free(struct merge *m); /* NULL-safe */

struct merge_chunk {
	size_t first; /* number of the chunk's first value in the vector */
	uint32_t len;
	double *value; /* len quotients, of coefficients where the inputs have a DCT; 0 where nobody
			* sent.  The caller may write into it. */
};
/* The next chunk; false after the last one.  What out points to stays until the next call. */
bool merge_next(struct merge *m, struct merge_chunk *out);

/* ---- as a vector of its own */

/* How what comes of such vectors is encoded, with these values: as the inputs are where all send
 * the same places, else as the union of their places. */
struct codec_params merge_params(const struct merge_config *config, enum values values);
/* Planes under merge_params; to is inited by the caller with its codec_bound or less.  Places where
 * the quotient is 0 or subnormal are left out where places are sent.  ERR_not_finite when a
 * quotient is beyond a float; errors of merge_new and codec_encode. */
enum err merge_encode(const struct merge_config *config, enum values values, struct pool *pool,
	struct planes *to, struct why *why) MUST_CHECK;

#endif
