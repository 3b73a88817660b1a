#include "compress/kept.h"
#include <stdlib.h>
#include "base/alloc.h"
#include "compress/chunks.h"
#include "compress/codec_parts.h"
#include "compress/codes.h"
#include "compress/places.h"

/* ---- values to codes */

struct quantise {
	const struct codec_params *p;
	const struct values_row *row;
	const struct kept *k;
	const size_t *first; /* kept before each stretch */
	uint8_t *codes, *side;
};

static void quantise_stretch(void *arg, size_t stretch, unsigned thread)
{
	(void)thread;
	const struct quantise *q = arg;
	size_t chunk = stretch * chunks_stretch(q->p), end = chunk + chunks_stretch(q->p);
	if (end > chunks_count(q->p, q->k->n))
		end = chunks_count(q->p, q->k->n);
	size_t at = q->first[stretch], width = values_width(q->row);
	for (; chunk < end; at += q->k->m[chunk++])
		if (q->k->m[chunk] > 0)
			q->row->encode(q->k->value + at, q->k->m[chunk], q->codes + at * width,
				q->side + chunk * q->row->side);
}

static enum err quantise_chunks(struct quantise *q, struct pool *pool)
{
	size_t stretches = chunks_stretches(q->p, q->k->n), per = chunks_stretch(q->p);
	size_t *first = alloc_try(stretches, sizeof *first), at = 0;
	if (!first)
		return ERR_nomem;
	for (size_t i = 0; i < chunks_count(q->p, q->k->n); at += q->k->m[i++])
		if (i % per == 0)
			first[i / per] = at;
	q->first = first;
	if (pool)
		pool_run(pool, stretches, quantise_stretch, q);
	for (size_t i = 0; i < stretches && !pool; i++)
		quantise_stretch(q, i, 0);
	free(first);
	return ERR_OK;
}

static enum err quantise(struct quantise *q, struct pool *pool)
{
	size_t groups = q->row->whole ? 1 : chunks_count(q->p, q->k->n);
	q->codes = alloc_try(q->k->count + 1, values_width(q->row));
	q->side = alloc_try(groups * q->row->side + 1, 1);
	if (!q->codes || !q->side)
		return ERR_nomem;
	if (!q->row->whole)
		return quantise_chunks(q, pool);
	if (q->k->count > 0)
		q->row->encode(q->k->value, q->k->count, q->codes, q->side);
	return ERR_OK;
}

/* ---- planes */

static void put_missing(const struct codec_params *p, const struct kept *k, struct planes *to)
{
	size_t chunks = chunks_count(p, k->n);
	for (unsigned byte = 0; byte < CODEC_MISSING; byte++)
		for (size_t i = 0; i < chunks; i++) {
			uint32_t missing = chunks_k(p, chunks_len(p, k->n, i)) - k->m[i];
			buf_put_u8(&to->bytes, (uint8_t)(missing >> 8 * byte));
		}
	planes_end(to);
}

/* What the groups have beside their codes: the first byte of all, the second of all, … */
static void put_side(const struct quantise *q, struct planes *to)
{
	if (q->row->whole) {
		buf_put(&to->bytes, q->side, q->row->side);
		planes_end(to);
		return;
	}
	size_t groups = chunks_count(q->p, q->k->n);
	for (unsigned byte = 0; byte < q->row->side; byte++) {
		for (size_t i = 0; i < groups; i++)
			buf_put_u8(&to->bytes, q->side[i * q->row->side + byte]);
		planes_end(to);
	}
}

static void put_places(const struct codec_params *p, const struct kept *k, struct planes *to)
{
	uint8_t *symbol = buf_grow(&to->bytes, k->count);
	struct buf low;
	struct bits_out extra;
	buf_init(&low, to->bytes.max);
	bits_out_init(&extra, &low);
	size_t chunks = chunks_count(p, k->n), at = 0;
	for (size_t i = 0; i < chunks && symbol; at += k->m[i++])
		places_put(k->place + at, k->m[i], symbol + at, &extra);
	planes_end(to);
	bits_out_end(&extra);
	buf_put(&to->bytes, low.data, low.len);
	to->bytes.failed |= low.failed;
	planes_end(to);
	buf_release(&low);
}

static void put_codes(const struct quantise *q, struct planes *to)
{
	size_t m = q->k->count, width = values_width(q->row);
	uint8_t *at = buf_grow(&to->bytes, codes_bytes(q->row->bits, m));
	if (!at)
		return;
	codes_pack(q->codes, q->row->bits, m, at);
	// Each byte of longer codes is a plane of its own.
	size_t start = to->bytes.len - codes_bytes(q->row->bits, m);
	for (size_t byte = 1; byte < width; byte++)
		to->end[to->n++] = start + byte * m;
	planes_end(to);
	if (!q->row->sign)
		return;
	at = buf_grow(&to->bytes, codes_sign_bytes(m));
	if (at)
		codes_pack_signs(q->codes, m, at);
	planes_end(to);
}

enum err kept_put(const struct codec_params *p, const struct kept *k, struct pool *pool,
	struct planes *to, struct why *why)
{
	struct quantise q = {.p = p, .row = values_row(p->values), .k = k};
	enum err err = quantise(&q, pool);
	if (!err) {
		codec_put_header(p, k->n, to);
		if (select_row(p->select)->sends_places)
			put_missing(p, k, to);
		put_side(&q, to);
		if (select_row(p->select)->sends_places)
			put_places(p, k, to);
		put_codes(&q, to);
	}
	free(q.codes);
	free(q.side);
	if (!err && buf_ok(&to->bytes))
		return ERR_OK;
	if (!err && to->bytes.max < codec_bound(p, k->n))
		return err_why(why, ERR_toobig, "%zu values do not fit into %zu bytes", k->n,
			to->bytes.max);
	return err_why(why, ERR_nomem, "no memory to encode %zu values", k->n);
}
