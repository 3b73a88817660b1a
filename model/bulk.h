/* Encodes large texts on all threads: a stretch is cut into tiles at borders (split_border), so
 * that the ids are the same for every number of threads. */
#ifndef MODEL_BULK_H
#define MODEL_BULK_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/pool.h"
#include "model/tokenizer.h"

struct bulk;

/* Both are borrowed.  NULL: out of memory. */
struct bulk *bulk_new(const struct tokenizer *t, struct pool *pool);
void bulk_free(struct bulk *b); /* NULL-safe */

/* Other work on the same bytes, which is done beside the encoding. */
typedef void bulk_side(void *arg, const uint8_t *bytes, size_t n);

/* Appends the ids of the n bytes, which are split on their own, and calls side (may be NULL) once
 * from any thread.  ERR_nomem. */
enum err bulk_encode(struct bulk *b, const uint8_t *bytes, size_t n, bulk_side *side, void *arg,
	struct tokens *out) MUST_CHECK;

#endif
