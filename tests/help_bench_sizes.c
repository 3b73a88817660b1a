#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include "base/alloc.h"
#include "compress/chunks.h"
#include "compress/codes.h"
#include "compress/dct.h"
#include "compress/frame.h"
#include "tests/help_bench.h"
#include "tests/help_bench_codec.h"

#define SYMBOLS 65536u /* of any kind: gaps, numbers of missing values, codes */

const char *const help_bench_plane_names[] = {
#define X(name) [HELP_BENCH_##name] = #name,
	HELP_BENCH_PLANE_LIST(X)
#undef X
};

/* One vector under one codec. */
struct look {
	const struct codec_params *p;
	const struct select_row *select;
	const struct values_row *row;
	const struct help_bench_vector *v;
	struct planes planes;
	enum help_bench_plane kind[PLANES_MAX]; /* of each plane */
	struct codec_vector sent;
	struct help_bench_size *out;
};

static void must(enum err e, const struct why *why)
{
	if (e)
		help_bench_die("%s", why->text);
}

/* ---- entropy */

static double bits_of(const uint32_t *count, size_t n)
{
	double total = 0, sum = 0;
	for (size_t i = 0; i < n; i++) {
		total += count[i];
		sum += count[i] ? count[i] * log2(count[i]) : 0;
	}
	return total > 0 ? total * log2(total) - sum : 0;
}

static double bits_of_bytes(const uint8_t *bytes, size_t n)
{
	uint32_t count[256] = {0};
	for (size_t i = 0; i < n; i++)
		count[bytes[i]]++;
	return bits_of(count, 256);
}

static void add_places(struct look *l)
{
	struct codec_reader *r;
	struct codec_chunk c;
	uint32_t *gaps = alloc_must_zero(SYMBOLS, sizeof *gaps);
	uint32_t *missing = alloc_must_zero(SYMBOLS, sizeof *missing);
	if (codec_reader_new(&l->sent, &r))
		help_bench_die("out of memory");
	while (codec_reader_next(r, &c)) {
		missing[chunks_k(l->p, c.len) - c.m]++;
		for (uint32_t i = 0, next = 0; i < c.m; next = c.place[i++] + 1u)
			gaps[c.place[i] - next]++;
	}
	codec_reader_free(r);
	l->out->plane[HELP_BENCH_missing].entropy += bits_of(missing, SYMBOLS);
	l->out->plane[HELP_BENCH_low_bits].entropy += bits_of(gaps, SYMBOLS);
	free(gaps);
	free(missing);
}

/* from: the codes' first plane, which the signs follow. */
static void add_codes(struct look *l, const uint8_t *from)
{
	size_t m = l->sent.count;
	uint32_t plain[256] = {0}, with_sign[256] = {0};
	uint8_t *codes = alloc_must_zero(m + 1, 1);
	codes_unpack(from, l->row->bits, 0, m, m, codes);
	for (size_t i = 0; i < m; i++)
		plain[codes[i]]++;
	if (l->row->sign)
		codes_unpack_signs(from + codes_bytes(l->row->bits, m), 0, m, codes);
	for (size_t i = 0; i < m; i++)
		with_sign[codes[i]]++;
	free(codes);
	double of_codes = bits_of(plain, 256);
	l->out->plane[HELP_BENCH_codes].entropy += of_codes;
	l->out->plane[HELP_BENCH_signs].entropy += bits_of(with_sign, 256) - of_codes;
}

static void add_entropy(struct look *l)
{
	struct help_bench_plane_size *plane = l->out->plane;
	size_t from = 0;
	if (l->select->sends_places)
		add_places(l);
	for (uint32_t i = 0; i < l->planes.n; from = l->planes.end[i++]) {
		const uint8_t *at = l->planes.bytes.data + from;
		size_t len = l->planes.end[i] - from;
		enum help_bench_plane kind = l->kind[i];
		if (kind == HELP_BENCH_side)
			plane[kind].entropy +=
				l->row->whole ? 8 * (double)len : bits_of_bytes(at, len);
		if (kind == HELP_BENCH_symbols) {
			double symbols = bits_of_bytes(at, len);
			plane[kind].entropy += symbols;
			plane[HELP_BENCH_low_bits].entropy -= symbols;
		}
		if (kind == HELP_BENCH_codes && l->row->bits > 8)
			plane[kind].entropy += bits_of_bytes(at, len);
		else if (kind == HELP_BENCH_codes)
			add_codes(l, at);
	}
}

/* ---- bytes */

static void name_planes(struct look *l)
{
	uint32_t n = 0, sides = l->row->whole ? 1 : l->row->side;
	uint32_t codes = l->row->bits > 8 ? l->row->bits / 8 : 1;
	l->kind[n++] = HELP_BENCH_header;
	if (l->select->sends_places)
		l->kind[n++] = HELP_BENCH_missing;
	for (uint32_t i = 0; i < sides; i++)
		l->kind[n++] = HELP_BENCH_side;
	if (l->select->sends_places) {
		l->kind[n++] = HELP_BENCH_symbols;
		l->kind[n++] = HELP_BENCH_low_bits;
	}
	for (uint32_t i = 0; i < codes; i++)
		l->kind[n++] = HELP_BENCH_codes;
	if (l->row->sign)
		l->kind[n++] = HELP_BENCH_signs;
	if (n != l->planes.n)
		help_bench_die("a codec has %u planes, bench_codec knows %u", l->planes.n, n);
}

static double frame_bytes(const struct planes *p)
{
	struct buf frame;
	buf_init(&frame, frame_bound(p->bytes.len));
	if (frame_pack(p, &frame))
		help_bench_die("out of memory");
	double len = (double)frame.len;
	buf_release(&frame);
	return len;
}

/* A plane's share is what a frame grows by when it is added. */
static void add_framed(struct look *l)
{
	double before = 0;
	for (uint32_t i = 0; i < l->planes.n; i++) {
		struct planes first = l->planes;
		first.n = i + 1;
		first.bytes.len = l->planes.end[i];
		double now = frame_bytes(&first);
		l->out->plane[l->kind[i]].framed += now - before;
		before = now;
	}
}

/* The same planes with zstd's usual settings of a level. */
static void add_level(struct look *l, int level, double *const to[HELP_BENCH_PLANES])
{
	ZSTD_CCtx *z = ZSTD_createCCtx();
	size_t room = frame_bound(l->planes.bytes.len), from = 0;
	uint8_t *bytes = alloc_must(room);
	ZSTD_outBuffer out = {bytes, room, 0};
	ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setPledgedSrcSize(z, l->planes.bytes.len);
	for (uint32_t i = 0; i < l->planes.n; from = l->planes.end[i++]) {
		ZSTD_inBuffer in = {l->planes.bytes.data + from, l->planes.end[i] - from, 0};
		size_t before = out.pos;
		if (ZSTD_compressStream2(
			    z, &out, &in, i + 1 == l->planes.n ? ZSTD_e_end : ZSTD_e_flush) != 0)
			help_bench_die("zstd failed at level %d", level);
		*to[l->kind[i]] += (double)(out.pos - before);
	}
	free(bytes);
	ZSTD_freeCCtx(z);
}

static void add_bytes(struct look *l)
{
	double *one[HELP_BENCH_PLANES], *three[HELP_BENCH_PLANES];
	size_t from = 0;
	for (int k = 0; k < HELP_BENCH_PLANES; k++) {
		one[k] = &l->out->plane[k].level1;
		three[k] = &l->out->plane[k].level3;
	}
	for (uint32_t i = 0; i < l->planes.n; from = l->planes.end[i++])
		l->out->plane[l->kind[i]].bytes += (double)(l->planes.end[i] - from);
	add_framed(l);
	add_level(l, 1, one);
	add_level(l, 3, three);
}

/* ---- errors */

static void add_square(double x, double *sum)
{
	*sum += x * x;
}

static void add_kept_error(struct look *l)
{
	struct codec_reader *r;
	struct codec_chunk c;
	float *whole = alloc_must(SELECT_CHUNK_MAX * sizeof *whole);
	if (codec_reader_new(&l->sent, &r))
		help_bench_die("out of memory");
	while (codec_reader_next(r, &c)) {
		memcpy(whole, l->v->v + c.first, c.len * sizeof *whole);
		if (l->p->dct)
			dct_forward(whole, c.len);
		for (uint32_t i = 0; i < c.m; i++) {
			double x = (double)whole[c.place ? c.place[i] : i];
			add_square(x, &l->out->kept_norm);
			add_square(x - (double)c.value[i], &l->out->kept_error);
		}
	}
	codec_reader_free(r);
	free(whole);
}

static void add_error(struct look *l)
{
	const float *v = l->v->v;
	float *back = alloc_must(l->v->n * sizeof *back);
	if (codec_expand(&l->sent, back))
		help_bench_die("out of memory");
	for (size_t i = 0; i < l->v->n; i++) {
		add_square((double)v[i], &l->out->norm);
		add_square((double)v[i] - (double)back[i], &l->out->error);
	}
	free(back);
	add_kept_error(l);
}

/* ---- all vectors */

static void look_at(struct look *l)
{
	struct why why = {0};
	struct buf copy;
	size_t bound = codec_bound(l->p, l->v->n);
	planes_init(&l->planes, bound);
	must(codec_encode(l->p, l->v->v, l->v->n, NULL, &l->planes, &why), &why);
	buf_init(&copy, bound);
	buf_put(&copy, l->planes.bytes.data, l->planes.bytes.len);
	must(codec_open(l->p, l->v->n, &copy, &l->sent, &why), &why);
	l->out->n += l->v->n;
	l->out->kept += l->sent.count;
	name_planes(l);
	add_bytes(l);
	add_entropy(l);
	add_error(l);
	buf_release(&copy);
	codec_release(&l->sent);
	planes_release(&l->planes);
}

void help_bench_size(const struct codec_params *p, const struct help_bench_vectors *v,
	struct help_bench_size *out)
{
	struct look l = {
		.p = p, .select = select_row(p->select), .row = values_row(p->values), .out = out};
	*out = (struct help_bench_size){0};
	for (size_t i = 0; i < v->count; i++) {
		l.v = &v->at[i];
		look_at(&l);
	}
	for (int k = 0; k < HELP_BENCH_PLANES; k++) {
		out->all.bytes += out->plane[k].bytes;
		out->all.framed += out->plane[k].framed;
		out->all.level1 += out->plane[k].level1;
		out->all.level3 += out->plane[k].level3;
		out->all.entropy += out->plane[k].entropy;
	}
}
