#include "compress/codec.h"
#include <inttypes.h>
#include <string.h>
#include "compress/floats.h"

#define HEADER 24u
#define VERSION 1u

static const struct codec_row *const rows[] = {
#define X(number, name) [number] = &codec_##name,
	CODEC_LIST(X)
#undef X
};
#define N_ROWS (sizeof rows / sizeof rows[0])

const struct codec_row *codec_row(uint32_t number)
{
	return number < N_ROWS ? rows[number] : NULL;
}

static enum err unknown(const char *name, struct why *why)
{
	struct buf list;
	buf_init(&list, 1000);
	for (size_t i = 0; i < N_ROWS; i++)
		if (rows[i])
			buf_printf(&list, " %s", rows[i]->name);
	buf_put_u8(&list, 0);
	enum err err =
		err_why(why, ERR_unsupported, "there is no codec \"%s\"; this program knows:%s",
			name, buf_ok(&list) ? (const char *)list.data : " others");
	buf_release(&list);
	return err;
}

enum err codec_find(
	const char *name, uint32_t chunk, uint32_t k, struct codec_params *out, struct why *why)
{
	uint32_t number = 0;
	while (number < N_ROWS && !(rows[number] && !strcmp(rows[number]->name, name)))
		number++;
	if (number == N_ROWS)
		return unknown(name, why);
	*out = (struct codec_params){.codec = (enum codec)number};
	if (!rows[number]->sparse)
		return ERR_OK;
	if (chunk < 1 || chunk > CODEC_CHUNK_MAX)
		return err_why(why, ERR_range, "codec.chunk must be from 1 to %u, is %" PRIu32,
			CODEC_CHUNK_MAX, chunk);
	if (k < 1 || k > chunk)
		return err_why(why, ERR_range,
			"codec.k must be from 1 to codec.chunk (%" PRIu32 "), is %" PRIu32, chunk,
			k);
	out->chunk = chunk;
	out->k = k;
	return ERR_OK;
}

size_t codec_bound(const struct codec_params *p, size_t n)
{
	return HEADER + rows[p->codec]->bound(p, n);
}

/* ---- encoding */

static enum err check_input(const float *v, size_t n, struct why *why)
{
	if (n < 1 || n > CODEC_N_MAX)
		return err_why(why, ERR_range, "a vector has from 1 to %zu values, not %zu",
			CODEC_N_MAX, n);
	for (size_t i = 0; i < n; i++)
		if (!floats_finite(v[i]))
			return err_why(why, ERR_not_finite, "value %zu of %zu is %s", i, n,
				v[i] != v[i] ? "NaN" : "infinite");
	return ERR_OK;
}

static void put_header(const struct codec_params *p, size_t n, struct planes *to)
{
	struct buf *b = &to->bytes;
	buf_put_u8(b, (uint8_t)p->codec);
	buf_put_u8(b, VERSION);
	buf_put_u16(b, 0);
	buf_put_u32(b, p->chunk);
	buf_put_u32(b, p->k);
	buf_put_u32(b, 0);
	buf_put_u64(b, n);
	planes_end(to);
}

enum err codec_encode(
	const struct codec_params *p, const float *v, size_t n, struct planes *to, struct why *why)
{
	enum err err = check_input(v, n, why);
	if (err)
		return err;
	planes_clear(to);
	put_header(p, n, to);
	err = rows[p->codec]->encode(p, v, n, to);
	if (!err && buf_ok(&to->bytes))
		return ERR_OK;
	if (!err && to->bytes.max < codec_bound(p, n))
		return err_why(
			why, ERR_toobig, "%zu values do not fit into %zu bytes", n, to->bytes.max);
	return err_why(why, ERR_nomem, "no memory to encode %zu values", n);
}

/* ---- decoding */

static enum err check_header(const struct codec_params *p, size_t n, struct rd *r, struct why *why)
{
	uint32_t codec = rd_u8(r), version = rd_u8(r), zero = rd_u16(r);
	uint32_t chunk = rd_u32(r), k = rd_u32(r);
	zero |= rd_u32(r);
	uint64_t count = rd_u64(r);
	if (!rd_ok(r))
		return err_why(why, ERR_truncated, "planes end inside their header");
	if (codec != p->codec)
		return err_why(why, ERR_unsupported,
			"planes are of codec number %" PRIu32 ", wanted is %s", codec,
			rows[p->codec]->name);
	if (version != VERSION)
		return err_why(why, ERR_version,
			"planes are of version %" PRIu32 ", this program reads %u", version,
			VERSION);
	if (zero)
		return err_why(why, ERR_syntax, "a reserved field of the planes is not zero");
	if (chunk != p->chunk || k != p->k || count != n)
		return err_why(why, ERR_shape,
			"planes hold %" PRIu64 " values (chunk %" PRIu32 ", k %" PRIu32
			"), wanted are %zu (chunk %" PRIu32 ", k %" PRIu32 ")",
			count, chunk, k, n, p->chunk, p->k);
	return ERR_OK;
}

enum err codec_decode(const struct codec_params *p, size_t n, const struct buf *planes,
	struct decoded *out, struct why *why)
{
	*out = (struct decoded){0};
	struct rd r;
	rd_init(&r, planes->data, planes->len);
	enum err err = check_header(p, n, &r, why);
	if (!err)
		err = rows[p->codec]->decode(p, n, &r, out, why);
	if (!err && rd_left(&r) > 0)
		err = err_why(why, ERR_syntax, "%zu bytes follow the last plane", rd_left(&r));
	if (err)
		decoded_release(out);
	return err;
}
