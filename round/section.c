#include "round/section.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "compress/floats.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "vectors are saved as they lie in memory: little-endian"
#endif

void section_name(const char *what, uint32_t shard, char out[static SECTION_NAME])
{
	snprintf(out, SECTION_NAME, "%s.%" PRIu32, what, shard);
}

enum err section_put(struct statefile_out *to, const struct section_vector *about, const float *v,
	struct why *why)
{
	char name[SECTION_NAME];
	section_name(about->what, about->shard, name);
	return statefile_add(to, name, v, about->n * sizeof *v, why);
}

enum err section_get(
	const struct statefile *from, const struct section_vector *about, float *v, struct why *why)
{
	char name[SECTION_NAME];
	const uint8_t *bytes = NULL;
	section_name(about->what, about->shard, name);
	enum err err = statefile_find(from, name, about->n * sizeof *v, &bytes, why);
	if (err)
		return err;
	memcpy(v, bytes, about->n * sizeof *v);
	for (size_t i = 0; i < about->n; i++)
		if (!floats_finite(v[i]))
			return err_why(why, ERR_not_finite,
				"value %zu of section %s is not finite: this state cannot be used",
				i, name);
	return ERR_OK;
}
