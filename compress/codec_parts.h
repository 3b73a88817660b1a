/* Between the files of codec.h: the header, and a reader that does not trust its bytes yet. */
#ifndef COMPRESS_CODEC_PARTS_H
#define COMPRESS_CODEC_PARTS_H
#include "compress/codec.h"

#define CODEC_HEADER 32u
#define CODEC_MISSING 4u /* bytes of a chunk that say how many fewer than k it keeps */

void codec_put_header(const struct codec_params *p, size_t n, struct planes *to);
/* What the planes say of themselves, if p allows it; r stands behind it then. */
enum err codec_get_header(const struct codec_params *p, size_t n, struct rd *r,
	struct codec_params *says, struct why *why) MUST_CHECK;
/* Reads all of a vector whose params, n and planes are set; sets its count and norm. */
enum err codec_reader_check(struct codec_vector *v, struct why *why) MUST_CHECK;

#endif
