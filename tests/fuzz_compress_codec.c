/* Planes from anywhere are refused with a sentence, or are a vector as its contract says.  The
 * first 3 bytes choose the parameters and the length: see params_of. */
#include <stdlib.h>
#include <string.h>
#include "compress/codec.h"
#include "compress/floats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct codec_params params[] = {{CODEC_raw, 0, 0}, {CODEC_int8, 0, 0},
	{CODEC_topk2, 64, 4}, {CODEC_topk2, 8, 8}, {CODEC_topk2, 1, 1}, {CODEC_topk2, 4096, 64},
	{CODEC_topk2, 65536, 3}};

static void check(const struct decoded *d, size_t n)
{
	if (d->n != n || (!d->index && d->count != n))
		abort();
	for (size_t i = 0; i < d->count; i++) {
		if (!floats_finite(d->value[i]))
			abort();
		if (d->index && (d->index[i] >= n || (i > 0 && d->index[i] <= d->index[i - 1])))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	const struct codec_params *p = &params[data[0] % (sizeof params / sizeof params[0])];
	size_t n = 1 + data[1] + ((size_t)data[2] << 8);
	struct decoded d;
	struct why why = {0};
	struct buf planes = {.data = (uint8_t *)(uintptr_t)data + 3, .len = size - 3};
	enum err err = codec_decode(p, n, &planes, &d, &why);
	if (err) {
		if (d.value || d.index || !why.text[0] || why.code != err)
			abort();
		return 0;
	}
	check(&d, n);
	if (size - 3 > codec_bound(p, n))
		abort();
	/* What raw takes it would have written; the others choose anew. */
	struct planes again;
	planes_init(&again, codec_bound(p, n));
	float *v = calloc(n, sizeof *v);
	if (!v)
		abort();
	decoded_expand(&d, v);
	if (codec_encode(p, v, n, &again, &why))
		abort();
	if (p->codec == CODEC_raw && memcmp(again.bytes.data, data + 3, size - 3) != 0)
		abort();
	free(v);
	planes_release(&again);
	decoded_release(&d);
	return 0;
}
