/* Which two neighbouring ids merge, how early, and to what: a hash table that is only read once it
 * is made. */
#ifndef MODEL_PAIRS_H
#define MODEL_PAIRS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define PAIRS_NEVER UINT32_MAX /* the rank of two ids that do not merge */

struct pair {
	uint32_t left, right, id;
	uint32_t rank; /* the lower, the earlier */
};

struct pairs {
	struct pair *slots;
	uint32_t mask;
	uint64_t secret; /* no file can aim its pairs at one place */
};

/* For n pairs.  ERR_nomem; release after that too. */
enum err pairs_init(struct pairs *p, size_t n) MUST_CHECK;
void pairs_release(struct pairs *p);
/* Adds one; if it is there already, *earlier gets its rank and ERR_duplicate is returned. */
enum err pairs_add(struct pairs *p, const struct pair *pair, uint32_t *earlier) MUST_CHECK;
/* The pair, or one whose rank is PAIRS_NEVER. */
const struct pair *pairs_find(const struct pairs *p, uint32_t left, uint32_t right);

#endif
