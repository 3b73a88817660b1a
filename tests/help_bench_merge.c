#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "compress/frame.h"
#include "compress/merge.h"
#include "tests/help_bench.h"
#include "tests/help_bench_codec.h"

static const enum values kinds[] = {VALUES_int8, VALUES_int4};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Contributions of one round, as they are sent. */
struct sent {
	struct codec_params codec;
	struct merge_input *inputs;
	struct codec_vector *vectors;
	size_t count, n;
	size_t *planes, *framed; /* bytes of each */
};

/* What they come to as one vector. */
struct merged {
	size_t planes, framed, kept;
	double relerr; /* against the same quotients in double precision */
	double values_s;
};

static void must(enum err e, const struct why *why)
{
	if (e)
		help_bench_die("%s", why->text);
}

static size_t frame_bytes(const struct planes *p)
{
	struct buf frame;
	buf_init(&frame, frame_bound(p->bytes.len));
	if (frame_pack(p, &frame))
		help_bench_die("out of memory");
	size_t len = frame.len;
	buf_release(&frame);
	return len;
}

static void encode_all(struct sent *s, const struct help_bench_vectors *v)
{
	s->inputs = alloc_must_zero(v->count, sizeof *s->inputs);
	s->vectors = alloc_must_zero(v->count, sizeof *s->vectors);
	s->planes = alloc_must_zero(v->count, sizeof *s->planes);
	s->framed = alloc_must_zero(v->count, sizeof *s->framed);
	for (size_t i = 0; i < v->count; i++) {
		struct planes p;
		struct why why = {0};
		if (v->at[i].n != s->n)
			help_bench_die("what is merged must be of one shard");
		planes_init(&p, codec_bound(&s->codec, s->n));
		must(codec_encode(&s->codec, v->at[i].v, s->n, NULL, &p, &why), &why);
		s->planes[i] = p.bytes.len;
		s->framed[i] = frame_bytes(&p);
		must(codec_open(&s->codec, s->n, &p.bytes, &s->vectors[i], &why), &why);
		s->inputs[i] = (struct merge_input){&s->vectors[i], 1, 1};
		planes_release(&p);
	}
}

static double error_of(const struct merge_config *c, const struct codec_vector *merged)
{
	struct merge *m;
	struct merge_chunk chunk;
	struct why why = {0};
	double error = 0, norm = 0;
	float *back = alloc_must(merged->n * sizeof *back);
	if (codec_expand(merged, back))
		help_bench_die("out of memory");
	must(merge_new(c, &m, &why), &why);
	while (merge_next(m, &chunk))
		for (uint32_t i = 0; i < chunk.len; i++) {
			double x = chunk.value[i], d = x - (double)back[chunk.first + i];
			error += d * d;
			norm += x * x;
		}
	merge_free(m);
	free(back);
	return sqrt(error / norm);
}

static struct merged merge(const struct merge_config *c, enum values values)
{
	struct merged out = {0};
	struct why why = {0};
	struct planes p;
	struct codec_vector v;
	size_t n = c->inputs[0].vector->n, given = 0;
	double rate[HELP_BENCH_RUNS];
	const struct codec_params how = merge_params(c, values);
	planes_init(&p, codec_bound(&how, n));
	for (size_t i = 0; i < c->count; i++)
		given += c->inputs[i].vector->count;
	for (int i = 0; i < HELP_BENCH_RUNS; i++) {
		uint64_t since = clock_now_ns();
		must(merge_encode(c, values, NULL, &p, &why), &why);
		rate[i] = (double)given / 1e6 / clock_seconds(clock_now_ns() - since);
	}
	out.values_s = help_bench_spread(rate).median;
	out.planes = p.bytes.len;
	out.framed = frame_bytes(&p);
	must(codec_open(&how, n, &p.bytes, &v, &why), &why);
	out.kept = v.count;
	out.relerr = error_of(c, &v);
	codec_release(&v);
	planes_release(&p);
	return out;
}

/* A line for the first m contributions. */
static json_t *compare(const struct sent *s, size_t m)
{
	const struct merge_config c = {.inputs = s->inputs, .count = m, .per_sender = true};
	struct merged merged[KINDS];
	size_t planes = 0, framed = 0, kept = 0;
	for (size_t i = 0; i < m; i++) {
		planes += s->planes[i];
		framed += s->framed[i];
		kept += s->vectors[i].count;
	}
	for (int k = 0; k < KINDS; k++)
		merged[k] = merge(&c, kinds[k]);
	double bits = 8 / (double)s->n;
	printf("%13zu %8.3f %8.3f %6.3f %8.3f %8.3f %6.4f %8.3f %8.3f %6.4f %8.1f\n", m,
		bits * (double)planes, bits * (double)framed, (double)merged[0].kept / (double)kept,
		bits * (double)merged[0].planes, bits * (double)merged[0].framed, merged[0].relerr,
		bits * (double)merged[1].planes, bits * (double)merged[1].framed, merged[1].relerr,
		merged[0].values_s);
	fflush(stdout);
	return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "contributions",
		(json_int_t)m, "bundle_planes_bits", bits * (double)planes, "bundle_bits",
		bits * (double)framed, "union", (double)merged[0].kept / (double)kept,
		"int8_planes_bits", bits * (double)merged[0].planes, "int8_bits",
		bits * (double)merged[0].framed, "int8_relerr", merged[0].relerr,
		"int4_planes_bits", bits * (double)merged[1].planes, "int4_bits",
		bits * (double)merged[1].framed, "int4_relerr", merged[1].relerr, "mvalue_s",
		merged[0].values_s);
}

json_t *help_bench_merge(const struct codec_params *p, const struct help_bench_vectors *v)
{
	struct sent s = {.codec = *p, .count = v->count, .n = v->at[0].n};
	json_t *rows = json_array();
	char name[CODEC_NAME_MAX];
	encode_all(&s, v);
	codec_describe(p, name);
	printf("\nbits per parameter down to one peer, %s: all contributions of a round, or merged "
	       "(union: places of what is merged / places sent)\n",
		name);
	printf("%13s %8s %8s %6s %8s %8s %6s %8s %8s %6s %8s\n", "contributions", "planes",
		"frames", "union", "int8", "framed", "relerr", "int4", "framed", "relerr",
		"Mvalue/s");
	for (size_t m = 2; m <= v->count; m *= 2)
		json_array_append_new(rows, compare(&s, m));
	for (size_t i = 0; i < s.count; i++)
		codec_release(&s.vectors[i]);
	free(s.inputs);
	free(s.vectors);
	free(s.planes);
	free(s.framed);
	return rows;
}
