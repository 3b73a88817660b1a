/* A safetensors file from anywhere is read or refused with a reason; what is read lies within the
 * file, and every value can be had. */
#include <stdlib.h>
#include <string.h>
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensor(
	const struct safetensors *s, const struct safetensors_tensor *t, const uint8_t *end)
{
	float piece[64];
	struct why why = {0};
	if (safetensors_find(s, t->name) != t || t->bytes > end || t->rank > SAFETENSORS_RANK_MAX)
		abort();
	for (uint64_t at = 0; at < t->count; at += 64) {
		size_t n = t->count - at < 64 ? (size_t)(t->count - at) : 64;
		if (!safetensors_read(t, at, n, piece, &why))
			continue;
		if (!why.text[0])
			abort();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct safetensors *s = NULL;
	struct why why = {0};
	enum err err = safetensors_parse("input", data, size, &s, &why);
	if (err && (!why.text[0] || why.code != err || s))
		abort();
	for (size_t i = 0; !err && i < safetensors_count(s); i++)
		check_tensor(s, safetensors_at(s, i), data + size);
	if (!err && safetensors_meta(s, "format") && safetensors_find(s, "__metadata__"))
		abort();
	safetensors_close(s);
	return 0;
}
