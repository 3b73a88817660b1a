#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "compress/codec.h"
#include "compress/floats.h"
#include "compress/golomb.h"
#include "compress/topk.h"

/*
 * The k largest of every chunk, each as a sign and one of two magnitudes that the chunk has.  A
 * magnitude has 8 bits of exponent and 4 of mantissa, a code of 12 bits: its error is far below
 * that of having only two.
 */
#define LEVEL_SHIFT 19
#define LEVEL_LEAST (FLOATS_NORMAL >> LEVEL_SHIFT)
#define LEVEL_MOST ((FLOATS_INFINITE >> LEVEL_SHIFT) - 1)
#define SIGN 1u
#define UPPER 2u

/* What is known of all chunks before the planes are written, or after they are read. */
struct chunks {
	size_t n;        /* values */
	size_t count;    /* chunks */
	size_t kept;     /* values kept in all of them */
	uint32_t *m;     /* kept in each */
	uint16_t *lower; /* code of the smaller magnitude of each */
	uint16_t *upper; /* of the larger */
	uint16_t *place; /* within the chunk, of every kept value */
	uint8_t *flags;  /* SIGN, UPPER */
};

static void release(struct chunks *c)
{
	free(c->m);
	free(c->lower);
	free(c->upper);
	free(c->place);
	free(c->flags);
}

static size_t chunks_of(const struct codec_params *p, size_t n)
{
	return (n + p->chunk - 1) / p->chunk;
}

static uint32_t chunk_len(const struct codec_params *p, size_t n, size_t chunk)
{
	size_t left = n - chunk * p->chunk;
	return left < p->chunk ? (uint32_t)left : p->chunk;
}

/* How many of so many values are kept: the last chunk keeps its share, rounded up. */
static uint32_t chunk_k(const struct codec_params *p, uint32_t len)
{
	return (uint32_t)(((uint64_t)p->k * len + p->chunk - 1) / p->chunk);
}

static size_t bound(const struct codec_params *p, size_t n)
{
	size_t count = chunks_of(p, n), whole = n / p->chunk;
	size_t kept = whole * p->k, bits = whole * golomb_bound(p->chunk, p->k);
	if (count > whole) {
		uint32_t len = chunk_len(p, n, whole);
		kept += chunk_k(p, len);
		bits += golomb_bound(len, chunk_k(p, len));
	}
	return 8 * count + (bits + 7) / 8 + 2 * ((kept + 7) / 8);
}

/* ---- encoding */

static uint16_t level_of(double magnitude)
{
	uint32_t bits = floats_bits((float)magnitude);
	uint32_t half = ((uint32_t)1 << (LEVEL_SHIFT - 1)) - 1 + (bits >> LEVEL_SHIFT & 1);
	uint32_t level = (bits + half) >> LEVEL_SHIFT;
	return (uint16_t)(level < LEVEL_MOST ? level : LEVEL_MOST);
}

/* The places, signs and levels of one chunk; at points to where they begin. */
static void encode_chunk(
	const float *v, uint32_t len, struct chunks *c, size_t chunk, uint32_t *keys)
{
	uint16_t *place = c->place + c->kept;
	uint8_t *flags = c->flags + c->kept;
	uint32_t m = topk_select(v, len, c->m[chunk], place);
	c->m[chunk] = m;
	c->kept += m;
	for (uint32_t i = 0; i < m; i++)
		keys[i] = floats_magnitude(v[place[i]]);
	struct topk_levels levels = topk_levels(keys, m);
	c->lower[chunk] = m ? level_of(levels.lower) : 0;
	c->upper[chunk] = m ? level_of(levels.upper) : 0;
	bool two = c->upper[chunk] != c->lower[chunk];
	for (uint32_t i = 0; i < m; i++) {
		bool upper = two && floats_magnitude(v[place[i]]) >= levels.upper_from;
		flags[i] = (uint8_t)((floats_bits(v[place[i]]) >> 31 ? SIGN : 0) |
				     (upper ? UPPER : 0));
	}
}

static void put_gaps(const struct codec_params *p, const struct chunks *c, struct buf *to)
{
	struct bits_out bits;
	bits_out_init(&bits, to);
	const uint16_t *place = c->place;
	for (size_t i = 0; i < c->count; place += c->m[i++]) {
		if (c->m[i] == 0)
			continue;
		struct golomb g = golomb_for(chunk_len(p, c->n, i), c->m[i]);
		uint32_t next = 0;
		for (uint32_t j = 0; j < c->m[i]; j++) {
			golomb_put(&g, &bits, place[j] - next);
			next = place[j] + 1u;
		}
	}
	bits_out_end(&bits);
}

static void put_flags(const struct chunks *c, unsigned flag, struct buf *to)
{
	struct bits_out bits;
	bits_out_init(&bits, to);
	for (size_t i = 0; i < c->kept; i++)
		bits_put(&bits, (c->flags[i] & flag) != 0, 1);
	bits_out_end(&bits);
}

static void put_planes(const struct codec_params *p, const struct chunks *c, struct planes *to)
{
	for (size_t i = 0; i < c->count; i++)
		buf_put_u32(&to->bytes, chunk_k(p, chunk_len(p, c->n, i)) - c->m[i]);
	planes_end(to);
	for (unsigned byte = 0; byte < 4; byte++) {
		for (size_t i = 0; i < c->count; i++) {
			uint32_t code = byte < 2 ? c->lower[i] : c->upper[i] - c->lower[i];
			buf_put_u8(&to->bytes, (uint8_t)(code >> 8 * (byte & 1)));
		}
		planes_end(to);
	}
	put_gaps(p, c, &to->bytes);
	planes_end(to);
	put_flags(c, SIGN, &to->bytes);
	planes_end(to);
	put_flags(c, UPPER, &to->bytes);
	planes_end(to);
}

static bool alloc_chunks(struct chunks *c)
{
	c->m = alloc_try(c->count, sizeof *c->m);
	c->lower = alloc_try(c->count, sizeof *c->lower);
	c->upper = alloc_try(c->count, sizeof *c->upper);
	return c->m && c->lower && c->upper;
}

static enum err encode(const struct codec_params *p, const float *v, size_t n, struct planes *to)
{
	struct chunks c = {.n = n, .count = chunks_of(p, n)};
	size_t most = (n / p->chunk + 1) * p->k;
	uint32_t *keys = alloc_try(p->k, sizeof *keys);
	c.place = alloc_try(most, sizeof *c.place);
	c.flags = alloc_try(most, sizeof *c.flags);
	bool ok = alloc_chunks(&c) && keys && c.place && c.flags;
	for (size_t i = 0; i < c.count && ok; i++) {
		c.m[i] = chunk_k(p, chunk_len(p, n, i));
		encode_chunk(v + i * p->chunk, chunk_len(p, n, i), &c, i, keys);
	}
	if (ok)
		put_planes(p, &c, to);
	free(keys);
	release(&c);
	return ok ? ERR_OK : ERR_nomem;
}

/* ---- decoding */

/* The planes that have something for every chunk. */
static enum err get_chunks(
	const struct codec_params *p, struct rd *from, struct chunks *c, struct why *why)
{
	if (rd_left(from) / 8 < c->count)
		return err_why(why, ERR_truncated, "%zu bytes are too few for %zu chunks",
			rd_left(from), c->count);
	if (!alloc_chunks(c))
		return err_why(why, ERR_nomem, "no memory for %zu chunks", c->count);
	for (size_t i = 0; i < c->count; i++) {
		uint32_t k = chunk_k(p, chunk_len(p, c->n, i)), missing = rd_u32(from);
		if (missing > k)
			return err_why(why, ERR_syntax,
				"chunk %zu keeps %" PRIu32 " values less than its %" PRIu32, i,
				missing, k);
		c->m[i] = k - missing;
		c->kept += c->m[i];
	}
	const uint8_t *level = rd_bytes(from, 4 * c->count);
	for (size_t i = 0; i < c->count; i++) {
		uint32_t lower = level[i] | (uint32_t)level[c->count + i] << 8;
		uint32_t step = level[2 * c->count + i] | (uint32_t)level[3 * c->count + i] << 8;
		bool fits = c->m[i] ? lower >= LEVEL_LEAST && lower + step <= LEVEL_MOST
				    : lower == 0 && step == 0;
		if (!fits)
			return err_why(why, ERR_syntax,
				"chunk %zu of %" PRIu32 " values has the magnitudes 0x%" PRIx32
				" and 0x%" PRIx32,
				i, c->m[i], lower, lower + step);
		c->lower[i] = (uint16_t)lower;
		c->upper[i] = (uint16_t)(lower + step);
	}
	return ERR_OK;
}

/* The planes that have something for every kept value. */
struct kept_planes {
	struct bits_in gaps, signs, levels;
};

static enum err open_planes(
	const struct chunks *c, struct rd *from, struct kept_planes *k, struct why *why)
{
	size_t flag_bytes = (c->kept + 7) / 8, left = rd_left(from);
	// A gap has at least one bit, so that what follows is bounded by what has come.
	if (left < 3 * flag_bytes)
		return err_why(why, ERR_truncated, "%zu bytes are too few for %zu kept values",
			left, c->kept);
	size_t gap_bytes = left - 2 * flag_bytes;
	bits_in_init(&k->gaps, rd_bytes(from, gap_bytes), gap_bytes);
	bits_in_init(&k->signs, rd_bytes(from, flag_bytes), flag_bytes);
	bits_in_init(&k->levels, rd_bytes(from, flag_bytes), flag_bytes);
	return ERR_OK;
}

struct one_chunk {
	uint32_t first; /* its first value's place in the vector */
	uint32_t len, m;
	uint16_t lower, upper;
};

static enum err get_chunk(const struct one_chunk *c, struct kept_planes *k, uint32_t *index,
	float *value, struct why *why)
{
	struct golomb g = golomb_for(c->len, c->m);
	uint32_t next = 0, n_upper = 0;
	for (uint32_t j = 0; j < c->m; j++) {
		if (next >= c->len)
			return err_why(why, ERR_syntax, "places leave their chunk");
		uint32_t gap = golomb_get(&g, &k->gaps, c->len - 1 - next);
		if (k->gaps.failed)
			return err_why(why, ERR_syntax, "places leave their chunk or end early");
		index[j] = c->first + next + gap;
		next += gap + 1;
		uint32_t sign = bits_get(&k->signs, 1), upper = bits_get(&k->levels, 1);
		uint32_t level = upper ? c->upper : c->lower;
		n_upper += upper;
		value[j] = floats_from(level << LEVEL_SHIFT | sign << 31);
	}
	bool two = c->upper != c->lower;
	if (two ? n_upper == 0 || n_upper == c->m : n_upper != 0)
		return err_why(why, ERR_syntax, "a chunk's magnitudes are not those it uses");
	return ERR_OK;
}

static enum err get_kept(const struct codec_params *p, const struct chunks *c,
	struct kept_planes *k, struct decoded *out, struct why *why)
{
	size_t at = 0;
	for (size_t i = 0; i < c->count; at += c->m[i++]) {
		if (c->m[i] == 0)
			continue;
		struct one_chunk one = {(uint32_t)(i * p->chunk), chunk_len(p, c->n, i), c->m[i],
			c->lower[i], c->upper[i]};
		enum err err = get_chunk(&one, k, out->index + at, out->value + at, why);
		if (err)
			return err;
	}
	if (!bits_in_done(&k->gaps) || !bits_in_done(&k->signs) || !bits_in_done(&k->levels))
		return err_why(why, ERR_syntax, "something follows the last kept value");
	return ERR_OK;
}

static enum err decode(const struct codec_params *p, size_t n, struct rd *from, struct decoded *out,
	struct why *why)
{
	struct chunks c = {.n = n, .count = chunks_of(p, n)};
	struct kept_planes planes;
	enum err err = get_chunks(p, from, &c, why);
	if (!err)
		err = open_planes(&c, from, &planes, why);
	if (!err)
		err = decoded_init(out, n, c.kept, true, why);
	if (!err)
		err = get_kept(p, &c, &planes, out, why);
	release(&c);
	return err;
}

const struct codec_row codec_topk2 = {
	.name = "topk2",
	.feedback = true,
	.sparse = true,
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
