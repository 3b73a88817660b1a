/*
 * Compute threads that sleep when there is nothing to do.  Work is cut into tiles by the caller,
 * the tiles are taken dynamically, and a tile's arithmetic may not depend on which thread runs it:
 * the result is then the same for every thread count.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H
#include <stddef.h>

struct pool;
typedef void pool_fn(void *arg, size_t tile, unsigned thread); /* thread < pool_threads */

struct pool *pool_new(
	unsigned threads); /* the caller counts as one; 0 = one per core allowed here */
void pool_free(struct pool *p);
unsigned pool_threads(const struct pool *p);
/* Run fn for every tile in [0, tiles) and return when all are done.  Not to be nested; one caller.
 */
void pool_run(struct pool *p, size_t tiles, pool_fn *fn, void *arg);

#endif
