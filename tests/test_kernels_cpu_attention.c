/*
 * The fast attention against the definition in double: grouped queries, three inputs and one, sizes
 * and lengths around its blocks, generation, gradients left out or added; the same bits for any
 * number of threads, whichever way the work is cut; and nothing seen of what comes later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "kernels/backend.h"
#include "model/attention_form.h"

struct trial {
	uint32_t batch, seq, heads, kv_heads, size;
	bool one; /* input with q, k and v side by side */
	uint32_t past, cache_len;
	uint32_t absent, accumulate; /* bits of inputs */
	const char *backend;
	unsigned threads;
};

enum { Y, CACHE, GRAD, RESULTS = GRAD + 3 };

struct result {
	uint64_t n[RESULTS];
	double *at[RESULTS];
};

struct rig {
	const struct backend *backend;
	struct device *device;
};

static double made_up(uint64_t seed, uint64_t i)
{
	uint32_t x = (uint32_t)(seed * 1000003 + i + 1) * 2654435761u;
	return (double)(float)((float)(x >> 8) / (float)(1 << 23) - 1);
}

static struct view place(const struct rig *r, const double *x, uint64_t n)
{
	struct view v = {0};
	size_t size = r->backend->real_size;
	assert_int_equal(r->backend->alloc(r->device, n * size, &v.mem), ERR_OK);
	float *narrow = alloc_must((n + 1) * sizeof *narrow);
	for (uint64_t i = 0; i < n; i++)
		narrow[i] = (float)x[i];
	r->backend->write(
		r->device, v.mem, 0, size == sizeof *x ? (const void *)x : narrow, n * size);
	free(narrow);
	return v;
}

static struct view numbers(const struct rig *r, uint64_t seed, uint64_t n)
{
	double *x = alloc_must((n + 1) * sizeof *x);
	for (uint64_t i = 0; i < n; i++)
		x[i] = made_up(seed, i);
	struct view v = place(r, x, n);
	free(x);
	return v;
}

static double *fetch(const struct rig *r, struct view v, uint64_t n)
{
	double *x = alloc_must((n + 1) * sizeof *x);
	float *narrow = alloc_must((n + 1) * sizeof *narrow);
	if (r->backend->real_size == sizeof *x)
		r->backend->read(r->device, v.mem, 0, x, n * sizeof *x);
	else
		r->backend->read(r->device, v.mem, 0, narrow, n * sizeof *narrow);
	for (uint64_t i = 0; i < n && r->backend->real_size != sizeof *x; i++)
		x[i] = (double)narrow[i];
	free(narrow);
	return x;
}

static struct graph *graph_of(const struct trial *t)
{
	struct graph *g = graph_new(t->batch, t->seq);
	uint32_t in[3], q = t->heads * t->size, kv = t->kv_heads * t->size;
	const uint32_t width[] = {t->one ? q + 2 * kv : q, kv, kv};
	uint32_t n = t->one ? 1 : 3;
	for (uint32_t i = 0; i < n; i++) {
		struct shape s = shape_make(3, t->batch, t->seq, width[i], 1);
		in[i] = graph_input(g, "input", &s, DTYPE_real);
	}
	const struct node attributes = {.heads = t->heads, .kv_heads = t->kv_heads};
	graph_node(g, 0, OP_attention, in, n, &attributes);
	if (g->mistake.code)
		fail_msg("%s", g->mistake.text);
	return g;
}

static uint64_t count(const struct graph *g, uint32_t tensor)
{
	return shape_count(&g->tensors[tensor].shape);
}

static void keep(const struct rig *r, struct result *o, int which, struct view v, uint64_t n)
{
	o->n[which] = n;
	o->at[which] = fetch(r, v, n);
}

static void backward(
	const struct rig *r, struct kernel_call *c, const struct trial *t, struct result *o)
{
	c->backward = true;
	c->accumulate = t->accumulate;
	c->grad_out = numbers(r, 9, count(c->graph, c->node->out));
	for (uint32_t i = 0; i < c->node->n_in; i++)
		if (!(t->absent >> i & 1))
			c->grad_in[i] = numbers(r, 10 + i, count(c->graph, c->node->in[i]));
	r->backend->run(r->device, c);
	r->backend->free(r->device, c->grad_out.mem);
	for (uint32_t i = 0; i < c->node->n_in; i++) {
		if (c->grad_in[i].mem)
			keep(r, o, GRAD + (int)i, c->grad_in[i], count(c->graph, c->node->in[i]));
		r->backend->free(r->device, c->grad_in[i].mem);
	}
}

/* An element of the last input that is set to something else. */
struct spoiled {
	uint64_t at;
	double value;
};

static struct result run_spoiled(const struct trial *t, struct spoiled spoiled)
{
	struct rig r = {.backend = backend_find(t->backend)};
	struct result o = {0};
	struct why why = {0};
	const struct backend_config config = {.threads = t->threads};
	if (r.backend->open(&config, &r.device, &why))
		fail_msg("%s", why.text);
	struct graph *g = graph_of(t);
	struct kernel_call c = {
		.graph = g, .node = &g->nodes[0], .past = t->past, .cache_len = t->cache_len};
	for (uint32_t i = 0; i < c.node->n_in; i++) {
		uint64_t n = count(g, c.node->in[i]);
		c.in[i] = numbers(&r, i, n);
		const float narrow = (float)spoiled.value;
		size_t size = r.backend->real_size;
		if (i + 1 == c.node->n_in && spoiled.at < n)
			r.backend->write(r.device, c.in[i].mem, spoiled.at * size,
				size == sizeof narrow ? &narrow : (const void *)&spoiled.value,
				size);
	}
	c.out = numbers(&r, 5, count(g, c.node->out));
	uint64_t n_saved = op_def(OP_attention)->saved(g, c.node);
	uint64_t n_cache = 2 * (uint64_t)t->batch * t->cache_len * t->kv_heads * t->size;
	if (t->cache_len)
		c.cache = numbers(&r, 6, n_cache);
	else
		c.saved = numbers(&r, 7, n_saved);
	r.backend->run(r.device, &c);
	keep(&r, &o, Y, c.out, count(g, c.node->out));
	if (t->cache_len)
		keep(&r, &o, CACHE, c.cache, n_cache);
	else
		backward(&r, &c, t, &o);
	for (uint32_t i = 0; i < c.node->n_in; i++)
		r.backend->free(r.device, c.in[i].mem);
	r.backend->free(r.device, c.out.mem);
	r.backend->free(r.device, c.saved.mem);
	r.backend->free(r.device, c.cache.mem);
	graph_free(g);
	r.backend->close(r.device);
	return o;
}

static struct result run(struct trial t, const char *backend, unsigned threads)
{
	t.backend = backend;
	t.threads = threads;
	return run_spoiled(&t, (struct spoiled){UINT64_MAX, 0});
}

static void release(struct result *o)
{
	for (int i = 0; i < RESULTS; i++)
		free(o->at[i]);
}

static void compare(const struct trial *t)
{
	struct result here = run(*t, "cpu", 2), there = run(*t, "ref64", 1);
	for (int i = 0; i < RESULTS; i++) {
		double most = 1e-3, worst = 0;
		assert_int_equal(here.n[i], there.n[i]);
		for (uint64_t k = 0; k < here.n[i]; k++) {
			double off = fabs(here.at[i][k] - there.at[i][k]);
			most = fmax(most, fabs(there.at[i][k]));
			worst = off <= worst ? worst : off;
		}
		if (!(worst < 1e-5 * most))
			fail_msg("B %u T %u heads %u over %u of %u, %s, past %u: result %d is off "
				 "by %g of %g",
				t->batch, t->seq, t->heads, t->kv_heads, t->size,
				t->one ? "one input" : "three", t->past, i, worst, most);
	}
	release(&here);
	release(&there);
}

static const struct trial shapes[] = {
	{.batch = 1, .seq = 1, .heads = 1, .kv_heads = 1, .size = 1},
	{.batch = 2, .seq = 3, .heads = 4, .kv_heads = 2, .size = 5},
	{.batch = 1, .seq = 64, .heads = 2, .kv_heads = 1, .size = 64},
	{.batch = 1, .seq = 65, .heads = 3, .kv_heads = 1, .size = 17},
	{.batch = 2, .seq = 130, .heads = 6, .kv_heads = 3, .size = 32},
	{.batch = 1, .seq = 193, .heads = 2, .kv_heads = 2, .size = 128},
	{.batch = 1, .seq = 300, .heads = 3, .kv_heads = 3, .size = 24},
	{.batch = 1, .seq = 70, .heads = 1, .kv_heads = 1, .size = 320},
	{.batch = 1, .seq = 40, .heads = 1, .kv_heads = 1, .size = 1000},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static void every_form_matches_the_definition(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHAPES; i++)
		for (int one = 0; one < 2; one++) {
			struct trial t = shapes[i];
			t.one = one;
			compare(&t);
			t.accumulate = 5;
			compare(&t);
		}
}

static void absent_gradients_are_left_out(void **state)
{
	(void)state;
	for (uint32_t absent = 1; absent < 7; absent++) {
		struct trial t = shapes[4];
		t.absent = absent;
		compare(&t);
	}
}

static void the_cache_stands_for_the_past(void **state)
{
	(void)state;
	static const uint32_t steps[][2] = {{0, 1}, {0, 70}, {5, 1}, {63, 2}, {64, 1}, {130, 65}};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		for (int one = 0; one < 2; one++) {
			struct trial t = {
				.batch = 2, .heads = 6, .kv_heads = 2, .size = 10, .one = one};
			t.past = steps[i][0];
			t.seq = steps[i][1];
			t.cache_len = 200;
			compare(&t);
		}
}

/* Few heads and many, which are cut into tiles in another way. */
static void any_number_of_threads_gives_the_same_bits(void **state)
{
	(void)state;
	for (size_t i = 0; i < SHAPES; i++) {
		struct result one = run(shapes[i], "cpu", 1);
		for (unsigned threads = 2; threads <= 4; threads++) {
			struct result more = run(shapes[i], "cpu", threads);
			for (int k = 0; k < RESULTS; k++)
				if (one.n[k] && memcmp(one.at[k], more.at[k],
							one.n[k] * sizeof *one.at[k]) != 0)
					fail_msg("result %d of shape %zu differs by %u threads", k,
						i, threads);
			release(&more);
		}
		release(&one);
	}
}

/* What is at position 66 changes nothing before it, and a NaN there reaches all that follow. */
static void nothing_is_seen_of_what_comes_later(void **state)
{
	(void)state;
	struct trial t = {.batch = 1, .seq = 140, .heads = 2, .kv_heads = 2, .size = 16};
	t.backend = "cpu";
	t.threads = 2;
	uint64_t at = 66 * 32 + 3, before = (uint64_t)66 * 32;
	struct result as_it_is = run(t, "cpu", 2);
	struct result huge = run_spoiled(&t, (struct spoiled){at, 1e30});
	struct result nan = run_spoiled(&t, (struct spoiled){at, NAN});
	assert_memory_equal(as_it_is.at[Y], huge.at[Y], before * sizeof(double));
	assert_true(huge.at[Y][at] > 1e20);
	for (uint32_t i = 66; i < t.seq; i++)
		assert_true(isnan(nan.at[Y][i * 32 + 3]));
	for (uint32_t i = 0; i < t.seq; i++)
		assert_false(isnan(nan.at[Y][i * 32 + 4]));
	release(&as_it_is);
	release(&huge);
	release(&nan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_matches_the_definition),
		cmocka_unit_test(absent_gradients_are_left_out),
		cmocka_unit_test(the_cache_stands_for_the_past),
		cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
		cmocka_unit_test(nothing_is_seen_of_what_comes_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
