/* What a codec makes of a vector: byte strings of one kind each, one after the other. */
#ifndef COMPRESS_PLANES_H
#define COMPRESS_PLANES_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

#define PLANES_MAX 16

struct planes {
	struct buf bytes;       /* what is hashed and signed */
	size_t end[PLANES_MAX]; /* where each plane ends in it */
	uint32_t n;
};

void planes_init(struct planes *p, size_t max); /* max bytes of all together */
void planes_release(struct planes *p);          /* NULL-safe, idempotent */
void planes_clear(struct planes *p);
void planes_end(struct planes *p); /* a plane ends at what has been put so far */

#endif
