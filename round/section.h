/* Sections "WHAT.N" of a statefile, that hold one vector of shard N as float32. */
#ifndef ROUND_SECTION_H
#define ROUND_SECTION_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/statefile.h"

#define SECTION_NAME 40

void section_name(const char *what, uint32_t shard, char out[static SECTION_NAME]);

struct section_vector {
	const char *what; /* "param" */
	uint32_t shard;
	size_t n;
};
enum err section_put(struct statefile_out *to, const struct section_vector *about, const float *v,
	struct why *why) MUST_CHECK;
/* Into v; ERR_missing, ERR_shape for another length, ERR_not_finite. */
enum err section_get(const struct statefile *from, const struct section_vector *about, float *v,
	struct why *why) MUST_CHECK;

#endif
