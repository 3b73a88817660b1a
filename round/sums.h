/*
 * The contributions of a round added up: what a rule steps by, chunk by chunk.  Inputs are read in
 * lockstep through their planes, so that beside those only a few chunks are in memory.  Pure; one
 * thread at a time.
 */
#ifndef ROUND_SUMS_H
#define ROUND_SUMS_H
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "round/rule.h"

struct sums;

/* Of count inputs (at least 1, borrowed) in any order, to n values.  Errors as rule_apply. */
enum err sums_new(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	size_t n, struct sums **out, struct why *why) MUST_CHECK;
void sums_free(struct sums *s); /* NULL-safe */

struct sums_chunk {
	size_t first, n; /* its values in the vector */
	double *delta;   /* D, of coefficients where the codec has a DCT; 0 where nobody sent.  The
			  * caller may write into it. */
};
/* The next one; false after the last.  What out points to stays until the next call. */
bool sums_next(struct sums *s, struct sums_chunk *out);

#endif
