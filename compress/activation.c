#include "compress/activation.h"
#include <inttypes.h>
#include <string.h>

static const struct {
	const char *name;
	enum select select;
	enum values values;
} kinds[] = {
#define X(name, select, values) [ACTIVATION_##name] = {#name, SELECT_##select, VALUES_##values},
	ACTIVATION_LIST(X)
#undef X
};

const char *activation_name(enum activation kind)
{
	return kinds[kind].name;
}

enum err activation_find(const char *name, enum activation *out, struct why *why)
{
	for (unsigned i = 0; i < ACTIVATION_kinds; i++) {
		if (strcmp(kinds[i].name, name) != 0)
			continue;
		*out = (enum activation)i;
		return ERR_OK;
	}
#define X(name, select, values) " " #name
	return err_why(why, ERR_unsupported,
		"activations cannot be sent as \"%s\"; this program knows:" ACTIVATION_LIST(X),
		name);
#undef X
}

/* cols / ratio rounded up, without libm; 1 to cols. */
static uint32_t share_of(uint32_t cols, double ratio)
{
	double share = cols / ratio;
	uint32_t k = (uint32_t)share;
	return k + (k < share);
}

enum err activation_params(enum activation kind, uint32_t cols, double ratio,
	struct codec_params *out, struct why *why)
{
	if (cols < 1 || cols > CODEC_CHUNK_MAX)
		return err_why(why, ERR_range,
			"rows of activations have from 1 to %u values, not %" PRIu32,
			CODEC_CHUNK_MAX, cols);
	bool topk = kinds[kind].select == SELECT_topk;
	if (topk && !(ratio >= 1 && ratio <= ACTIVATION_RATIO_MAX))
		return err_why(why, ERR_range, "the ratio of topk must be from 1 to %g, is %g",
			ACTIVATION_RATIO_MAX, ratio);
	*out = (struct codec_params){.select = kinds[kind].select,
		.values = kinds[kind].values,
		.chunk = cols,
		.k = topk ? share_of(cols, ratio) : cols};
	return ERR_OK;
}
