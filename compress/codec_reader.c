#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "compress/chunks.h"
#include "compress/codec.h"
#include "compress/codec_parts.h"
#include "compress/codes.h"
#include "compress/places.h"

#define CODES_WHOLE 256u /* kinds of values whose group is the vector have at most 8 bits */

struct codec_reader {
	const struct codec_params *p;
	const struct select_row *select;
	const struct values_row *row;
	size_t n, count, chunks;
	/* the planes */
	const uint8_t *missing, *side, *symbol, *codes, *signs;
	struct bits_in extra;
	/* where it stands */
	size_t chunk, at; /* chunks and kept values read */
	/* the chunk that was read */
	uint16_t *place;
	float *value;
	uint8_t *code, *group; /* codes, and the bytes beside them */
	/* where all values are one group: what each code stands for, and which occur */
	float table[CODES_WHOLE];
	bool used[CODES_WHOLE];
};

/* ---- finding the planes */

static uint32_t kept_of(const struct codec_reader *r, size_t chunk)
{
	uint32_t k = chunks_k(r->p, chunks_len(r->p, r->n, chunk)), missing = 0;
	for (unsigned byte = 0; byte < CODEC_MISSING && r->missing; byte++)
		missing |= (uint32_t)r->missing[byte * r->chunks + chunk] << 8 * byte;
	return missing <= k ? k - missing : UINT32_MAX;
}

static enum err count_kept(struct codec_reader *r, struct why *why)
{
	for (size_t i = 0; i < r->chunks; i++) {
		uint32_t m = kept_of(r, i);
		if (m == UINT32_MAX)
			return err_why(why, ERR_syntax,
				"chunk %zu keeps fewer values than none of its k", i);
		r->count += m;
	}
	return ERR_OK;
}

static enum err find_planes(struct codec_reader *r, const struct buf *planes, struct why *why)
{
	struct rd rd;
	rd_init(&rd, planes->data + CODEC_HEADER, planes->len - CODEC_HEADER);
	if (r->select->sends_places)
		r->missing = rd_bytes(&rd, CODEC_MISSING * r->chunks);
	if (!rd_ok(&rd))
		return err_why(why, ERR_truncated, "%zu bytes are too few for %zu chunks",
			planes->len, r->chunks);
	enum err err = count_kept(r, why);
	if (err)
		return err;
	size_t codes = codes_bytes(r->row->bits, r->count);
	size_t signs = r->row->sign ? codes_sign_bytes(r->count) : 0;
	r->side = rd_bytes(&rd, r->row->whole ? r->row->side : r->chunks * r->row->side);
	if (r->select->sends_places)
		r->symbol = rd_bytes(&rd, r->count);
	if (!rd_ok(&rd) || rd_left(&rd) < codes + signs)
		return err_why(why, ERR_truncated, "%zu bytes are too few for %zu kept values",
			planes->len, r->count);
	size_t extra = rd_left(&rd) - codes - signs;
	if (!r->select->sends_places && extra > 0)
		return err_why(why, ERR_syntax, "%zu bytes follow the last plane", extra);
	bits_in_init(&r->extra, rd_bytes(&rd, extra), extra);
	r->codes = rd_bytes(&rd, codes);
	r->signs = rd_bytes(&rd, signs);
	if (!codes_clean(r->codes, r->row->bits, r->count) ||
		(signs && !codes_signs_clean(r->signs, r->count)))
		return err_why(why, ERR_syntax, "what fills up codes or signs is not zero");
	return ERR_OK;
}

/* ---- chunks */

static enum err read_places(struct codec_reader *r, uint32_t len, uint32_t m, struct why *why)
{
	if (r->select->sends_places) {
		if (!places_get(r->symbol + r->at, m, len, &r->extra, r->place))
			return err_why(why, ERR_syntax, "places of chunk %zu leave it or end early",
				r->chunk);
		return ERR_OK;
	}
	const struct select_from from = {.len = len, .k = m, .chunk = r->chunk, .seed = r->p->seed};
	if (r->select->choose)
		r->select->choose(&from, r->place);
	return ERR_OK;
}

static bool all_zero(const uint8_t *bytes, size_t n)
{
	while (n > 0 && bytes[n - 1] == 0)
		n--;
	return n == 0;
}

static enum err read_values(struct codec_reader *r, uint32_t m, struct why *why)
{
	codes_unpack(r->codes, r->row->bits, r->at, m, r->count, r->code);
	if (r->row->sign)
		codes_unpack_signs(r->signs, r->at, m, r->code);
	for (uint32_t i = 0; i < m && r->row->whole; i++) {
		r->value[i] = r->table[r->code[i]];
		r->used[r->code[i]] = true;
	}
	if (r->row->whole)
		return ERR_OK;
	for (unsigned byte = 0; byte < r->row->side; byte++)
		r->group[byte] = r->side[byte * r->chunks + r->chunk];
	if (m > 0)
		return r->row->decode(r->code, m, r->group, r->value, why);
	if (all_zero(r->group, r->row->side))
		return ERR_OK;
	return err_why(why, ERR_syntax, "chunk %zu keeps nothing and has a scale", r->chunk);
}

/* What each code of a group that is the whole vector stands for. */
static enum err read_table(struct codec_reader *r, struct why *why)
{
	uint8_t every[CODES_WHOLE];
	for (unsigned i = 0; i < CODES_WHOLE; i++)
		every[i] = (uint8_t)i;
	if (!r->row->whole)
		return ERR_OK;
	return r->row->decode(every, (size_t)1 << r->row->bits, r->side, r->table, why);
}

/* After all has been read: the means of bins that nothing fell into, and without any value of all,
 * are 0. */
static enum err check_whole(const struct codec_reader *r, struct why *why)
{
	if (!r->row->whole || (r->count > 0 ? r->row->is_least(r->side, r->used)
					    : all_zero(r->side, r->row->side)))
		return ERR_OK;
	return err_why(why, ERR_syntax, "a code that no value has stands for something");
}

static enum err read_chunk(struct codec_reader *r, struct codec_chunk *out, struct why *why)
{
	uint32_t len = chunks_len(r->p, r->n, r->chunk), m = kept_of(r, r->chunk);
	enum err err = read_places(r, len, m, why);
	if (!err)
		err = read_values(r, m, why);
	*out = (struct codec_chunk){.first = r->chunk * r->p->chunk,
		.len = len,
		.m = m,
		.place = r->select->choose ? r->place : NULL,
		.value = r->value};
	r->chunk++;
	r->at += m;
	return err;
}

/* ---- life */

static enum err open_reader(
	const struct codec_vector *v, struct codec_reader **out, struct why *why)
{
	struct codec_reader *r = alloc_try(1, sizeof *r);
	*out = r;
	if (!r)
		return err_why(why, ERR_nomem, "no memory to read a vector");
	*r = (struct codec_reader){.p = &v->params,
		.select = select_row(v->params.select),
		.row = values_row(v->params.values),
		.n = v->n,
		.chunks = chunks_count(&v->params, v->n)};
	enum err err = find_planes(r, &v->planes, why);
	if (err)
		return err;
	r->place = alloc_try(r->p->chunk, sizeof *r->place);
	r->value = alloc_try(r->p->chunk, sizeof *r->value);
	r->code = alloc_try(r->p->chunk, values_width(r->row));
	r->group = alloc_try(VALUES_SIDE_MAX, 1);
	if (!r->place || !r->value || !r->code || !r->group)
		return err_why(why, ERR_nomem, "no memory to read a vector");
	return read_table(r, why);
}

void codec_reader_free(struct codec_reader *r)
{
	if (!r)
		return;
	free(r->place);
	free(r->value);
	free(r->code);
	free(r->group);
	free(r);
}

enum err codec_reader_new(const struct codec_vector *v, struct codec_reader **out)
{
	struct why why;
	enum err err = open_reader(v, out, &why);
	if (err) {
		codec_reader_free(*out);
		*out = NULL;
	}
	return err;
}

bool codec_reader_next(struct codec_reader *r, struct codec_chunk *out)
{
	struct why why;
	// The planes were read once already (codec_reader_check): nothing can be wrong.
	return r->chunk < r->chunks && read_chunk(r, out, &why) == ERR_OK;
}

enum err codec_reader_check(struct codec_vector *v, struct why *why)
{
	struct codec_reader *r;
	struct codec_chunk c;
	enum err err = open_reader(v, &r, why);
	double sum = 0;
	while (!err && r->chunk < r->chunks) {
		err = read_chunk(r, &c, why);
		for (uint32_t i = 0; i < c.m && !err; i++)
			sum += (double)c.value[i] * (double)c.value[i];
	}
	if (!err && r->select->sends_places && !bits_in_done(&r->extra))
		err = err_why(why, ERR_syntax, "something follows the last place");
	if (!err)
		err = check_whole(r, why);
	if (r)
		v->count = r->count;
	v->norm_squared = sum;
	codec_reader_free(r);
	return err;
}
