#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "compress/frame.h"
#include "model/half.h"
#include "tests/help_bench.h"
#include "tests/help_bench_codec.h"

struct help_bench_spread help_bench_spread(double x[static HELP_BENCH_RUNS])
{
	double median = help_bench_median(x, HELP_BENCH_RUNS);
	return (struct help_bench_spread){median, x[0], x[HELP_BENCH_RUNS - 1]};
}

static void must(enum err e, const struct why *why)
{
	if (e)
		help_bench_die("%s", why->text);
}

/* ---- codecs */

static double lap(uint64_t *since)
{
	uint64_t now = clock_now_ns();
	double seconds = (double)(now - *since) / 1e9;
	*since = now;
	return seconds;
}

struct work {
	struct planes planes;
	struct buf frame;
	float *to;
};

static void time_vector(const struct codec_params *p, const struct help_bench_vector *v,
	struct work *w, struct help_bench_seconds *s)
{
	struct why why = {0};
	struct codec_vector sent;
	struct buf planes;
	buf_clear(&w->frame);
	buf_init(&planes, codec_bound(p, v->n));
	uint64_t since = clock_now_ns();
	must(codec_encode(p, v->v, v->n, NULL, &w->planes, &why), &why);
	s->encode += lap(&since);
	if (frame_pack(&w->planes, &w->frame))
		help_bench_die("out of memory");
	s->pack += lap(&since);
	must(frame_unpack(w->frame.data, w->frame.len, &planes, &why), &why);
	s->unpack += lap(&since);
	must(codec_open(p, v->n, &planes, &sent, &why), &why);
	if (codec_add(&sent, 1, w->to))
		help_bench_die("out of memory");
	s->decode += lap(&since);
	codec_release(&sent);
}

struct help_bench_seconds help_bench_time(
	const struct codec_params *p, const struct help_bench_vectors *v)
{
	struct help_bench_seconds s = {0};
	struct work w;
	size_t largest = 0;
	for (size_t i = 0; i < v->count; i++)
		largest = v->at[i].n > largest ? v->at[i].n : largest;
	planes_init(&w.planes, codec_bound(p, largest));
	buf_init(&w.frame, frame_bound(codec_bound(p, largest)));
	w.to = alloc_must_zero(largest, sizeof *w.to);
	memset(w.to, 0, largest * sizeof *w.to); // every page is there before the clock starts
	for (size_t i = 0; i < v->count; i++)
		time_vector(p, &v->at[i], &w, &s);
	planes_release(&w.planes);
	buf_release(&w.frame);
	free(w.to);
	return s;
}

/* ---- zstd alone */

static json_t *time_zstd(const char *what, const void *bytes, size_t n, int level)
{
	size_t room = ZSTD_compressBound(n), len = 0;
	uint8_t *packed = alloc_must(room), *back = alloc_must(n);
	double to[HELP_BENCH_RUNS], from[HELP_BENCH_RUNS];
	for (int i = 0; i < HELP_BENCH_RUNS; i++) {
		uint64_t since = clock_now_ns();
		len = ZSTD_compress(packed, room, bytes, n, level);
		to[i] = (double)n / 1e6 / lap(&since);
		size_t got = ZSTD_isError(len) ? 0 : ZSTD_decompress(back, n, packed, len);
		from[i] = (double)n / 1e6 / lap(&since);
		if (got != n || memcmp(back, bytes, n) != 0)
			help_bench_die("zstd failed at level %d", level);
	}
	free(packed);
	free(back);
	struct help_bench_spread a = help_bench_spread(to), b = help_bench_spread(from);
	double ratio = (double)n / (double)len;
	printf("%-8s %5d %7.3f %9.1f (%.1f to %.1f) %9.1f (%.1f to %.1f)\n", what, level, ratio,
		a.median, a.least, a.most, b.median, b.least, b.most);
	fflush(stdout);
	return json_pack("{s:s,s:i,s:f,s:f,s:f}", "of", what, "level", level, "ratio", ratio,
		"pack_mb_s", a.median, "unpack_mb_s", b.median);
}

json_t *help_bench_zstd(const struct help_bench_vector *v)
{
	static const int levels[] = {1, 3, 9, 19};
	enum { LEVELS = sizeof levels / sizeof *levels };
	uint16_t *half = alloc_must(v->n * sizeof *half);
	json_t *rows = json_array();
	for (size_t i = 0; i < v->n; i++)
		half[i] = half_to_f16(v->v[i]);
	printf("\nzstd alone on %zu values of round %u\n", v->n, v->round);
	printf("%-8s %5s %7s %9s %20s\n", "of", "level", "ratio", "MB/s", "MB/s back");
	for (int i = 0; i < LEVELS; i++)
		json_array_append_new(
			rows, time_zstd("float32", v->v, v->n * sizeof *v->v, levels[i]));
	for (int i = 0; i < LEVELS; i++)
		json_array_append_new(
			rows, time_zstd("float16", half, v->n * sizeof *half, levels[i]));
	free(half);
	return rows;
}
