#include "compress/codec.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "compress/chunks.h"
#include "compress/codec_parts.h"
#include "compress/codes.h"
#include "compress/dct.h"
#include "compress/floats.h"
#include "compress/places.h"

#define VERSION 2u
#define THRESHOLD_MOST 1000.0

static const struct select_row *select_of(const struct codec_params *p)
{
	return select_row(p->select);
}

static const struct values_row *values_of(const struct codec_params *p)
{
	return values_row(p->values);
}

/* ---- from words */

static uint32_t find_select(const char *name, struct why *why)
{
#define X(number, row) \
	if (!strcmp(name, #row)) \
		return number;
	SELECT_LIST(X)
#undef X
#define X(number, row) " " #row
	(void)err_why(why, ERR_unsupported,
		"there is no selection \"%s\"; this program knows:" SELECT_LIST(X), name);
#undef X
	return 0;
}

static uint32_t find_values(const char *name, struct why *why)
{
#define X(number, kind, row) \
	if (!strcmp(name, #kind)) \
		return number;
	VALUES_LIST(X)
#undef X
#define X(number, kind, row) " " #kind
	(void)err_why(why, ERR_unsupported,
		"there are no values \"%s\"; this program knows:" VALUES_LIST(X), name);
#undef X
	return 0;
}

static enum err check_k(const struct codec_words *w, const struct select_row *row, struct why *why)
{
	if (!row->takes_k && w->k != 0 && w->k != w->chunk)
		return err_why(why, ERR_range,
			"codec.k is %" PRIu32 ", but selection %s keeps all: leave k out", w->k,
			row->name);
	if (row->takes_k && (w->k < 1 || w->k > w->chunk))
		return err_why(why, ERR_range,
			"codec.k must be from 1 to codec.chunk (%" PRIu32 "), is %" PRIu32,
			w->chunk, w->k);
	return ERR_OK;
}

static enum err check_threshold(
	const struct codec_words *w, const struct select_row *row, struct why *why)
{
	if (!row->takes_threshold && w->threshold != 0)
		return err_why(why, ERR_range,
			"codec.threshold is %g, but selection %s has none: leave it out",
			w->threshold, row->name);
	// As a float, which the header has: less than the smallest one is nothing.
	if (row->takes_threshold && !((float)w->threshold > 0 && w->threshold <= THRESHOLD_MOST))
		return err_why(why, ERR_range,
			"codec.threshold must be above 0 and at most %g, is %g", THRESHOLD_MOST,
			w->threshold);
	return ERR_OK;
}

enum err codec_find(const struct codec_words *words, struct codec_params *out, struct why *why)
{
	uint32_t select = find_select(words->select, why);
	uint32_t values = select ? find_values(words->values, why) : 0;
	if (!values)
		return ERR_unsupported;
	const struct select_row *row = select_row(select);
	if (words->chunk < 1 || words->chunk > CODEC_CHUNK_MAX)
		return err_why(why, ERR_range, "codec.chunk must be from 1 to %u, is %" PRIu32,
			CODEC_CHUNK_MAX, words->chunk);
	if (words->dct && words->chunk != DCT_CHUNK)
		return err_why(why, ERR_range,
			"codec.chunk must be %u (a square of 64 x 64) with codec.dct, is %" PRIu32,
			DCT_CHUNK, words->chunk);
	enum err err = check_k(words, row, why);
	if (!err)
		err = check_threshold(words, row, why);
	if (err)
		return err;
	*out = (struct codec_params){.select = (enum select)select,
		.values = (enum values)values,
		.dct = words->dct,
		.chunk = words->chunk,
		.k = row->takes_k ? words->k : words->chunk,
		.threshold = (float)words->threshold};
	return ERR_OK;
}

/* ---- what it is */

void codec_describe(const struct codec_params *p, char out[static CODEC_NAME_MAX])
{
	const struct select_row *select = select_of(p);
	const struct values_row *values = values_of(p);
	char numbers[40] = "";
	if (select->takes_k)
		snprintf(numbers, sizeof numbers, " %" PRIu32 "/%" PRIu32, p->k, p->chunk);
	else if (values->side && !values->whole)
		snprintf(numbers, sizeof numbers, "/%" PRIu32, p->chunk);
	char threshold[24] = "";
	if (select->takes_threshold)
		snprintf(threshold, sizeof threshold, " from %g", (double)p->threshold);
	snprintf(out, CODEC_NAME_MAX, "%s%s%s%s %s", p->dct ? "dct " : "", select->name, numbers,
		threshold, values->name);
}

uint32_t codec_number(const struct codec_params *p)
{
	return (uint32_t)p->select | (uint32_t)p->values << 8 | (uint32_t)p->dct << 16;
}

bool codec_lossless(const struct codec_params *p)
{
	return p->select == SELECT_all && !p->dct && values_of(p)->lossless;
}

size_t codec_bound(const struct codec_params *p, size_t n)
{
	const struct values_row *row = values_of(p);
	size_t count = chunks_k_all(p, n), chunks = chunks_count(p, n);
	size_t bytes = CODEC_HEADER + codes_bytes(row->bits, count);
	bytes += row->sign ? codes_sign_bytes(count) : 0;
	bytes += row->whole ? row->side : chunks * row->side;
	if (select_of(p)->sends_places)
		bytes += chunks * CODEC_MISSING + count +
			 (count * places_extra_most(p->chunk) + 7) / 8;
	return bytes;
}

/* ---- the header */

void codec_put_header(const struct codec_params *p, size_t n, struct planes *to)
{
	struct buf *b = &to->bytes;
	buf_put_u8(b, (uint8_t)p->select);
	buf_put_u8(b, VERSION);
	buf_put_u8(b, (uint8_t)p->values);
	buf_put_u8(b, p->dct);
	buf_put_u32(b, p->chunk);
	buf_put_u32(b, p->k);
	buf_put_u32(b, floats_bits(p->threshold));
	buf_put_u64(b, p->seed);
	buf_put_u64(b, n);
	planes_end(to);
}

static enum err check_stages(
	const struct codec_params *p, const struct codec_params *says, struct why *why)
{
	if (codec_number(p) == codec_number(says))
		return ERR_OK;
	char wanted[CODEC_NAME_MAX];
	codec_describe(p, wanted);
	return err_why(why, ERR_unsupported,
		"planes are of selection %d and values %d%s, wanted is %s", says->select,
		says->values, says->dct ? " of a DCT" : "", wanted);
}

enum err codec_get_header(const struct codec_params *p, size_t n, struct rd *r,
	struct codec_params *says, struct why *why)
{
	*says = (struct codec_params){.select = (enum select)rd_u8(r)};
	uint32_t version = rd_u8(r);
	says->values = (enum values)rd_u8(r);
	uint32_t dct = rd_u8(r);
	says->dct = dct != 0;
	says->chunk = rd_u32(r);
	says->k = rd_u32(r);
	says->threshold = floats_from(rd_u32(r));
	says->seed = rd_u64(r);
	uint64_t count = rd_u64(r);
	if (!rd_ok(r))
		return err_why(why, ERR_truncated, "planes end inside their header");
	if (version != VERSION)
		return err_why(why, ERR_version,
			"planes are of version %" PRIu32 ", this program reads %u", version,
			VERSION);
	enum err err = check_stages(p, says, why);
	if (err)
		return err;
	const struct select_row *select = select_of(p);
	if (dct > 1 || (!select->takes_seed && says->seed != 0))
		return err_why(why, ERR_syntax, "a reserved field of the planes is not zero");
	bool k_fits = select->takes_k ? says->k >= 1 && says->k <= p->k : says->k == p->k;
	if (says->chunk != p->chunk || !k_fits || count != n ||
		floats_bits(says->threshold) != floats_bits(p->threshold))
		return err_why(why, ERR_shape,
			"planes hold %" PRIu64 " values (k %" PRIu32 " of %" PRIu32
			", threshold %g), wanted are %zu (k %" PRIu32 " of %" PRIu32
			", threshold %g)",
			count, says->k, says->chunk, (double)says->threshold, n, p->k, p->chunk,
			(double)p->threshold);
	return ERR_OK;
}

/* ---- vectors */

enum err codec_open(const struct codec_params *p, size_t n, struct buf *planes,
	struct codec_vector *out, struct why *why)
{
	*out = (struct codec_vector){.n = n};
	struct rd r;
	rd_init(&r, planes->data, planes->len);
	enum err err = codec_get_header(p, n, &r, &out->params, why);
	if (err)
		return err;
	out->planes = *planes;
	err = codec_reader_check(out, why);
	if (err) {
		*out = (struct codec_vector){0};
		return err;
	}
	buf_init(planes, planes->max);
	return ERR_OK;
}

void codec_release(struct codec_vector *v)
{
	if (!v)
		return;
	buf_release(&v->planes);
	*v = (struct codec_vector){0};
}

/* The values of a chunk at their places, zeros elsewhere, as they were before any transform. */
static void spread(const struct codec_chunk *c, bool dct, float *out)
{
	if (c->place) {
		memset(out, 0, c->len * sizeof *out);
		for (uint32_t i = 0; i < c->m; i++)
			out[c->place[i]] = c->value[i];
	} else {
		memcpy(out, c->value, c->len * sizeof *out);
	}
	if (dct)
		dct_inverse(out, c->len);
}

enum err codec_expand(const struct codec_vector *v, float *out)
{
	struct codec_reader *r;
	struct codec_chunk c;
	if (codec_reader_new(v, &r))
		return ERR_nomem;
	while (codec_reader_next(r, &c))
		spread(&c, v->params.dct, out + c.first);
	codec_reader_free(r);
	return ERR_OK;
}

enum err codec_add(const struct codec_vector *v, float factor, float *to)
{
	struct codec_reader *r;
	struct codec_chunk c;
	float square[DCT_CHUNK];
	if (codec_reader_new(v, &r))
		return ERR_nomem;
	while (codec_reader_next(r, &c)) {
		float *at = to + c.first;
		if (v->params.dct) {
			spread(&c, true, square);
			for (uint32_t i = 0; i < c.len; i++)
				at[i] += factor * square[i];
		} else if (c.place) {
			for (uint32_t i = 0; i < c.m; i++)
				at[c.place[i]] += factor * c.value[i];
		} else {
			for (uint32_t i = 0; i < c.len; i++)
				at[i] += factor * c.value[i];
		}
	}
	codec_reader_free(r);
	return ERR_OK;
}
