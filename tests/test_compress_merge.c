/* Vectors made one: the same as adding them up spread out, in fewer bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/pool.h"
#include "compress/floats.h"
#include "compress/merge.h"
#include "tests/help_compress.h"

#define INPUTS 7

static const struct codec_params kinds[] = {
	{SELECT_topk, VALUES_two, false, 4096, 64, 0, 0},
	{SELECT_topk, VALUES_two, true, 4096, 64, 0, 0},
	{SELECT_topk, VALUES_int4, false, 7, 3, 0, 0},
	{SELECT_topk, VALUES_f32, false, 65536, 500, 0, 0},
	{SELECT_threshold, VALUES_sign, false, 512, 512, 2, 0},
	{SELECT_randk, VALUES_bf16, false, 100, 10, 0, 77},
	{SELECT_all, VALUES_int8, false, 1024, 1024, 0, 0},
	{SELECT_all, VALUES_f32, false, 4096, 4096, 0, 0},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])
static const size_t lengths[] = {1, 5, 4096, 10001};

struct many {
	struct codec_vector vectors[INPUTS];
	struct merge_input inputs[INPUTS];
	struct merge_config config;
};

static void one(const struct codec_params *p, enum help_compress_kind kind, size_t n, uint64_t seed,
	struct codec_vector *out)
{
	struct planes planes;
	struct why why = {0};
	float *v = help_compress_vector(kind, n, seed);
	planes_init(&planes, codec_bound(p, n));
	if (codec_encode(p, v, n, NULL, &planes, &why) ||
		codec_open(p, n, &planes.bytes, out, &why))
		fail_msg("%s", why.text);
	planes_release(&planes);
	free(v);
}

/* Weights as they come of tokens, some clipped; k differs where it may. */
static void make(struct many *m, struct codec_params p, size_t n, size_t count, bool per_sender)
{
	for (size_t i = 0; i < count; i++) {
		struct codec_params own = p;
		if (select_row(p.select)->sends_places && i % 3 == 1)
			own.k = (p.k + 1) / 2;
		one(&own, HELP_COMPRESS_heavy, n, 100 + i, &m->vectors[i]);
		m->inputs[i].vector = &m->vectors[i];
		m->inputs[i].part = 4096. * (double)(1 + i % 4);
		m->inputs[i].weight = m->inputs[i].part * (i % 2 ? 1 : 0.3125);
	}
	m->config = (struct merge_config){m->inputs, count, per_sender};
}

static void drop(struct many *m)
{
	for (size_t i = 0; i < m->config.count; i++)
		codec_release(&m->vectors[i]);
}

/* The definition, on vectors that are spread out. */
static double *spread_out(const struct merge_config *c)
{
	const size_t n = c->inputs[0].vector->n;
	double *sum = alloc_must_zero(n, sizeof *sum), *parts = alloc_must_zero(n, sizeof *parts);
	double all = 0;
	for (size_t i = 0; i < c->count; i++) {
		struct codec_reader *r;
		struct codec_chunk chunk;
		all += c->inputs[i].part;
		assert_int_equal(codec_reader_new(c->inputs[i].vector, &r), ERR_OK);
		while (codec_reader_next(r, &chunk))
			for (uint32_t j = 0; j < chunk.m; j++) {
				size_t at = chunk.first + (chunk.place ? chunk.place[j] : j);
				sum[at] += c->inputs[i].weight * (double)chunk.value[j];
				parts[at] += c->inputs[i].part;
			}
		codec_reader_free(r);
	}
	for (size_t i = 0; i < n; i++)
		sum[i] = parts[i] > 0 ? sum[i] / (c->per_sender ? parts[i] : all) : 0;
	free(parts);
	return sum;
}

static void merged(const struct merge_config *c, enum values values, struct pool *pool,
	struct codec_vector *out)
{
	struct planes planes;
	struct why why = {0};
	struct codec_params p = merge_params(c, values);
	const size_t n = c->inputs[0].vector->n;
	planes_init(&planes, codec_bound(&p, n));
	if (merge_encode(c, values, pool, &planes, &why) ||
		codec_open(&p, n, &planes.bytes, out, &why))
		fail_msg("%s", why.text);
	planes_release(&planes);
}

/* ---- what comes out */

static void check_chunks(const struct merge_config *c, const double *is)
{
	struct merge *m;
	struct merge_chunk chunk;
	struct why why = {0};
	size_t next = 0;
	assert_int_equal(merge_new(c, &m, &why), ERR_OK);
	while (merge_next(m, &chunk)) {
		assert_int_equal(chunk.first, next);
		assert_memory_equal(chunk.value, is + next, chunk.len * sizeof *is);
		next += chunk.len;
	}
	assert_int_equal(next, c->inputs[0].vector->n);
	assert_false(merge_next(m, &chunk));
	merge_free(m);
}

/* Within half a step of the scale, which is rounded itself: steps of the largest magnitude. */
static void check_vector(const struct codec_vector *v, const double *is, double steps)
{
	struct codec_reader *r;
	struct codec_chunk c;
	assert_int_equal(codec_reader_new(v, &r), ERR_OK);
	while (codec_reader_next(r, &c)) {
		double most = 0;
		uint32_t at = 0;
		for (uint32_t i = 0; i < c.len; i++)
			most = fmax(most, fabs(is[c.first + i]));
		for (uint32_t i = 0; i < c.len; i++) {
			double got = 0, wanted = is[c.first + i];
			if (!c.place)
				got = c.value[i];
			else if (at < c.m && c.place[at] == i)
				got = c.value[at++];
			else
				assert_true(floats_magnitude((float)wanted) < FLOATS_NORMAL ||
					    v->params.select == SELECT_randk);
			double bound = steps > 0 ? .76 * most / steps : 0;
			if (fabs(got - (double)(float)wanted) > bound)
				fail_msg("value %zu is %g, not %g", c.first + i, got, wanted);
		}
		assert_int_equal(at, c.place ? c.m : 0);
	}
	codec_reader_free(r);
}

static void test_as_spread_out(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_KINDS * 4 * 3 * 2; i++) {
		const size_t kind = i % N_KINDS, n = lengths[i / N_KINDS % 4];
		const size_t counts[] = {1, 2, INPUTS};
		struct many m;
		struct codec_vector v;
		make(&m, kinds[kind], n, counts[i / N_KINDS / 4 % 3], i / N_KINDS / 12);
		double *is = spread_out(&m.config);
		check_chunks(&m.config, is);
		merged(&m.config, VALUES_f32, NULL, &v);
		check_vector(&v, is, 0);
		codec_release(&v);
		merged(&m.config, VALUES_int8, NULL, &v);
		check_vector(&v, is, 127);
		codec_release(&v);
		merged(&m.config, VALUES_int4, NULL, &v);
		check_vector(&v, is, 7);
		codec_release(&v);
		free(is);
		drop(&m);
	}
}

/* Places are sent where the inputs do not agree on them, and only there. */
static void test_params(void **state)
{
	(void)state;
	struct many m;
	make(&m, kinds[0], 10001, 3, true);
	struct codec_params p = merge_params(&m.config, VALUES_int8);
	assert_int_equal(p.select, SELECT_topk);
	assert_int_equal(p.k, 4096);
	drop(&m);
	make(&m, kinds[4], 10001, 3, true);
	p = merge_params(&m.config, VALUES_int8);
	assert_int_equal(p.select, SELECT_topk);
	assert_true(p.threshold == 0);
	drop(&m);
	make(&m, kinds[5], 10001, 3, true);
	p = merge_params(&m.config, VALUES_int8);
	assert_int_equal(p.select, SELECT_randk);
	assert_int_equal(p.k, 10);
	assert_int_equal(p.seed, 77);
	assert_int_equal(p.values, VALUES_int8);
	m.vectors[2].params.seed++; /* not read any more: these are only looked at */
	p = merge_params(&m.config, VALUES_int8);
	assert_int_equal(p.select, SELECT_topk);
	assert_int_equal(p.seed, 0);
	drop(&m);
	make(&m, kinds[6], 10001, 3, true);
	assert_int_equal(merge_params(&m.config, VALUES_int4).select, SELECT_all);
	drop(&m);
}

/* randk of two seeds: the places are neither's. */
static void test_seeds_differ(void **state)
{
	(void)state;
	struct many m = {.config = {m.inputs, 2, true}};
	struct codec_params p = kinds[5];
	struct codec_vector v;
	for (size_t i = 0; i < 2; i++) {
		p.seed = i;
		one(&p, HELP_COMPRESS_heavy, 5000, i, &m.vectors[i]);
		m.inputs[i] = (struct merge_input){&m.vectors[i], 1, 1};
	}
	double *is = spread_out(&m.config);
	merged(&m.config, VALUES_f32, NULL, &v);
	check_vector(&v, is, 0);
	assert_true(v.count > 500);
	codec_release(&v);
	free(is);
	drop(&m);
}

static void test_same_bytes_every_time(void **state)
{
	(void)state;
	for (size_t kind = 0; kind < N_KINDS; kind++) {
		struct many m;
		struct codec_vector once, again;
		struct pool *pool = pool_new(3);
		make(&m, kinds[kind], 600000, 4, true);
		merged(&m.config, VALUES_int8, NULL, &once);
		merged(&m.config, VALUES_int8, pool, &again);
		assert_int_equal(once.planes.len, again.planes.len);
		assert_memory_equal(once.planes.data, again.planes.data, once.planes.len);
		codec_release(&once);
		codec_release(&again);
		pool_free(pool);
		drop(&m);
	}
}

/* What is not sent costs nothing: many vectors with the same places come down as one. */
static void test_fewer_bytes(void **state)
{
	(void)state;
	struct many m = {.config = {m.inputs, INPUTS, true}};
	struct codec_vector v;
	size_t bundle = 0;
	for (size_t i = 0; i < INPUTS; i++) {
		one(&kinds[0], HELP_COMPRESS_heavy, 1 << 20, 3, &m.vectors[i]);
		m.inputs[i] = (struct merge_input){&m.vectors[i], 1, 1};
		bundle += m.vectors[i].planes.len;
	}
	merged(&m.config, VALUES_int8, NULL, &v);
	assert_int_equal(v.count, m.vectors[0].count);
	assert_true(v.planes.len < bundle / 3);
	codec_release(&v);
	drop(&m);
}

/* ---- what is refused */

static void refused(const struct merge_config *c, enum err code, const char *part)
{
	struct planes planes;
	struct why why = {0};
	planes_init(&planes, 1 << 20);
	assert_int_equal(merge_encode(c, VALUES_int8, NULL, &planes, &why), code);
	help_compress_told(&why, code, part);
	planes_release(&planes);
}

static void test_unlike(void **state)
{
	(void)state;
	struct many m;
	make(&m, kinds[0], 5000, 3, true);
	codec_release(&m.vectors[2]);
	struct codec_params p = kinds[0];
	one(&p, HELP_COMPRESS_plain, 5001, 1, &m.vectors[2]);
	refused(&m.config, ERR_shape, "vector 2 has 5001 values");
	codec_release(&m.vectors[2]);
	p.chunk = 4095;
	one(&p, HELP_COMPRESS_plain, 5000, 1, &m.vectors[2]);
	refused(&m.config, ERR_shape, "chunks of 4095");
	codec_release(&m.vectors[2]);
	one(&kinds[1], HELP_COMPRESS_plain, 5000, 1, &m.vectors[2]);
	refused(&m.config, ERR_shape, "a DCT's chunks");
	m.config.count = 0;
	refused(&m.config, ERR_shape, "nothing to merge");
	m.config.count = 3;
	drop(&m);
}

static void test_beyond_a_float(void **state)
{
	(void)state;
	const struct codec_params p = {SELECT_all, VALUES_f32, false, 16, 16, 0, 0};
	struct codec_vector v;
	one(&p, HELP_COMPRESS_huge, 40, 1, &v);
	struct merge_input in = {&v, 1, 1};
	struct merge_config c = {&in, 1, true};
	struct codec_vector same;
	merged(&c, VALUES_f32, NULL, &same);
	codec_release(&same);
	in.weight = 1e6;
	refused(&c, ERR_not_finite, "beyond what a float holds");
	codec_release(&v);
}

static void test_no_memory(void **state)
{
	(void)state;
	struct many m;
	struct planes planes;
	struct why why;
	make(&m, kinds[0], 10001, 3, true);
	planes_init(&planes, 1 << 20);
	alloc_fail_at(0);
	assert_int_equal(merge_encode(&m.config, VALUES_int8, NULL, &planes, &why), ERR_OK);
	long tries = alloc_tries();
	assert_true(tries > 5);
	for (long i = 1; i <= tries; i++) {
		planes_release(&planes);
		planes_init(&planes, 1 << 20);
		alloc_fail_at(i);
		assert_int_equal(
			merge_encode(&m.config, VALUES_int8, NULL, &planes, &why), ERR_nomem);
	}
	alloc_fail_at(0);
	planes_release(&planes);
	planes_init(&planes, 100);
	assert_int_equal(merge_encode(&m.config, VALUES_int8, NULL, &planes, &why), ERR_toobig);
	planes_release(&planes);
	drop(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_spread_out),
		cmocka_unit_test(test_params),
		cmocka_unit_test(test_seeds_differ),
		cmocka_unit_test(test_same_bytes_every_time),
		cmocka_unit_test(test_fewer_bytes),
		cmocka_unit_test(test_unlike),
		cmocka_unit_test(test_beyond_a_float),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
