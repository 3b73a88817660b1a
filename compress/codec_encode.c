#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "compress/chunks.h"
#include "compress/codec.h"
#include "compress/dct.h"
#include "compress/floats.h"
#include "compress/kept.h"

/*
 * Chunk by chunk while it is in the cache: is it finite, what does its DCT look like, which of it
 * is kept.  Each chunk has room for its k; what is found is moved together afterwards.
 */
struct choose {
	const struct codec_params *p;
	const struct select_row *row;
	const float *v;
	size_t n;
	uint32_t *m;
	uint16_t *place;   /* NULL: all are kept */
	float *value;      /* NULL: v itself */
	atomic_size_t bad; /* the first value that is not finite, if below n */
};

static void note_bad(struct choose *c, size_t first, uint32_t len)
{
	size_t i = first;
	while (i < first + len - 1 && floats_finite(c->v[i]))
		i++;
	size_t seen = atomic_load(&c->bad);
	while (i < seen && !atomic_compare_exchange_weak(&c->bad, &seen, i))
		;
}

static void choose_chunk(struct choose *c, size_t chunk)
{
	uint32_t len = chunks_len(c->p, c->n, chunk), k = chunks_k(c->p, len);
	const float *v = c->v + chunk * c->p->chunk;
	float square[DCT_CHUNK];
	c->m[chunk] = k;
	if (!floats_all_finite(v, len)) {
		note_bad(c, chunk * c->p->chunk, len);
		return;
	}
	if (c->p->dct) {
		memcpy(square, v, len * sizeof *v);
		dct_forward(square, len);
		v = square;
		if (!floats_all_finite(v, len)) {
			note_bad(c, chunk * c->p->chunk, len);
			return;
		}
	}
	if (!c->place) {
		if (c->value)
			memcpy(c->value + chunk * c->p->chunk, v, len * sizeof *v);
		return;
	}
	const struct select_from from = {v, len, k, chunk, c->p->threshold, c->p->seed};
	uint16_t *place = c->place + chunk * c->p->k;
	float *value = c->value + chunk * c->p->k;
	uint32_t m = c->row->choose(&from, place);
	for (uint32_t i = 0; i < m; i++)
		value[i] = v[place[i]];
	c->m[chunk] = m;
}

static void choose_stretch(void *arg, size_t stretch, unsigned thread)
{
	(void)thread;
	struct choose *c = arg;
	size_t chunk = stretch * chunks_stretch(c->p), end = chunk + chunks_stretch(c->p);
	if (end > chunks_count(c->p, c->n))
		end = chunks_count(c->p, c->n);
	for (; chunk < end; chunk++)
		choose_chunk(c, chunk);
}

/* Moves what the chunks keep together, and counts it. */
static size_t gather(struct choose *c)
{
	size_t at = 0;
	for (size_t i = 0; i < chunks_count(c->p, c->n); at += c->m[i++]) {
		size_t room = i * c->p->k;
		if (!c->place || at == room)
			continue;
		memmove(c->place + at, c->place + room, c->m[i] * sizeof *c->place);
		memmove(c->value + at, c->value + room, c->m[i] * sizeof *c->value);
	}
	return at;
}

static enum err choose(struct choose *c, struct pool *pool, struct why *why)
{
	size_t most = chunks_count(c->p, c->n) * c->p->k, stretches = chunks_stretches(c->p, c->n);
	c->m = alloc_try(chunks_count(c->p, c->n), sizeof *c->m);
	if (c->row->choose)
		c->place = alloc_try(most, sizeof *c->place);
	if (c->row->choose || c->p->dct)
		c->value = alloc_try(most, sizeof *c->value);
	if (!c->m || (c->row->choose && !c->place) || ((c->row->choose || c->p->dct) && !c->value))
		return err_why(why, ERR_nomem, "no memory to encode %zu values", c->n);
	if (pool)
		pool_run(pool, stretches, choose_stretch, c);
	for (size_t i = 0; i < stretches && !pool; i++)
		choose_stretch(c, i, 0);
	size_t bad = atomic_load(&c->bad);
	if (bad == c->n)
		return ERR_OK;
	return err_why(why, ERR_not_finite, "value %zu of %zu is %s", bad, c->n,
		floats_finite(c->v[bad]) ? "too large for a DCT"
		: c->v[bad] != c->v[bad] ? "NaN"
					 : "infinite");
}

enum err codec_encode(const struct codec_params *p, const float *v, size_t n, struct pool *pool,
	struct planes *to, struct why *why)
{
	if (n < 1 || n > CODEC_N_MAX)
		return err_why(why, ERR_range, "a vector has from 1 to %zu values, not %zu",
			CODEC_N_MAX, n);
	planes_clear(to);
	struct choose c = {.p = p, .row = select_row(p->select), .v = v, .n = n};
	atomic_init(&c.bad, n);
	enum err err = choose(&c, pool, why);
	if (!err) {
		size_t count = gather(&c);
		struct kept kept = {.n = n,
			.count = count,
			.m = c.m,
			.place = c.row->sends_places ? c.place : NULL,
			.value = c.value ? c.value : v};
		err = kept_put(p, &kept, pool, to, why);
	}
	free(c.m);
	free(c.place);
	free(c.value);
	return err;
}
