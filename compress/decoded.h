/* A vector as it came out of a codec: all its values, or some of them with their places. */
#ifndef COMPRESS_DECODED_H
#define COMPRESS_DECODED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct decoded {
	size_t n, count; /* length of the vector; how many values are given */
	uint32_t *index; /* count places, strictly ascending, below n; NULL: dense, count is n */
	float *value;    /* count values, finite */
};

/* Arrays for count values (zeroed); count has been bounded by the caller.  ERR_nomem. */
enum err decoded_init(
	struct decoded *d, size_t n, size_t count, bool sparse, struct why *why) MUST_CHECK;
void decoded_release(struct decoded *d); /* NULL-safe, idempotent */
/* out[i] = the value at i, 0 where none is given; n floats. */
void decoded_expand(const struct decoded *d, float *out);
/* The sum of squares, in double precision and order of place. */
double decoded_norm_squared(const struct decoded *d);

#endif
