/* Planes from anywhere are refused with a sentence, or are a vector as its contract says.  The
 * first 4 bytes choose the stages and the length. */
#include <stdlib.h>
#include <string.h>
#include "compress/codec.h"
#include "compress/floats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct codec_params params_of(const uint8_t *data)
{
	static const struct {
		uint32_t chunk, k;
	} sizes[] = {
		{64, 4}, {8, 8}, {1, 1}, {4096, 64}, {65536, 3}, {7, 3}, {256, 24}, {1024, 1000}};
	uint32_t n_values = 0, n_select = 0;
	while (values_row(n_values + 1))
		n_values++;
	while (select_row(n_select + 1))
		n_select++;
	const uint32_t select = 1 + data[0] % n_select;
	const struct select_row *row = select_row(select);
	struct codec_params p = {.select = (enum select)select,
		.values = (enum values)(1 + data[1] % n_values),
		.chunk = sizes[data[1] >> 5].chunk,
		.threshold = row->takes_threshold ? 1.5f : 0};
	p.k = row->takes_k ? sizes[data[1] >> 5].k : p.chunk;
	p.dct = p.chunk == 4096 && data[0] & 0x80;
	return p;
}

/* Everything is finite and in its place; returns how much is given. */
static size_t check(const struct codec_vector *v)
{
	struct codec_reader *r;
	struct codec_chunk c;
	size_t next = 0, count = 0;
	if (codec_reader_new(v, &r))
		abort();
	while (codec_reader_next(r, &c)) {
		if (c.first != next || (!c.place && c.m != c.len))
			abort();
		for (uint32_t i = 0; i < c.m; i++) {
			if (!floats_finite(c.value[i]))
				abort();
			if (c.place &&
				(c.place[i] >= c.len || (i > 0 && c.place[i] <= c.place[i - 1])))
				abort();
		}
		next += c.len;
		count += c.m;
	}
	codec_reader_free(r);
	if (next != v->n || count != v->count)
		abort();
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	const struct codec_params p = params_of(data);
	size_t n = 1 + data[2] + ((size_t)data[3] << 8);
	struct codec_vector v;
	struct why why = {0};
	struct buf planes, again;
	buf_init(&planes, size);
	buf_put(&planes, data + 4, size - 4);
	enum err err = codec_open(&p, n, &planes, &v, &why);
	buf_release(&planes);
	if (err) {
		if (v.planes.data || !why.text[0] || why.code != err)
			abort();
		return 0;
	}
	if (check(&v) > n || size - 4 > codec_bound(&p, n))
		abort();
	float *x = calloc(n, sizeof *x);
	if (!x || codec_expand(&v, x))
		abort();
	/* What is lossless would have been written just so; the others choose anew. */
	struct planes to;
	planes_init(&to, codec_bound(&p, n));
	err = codec_encode(&v.params, x, n, NULL, &to, &why);
	if (err && !(p.dct && err == ERR_not_finite))
		abort();
	if (codec_lossless(&p) &&
		(to.bytes.len != size - 4 || memcmp(to.bytes.data, data + 4, size - 4) != 0))
		abort();
	buf_init(&again, codec_bound(&p, n));
	if (!err) {
		buf_put(&again, to.bytes.data, to.bytes.len);
		codec_release(&v);
		if (codec_open(&p, n, &again, &v, &why))
			abort(); // what it writes it reads
	}
	buf_release(&again);
	free(x);
	planes_release(&to);
	codec_release(&v);
	return 0;
}
