/* What is kept of a vector, chunk by chunk: between choosing (codec_encode.c, merge.c) and packing.
 */
#ifndef COMPRESS_KEPT_H
#define COMPRESS_KEPT_H
#include "compress/codec.h"

struct kept {
	size_t n;              /* values of the vector */
	size_t count;          /* kept of all chunks */
	const uint32_t *m;     /* of each chunk: at most its k, that is chunks_k of chunks.h */
	const uint16_t *place; /* count places in their chunks, ascending in each; NULL for a
				* selection that sends none */
	const float *value;    /* count finite values (coefficients where p->dct) */
};

/* Appends the planes of what is kept; to is clear.  pool as codec_encode.  ERR_toobig (to's
 * maximum is less than codec_bound), ERR_nomem. */
enum err kept_put(const struct codec_params *p, const struct kept *k, struct pool *pool,
	struct planes *to, struct why *why) MUST_CHECK;

#endif
