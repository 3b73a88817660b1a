/* Vectors to encode, and what a refusal must say. */
#ifndef TESTS_HELP_COMPRESS_H
#define TESTS_HELP_COMPRESS_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "compress/codec.h"

enum help_compress_kind {
	HELP_COMPRESS_plain,     /* about normal */
	HELP_COMPRESS_heavy,     /* heavy tails, as pseudo-gradients have */
	HELP_COMPRESS_zeros,     /* of both signs */
	HELP_COMPRESS_few,       /* one value in 1000 is not zero */
	HELP_COMPRESS_equal,     /* all magnitudes the same */
	HELP_COMPRESS_subnormal, /* and a few of the smallest normal ones */
	HELP_COMPRESS_huge,      /* up to the largest float */
	HELP_COMPRESS_mixed,     /* all magnitudes there are */
	HELP_COMPRESS_kinds
};

/* The same for the same seed; caller frees. */
float *help_compress_vector(enum help_compress_kind kind, size_t n, uint64_t seed);
/* Every selection with every kind of values, and corner cases of chunk and k; 0 when i is too
 * large.
 */
int help_compress_params(size_t i, struct codec_params *out);
/* The refusal has this code, and its sentence this part. */
void help_compress_told(const struct why *why, enum err code, const char *part);

#endif
