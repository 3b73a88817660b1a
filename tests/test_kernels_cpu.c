/*
 * The fast CPU backend against the definition: every op both ways at odd shapes, with whatever a
 * call may leave out, with sentinels around every tensor; and the same bits for any number of
 * threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "kernels/cpu/cpu.h"
#include "model/attention_form.h"
#include "tests/help_ops.h"

#define GUARD 19 /* floats before and behind every tensor; odd, so that nothing is aligned */
#define GUARD_VALUE 12345.0f

struct rig {
	const struct backend *backend;
	struct device *device;
};

static struct rig rig_open(const char *name, unsigned threads)
{
	struct rig r = {.backend = backend_find(name)};
	struct why why = {0};
	if (r.backend->open(&(struct backend_config){.threads = threads}, &r.device, &why))
		fail_msg("%s", why.text);
	return r;
}

/* ---- numbers and where they are */

/* Mixed well: of numbers that are spread too evenly, sums are nearly nothing but rounding. */
static float made_up(uint64_t seed, uint64_t i)
{
	uint32_t x = (uint32_t)(seed * 1000003 + i + 1) * 2654435761u;
	x = (x ^ x >> 15) * 2246822519u;
	x ^= x >> 13;
	return (float)(x >> 8) / (float)(1 << 23) - 1;
}

static float *numbers(uint64_t seed, uint64_t n)
{
	float *x = alloc_must((n + 1) * sizeof *x);
	for (uint64_t i = 0; i < n; i++)
		x[i] = made_up(seed, i);
	return x;
}

static struct view place(const struct rig *r, const void *values, uint64_t n)
{
	struct view v = {.at = GUARD};
	uint64_t all = n + 2 * GUARD;
	float *x = alloc_must(all * sizeof *x);
	for (uint64_t i = 0; i < all; i++)
		x[i] = GUARD_VALUE;
	memcpy(x + GUARD, values, n * sizeof *x);
	assert_int_equal(r->backend->alloc(r->device, all * sizeof *x, &v.mem), ERR_OK);
	r->backend->write(r->device, v.mem, 0, x, all * sizeof *x);
	free(x);
	return v;
}

/* The tensor as it is now, and the end of it on the device. */
static float *fetch(const struct rig *r, struct view v, uint64_t n)
{
	uint64_t all = n + 2 * GUARD;
	float *x = alloc_must(all * sizeof *x);
	r->backend->read(r->device, v.mem, 0, x, all * sizeof *x);
	r->backend->free(r->device, v.mem);
	for (uint64_t i = 0; i < GUARD; i++)
		if (x[i] != GUARD_VALUE || x[all - 1 - i] != GUARD_VALUE)
			fail_msg("written outside of a tensor");
	memmove(x, x + GUARD, n * sizeof *x);
	return x;
}

/* ---- one call */

struct trial {
	enum op op;
	struct help_dims dims;
	uint32_t accumulate, absent; /* bits of inputs */
	uint64_t loss_rows;
	bool forward_only; /* nothing is saved */
	uint32_t past, cache_len;
	uint64_t nan_at; /* element of every input that is NaN; 0: none */
};

enum { MAX_RESULTS = 2 * NODE_IN_MAX };

struct result {
	uint32_t n;
	float *at[MAX_RESULTS];
	uint64_t size[MAX_RESULTS];
};

static void keep(struct result *o, float *x, uint64_t n)
{
	o->at[o->n] = x;
	o->size[o->n++] = n;
}

static void result_release(struct result *o)
{
	for (uint32_t i = 0; i < o->n; i++)
		free(o->at[i]);
}

static uint64_t count(const struct graph *g, uint32_t tensor)
{
	return shape_count(&g->tensors[tensor].shape);
}

static void place_input(
	const struct rig *r, const struct trial *t, struct kernel_call *c, uint32_t i)
{
	uint32_t tensor = c->node->in[i];
	uint64_t n = count(c->graph, tensor);
	float *x = numbers(i, n);
	for (uint64_t k = 0; k < n && op_def(t->op)->token_in >> i & 1; k++) {
		int32_t token = (int32_t)((uint64_t)(made_up(9, k) * 1e6f + 1e6f) % t->dims.vocab);
		/* Every third target is not counted. */
		if (t->op == OP_cross_entropy && k % 3 == 1)
			token = -1 - token;
		memcpy(x + k, &token, sizeof token);
	}
	for (uint64_t k = 0; k < n && t->op == OP_gelu; k++)
		x[k] *= 12; /* also where tanh is flat */
	if (t->nan_at)
		x[t->nan_at % n] = NAN;
	c->in[i] = place(r, x, n);
	free(x);
}

static struct view place_numbers(const struct rig *r, uint64_t seed, uint64_t n)
{
	float *x = numbers(seed, n);
	struct view v = place(r, x, n);
	free(x);
	return v;
}

static uint64_t cache_size(const struct kernel_call *c, const struct trial *t)
{
	struct attention_form f = attention_form(c->graph, c->node);
	return 2 * (uint64_t)f.batch * t->cache_len * f.kv_heads * f.size;
}

static void forward(const struct rig *r, struct kernel_call *c, const struct trial *t)
{
	const struct op_def *def = op_def(t->op);
	for (uint32_t i = 0; i < c->node->n_in; i++)
		place_input(r, t, c, i);
	c->out = place_numbers(r, 50, count(c->graph, c->node->out));
	if (def->saved && !t->forward_only)
		c->saved = place_numbers(r, 51, def->saved(c->graph, c->node));
	if (t->cache_len)
		c->cache = place_numbers(r, 52, cache_size(c, t));
	r->backend->run(r->device, c);
}

/* Only what op_def says that backward reads is given. */
static void backward(
	const struct rig *r, const struct kernel_call *f, const struct trial *t, struct result *o)
{
	const struct op_def *def = op_def(t->op);
	struct kernel_call c = *f;
	c.backward = true;
	c.accumulate = t->accumulate;
	for (uint32_t i = 0; i < c.node->n_in; i++) {
		if (!(def->backward_in >> i & 1))
			c.in[i] = (struct view){0};
		if ((def->gradient_in & ~t->absent) >> i & 1)
			c.grad_in[i] = place_numbers(r, 60 + i, count(c.graph, c.node->in[i]));
	}
	if (!def->backward_out)
		c.out = (struct view){0};
	uint64_t n = count(c.graph, c.node->out);
	c.grad_out = place_numbers(r, 70, n);
	r->backend->run(r->device, &c);
	free(fetch(r, c.grad_out, n));
	for (uint32_t i = 0; i < c.node->n_in; i++)
		if (c.grad_in[i].mem)
			keep(o, fetch(r, c.grad_in[i], count(c.graph, c.node->in[i])),
				count(c.graph, c.node->in[i]));
}

static struct result run(const struct rig *r, const struct trial *t)
{
	struct result o = {0};
	struct graph *g = help_ops_graph(t->op, &t->dims);
	struct kernel_call c = {.graph = g,
		.node = &g->nodes[0],
		.loss_rows = t->loss_rows,
		.train = !t->forward_only,
		.past = t->past,
		.cache_len = t->cache_len};
	assert_true(r->backend->supports(r->device, g, c.node));
	forward(r, &c, t);
	if (!t->forward_only)
		backward(r, &c, t, &o);
	keep(&o, fetch(r, c.out, count(g, c.node->out)), count(g, c.node->out));
	for (uint32_t i = 0; i < c.node->n_in; i++) {
		float *x = fetch(r, c.in[i], count(g, c.node->in[i]));
		if (op_def(t->op)->buffer_in >> i & 1)
			keep(&o, x, count(g, c.node->in[i]));
		else
			free(x);
	}
	if (c.saved.mem)
		free(fetch(r, c.saved, op_def(t->op)->saved(g, c.node)));
	if (c.cache.mem) {
		uint64_t n = cache_size(&c, t);
		keep(&o, fetch(r, c.cache, n), n);
	}
	graph_free(g);
	return o;
}

/* ---- against the definition */

static struct rig cpu, ref;

static int open_both(void **state)
{
	(void)state;
	cpu = rig_open("cpu", 2);
	ref = rig_open("ref", 1);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	cpu.backend->close(cpu.device);
	ref.backend->close(ref.device);
	return 0;
}

static double distance(const float *here, const float *there, uint64_t n)
{
	double most = 1e-3, worst = 0;
	for (uint64_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)there[i]));
	for (uint64_t i = 0; i < n; i++) {
		double d = fabs((double)here[i] - (double)there[i]);
		if (!(d <= worst))
			worst = d;
	}
	return worst / most;
}

static void compare(const struct trial *t)
{
	struct result here = run(&cpu, t), there = run(&ref, t);
	assert_int_equal(here.n, there.n);
	for (uint32_t i = 0; i < here.n; i++) {
		double d = distance(here.at[i], there.at[i], here.size[i]);
		if (!(d < 1e-5))
			fail_msg("%s B %u T %u C %u heads %u V %u O %u accumulate %x absent %x: "
				 "result %u is off by %g",
				op_def(t->op)->name, t->dims.batch, t->dims.seq, t->dims.width,
				t->dims.heads, t->dims.vocab, t->dims.out, t->accumulate, t->absent,
				i, d);
	}
	result_release(&here);
	result_release(&there);
}

static const struct help_dims odd[] = {
	{1, 1, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0}, {1, 1, 8, 2, 5, 3, 1, 3, 3, 5, 3, 2, 1},
	{2, 3, 12, 3, 7, 17, 1, 5, 7, 7, 3, 1, 1}, {3, 7, 20, 1, 33, 16, 0, 2, 9, 8, 1, 1, 0},
	{1, 65, 34, 2, 1000, 5, 2, 17, 13, 11, 1, 2, 0},
	{2, 130, 51, 3, 129, 97, 1, 16, 20, 17, 3, 2, 1},
	{1, 64, 64, 4, 256, 200, 2, 33, 15, 14, 3, 1, 1},
	{4, 33, 7, 7, 1001, 49, 0, 3, 32, 31, 7, 2, 3},
	{2, 170, 150, 1, 3, 331, 1, 20, 6, 6, 2, 3, 0},
	{3, 40, 48, 6, 50, 19, 3, 9, 19, 19, 4, 3, 5}, /* whole windows over the padding */
};

static void every_op_matches_ref(void **state)
{
	(void)state;
	for (int op = 1; op < OP_COUNT; op++)
		for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
			struct trial t = {.op = (enum op)op, .dims = odd[i]};
			compare(&t);
			t.loss_rows = 1000;
			t.accumulate = ~0u;
			compare(&t);
			t.forward_only = true;
			compare(&t);
		}
}

static void absent_gradients_are_left_out(void **state)
{
	(void)state;
	for (int op = 1; op < OP_COUNT; op++)
		for (uint32_t absent = 1; absent < 1u << 3; absent++) {
			struct trial t = {.op = (enum op)op, .dims = odd[2], .absent = absent};
			if (!(op_def(t.op)->gradient_in & ~absent))
				continue; /* nothing left to ask for */
			compare(&t);
			t.accumulate = 5;
			compare(&t);
		}
}

/* Where a number of x is not one, neither is what is made of it; backward as ref does it. */
static void nan_passes_through(void **state)
{
	(void)state;
	const enum op ops[] = {OP_relu, OP_maxpool};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		struct trial t = {.op = ops[i], .dims = odd[5], .nan_at = 37};
		struct result here = run(&cpu, &t), there = run(&ref, &t);
		uint64_t seen = 0;
		for (uint32_t k = 0; k < here.n; k++)
			for (uint64_t e = 0; e < here.size[k]; e++) {
				float a = here.at[k][e], b = there.at[k][e];
				seen += isnan(a) != 0;
				assert_true(isnan(a) ? isnan(b) : a == b);
			}
		assert_true(seen > 0);
		result_release(&here);
		result_release(&there);
	}
}

static void the_cache_stands_for_the_past(void **state)
{
	(void)state;
	static const uint32_t steps[][2] = {{0, 1}, {0, 5}, {5, 1}, {6, 70}, {64, 3}, {130, 1}};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		for (uint32_t batch = 1; batch <= 3; batch++) {
			struct trial t = {.op = OP_attention, .forward_only = true};
			t.dims = odd[0];
			t.dims.batch = batch;
			t.dims.seq = steps[i][1];
			t.dims.width = 30;
			t.dims.heads = 3;
			t.dims.kv_heads = i % 2;
			t.past = steps[i][0];
			t.cache_len = 140;
			compare(&t);
			t.op = OP_pos_embed;
			t.past = batch; /* the table has three rows more than the sequence */
			t.cache_len = 0;
			compare(&t);
		}
}

/* ---- AdamW and the norm */

static void optimise(const struct rig *r, uint64_t n, struct result *o, double *norm)
{
	struct adamw_call c = {.n = n,
		.lr = 1e-2,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.weight_decay = 0.1,
		.scale = 0.37};
	float *v = numbers(83, n);
	for (uint64_t i = 0; i < n; i++)
		v[i] = i % 7 ? v[i] * v[i] : 0;
	c.param = place_numbers(r, 80, n);
	c.grad = place_numbers(r, 81, n);
	c.m = place_numbers(r, 82, n);
	c.v = place(r, v, n);
	free(v);
	*norm = r->backend->norm2(r->device, c.grad, n);
	for (c.step = 1; c.step <= 3; c.step++)
		r->backend->adamw(r->device, &c);
	keep(o, fetch(r, c.param, n), n);
	keep(o, fetch(r, c.m, n), n);
	keep(o, fetch(r, c.v, n), n);
	free(fetch(r, c.grad, n));
}

static void adamw_and_norm_match_ref(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {1, 15, 16, 1000, 300001};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct result here = {0}, there = {0};
		double norm_here, norm_there;
		optimise(&cpu, sizes[i], &here, &norm_here);
		optimise(&ref, sizes[i], &there, &norm_there);
		for (uint32_t k = 0; k < here.n; k++)
			assert_true(distance(here.at[k], there.at[k], sizes[i]) < 1e-5);
		assert_true(fabs(norm_here - norm_there) <= 1e-12 * norm_there);
		result_release(&here);
		result_release(&there);
	}
}

/* ---- threads */

static void same_bits(const struct result *a, const struct result *b)
{
	assert_int_equal(a->n, b->n);
	for (uint32_t i = 0; i < a->n; i++)
		assert_memory_equal(a->at[i], b->at[i], a->size[i] * sizeof(float));
}

static void any_thread_count_gives_the_same_bits(void **state)
{
	(void)state;
	static const unsigned threads[] = {2, 3, 5};
	const struct help_dims dims = {4, 131, 1020, 4, 1001, 300, 2, 32, 40, 37, 3, 1, 1};
	/* Large enough that the threads are woken, by every op. */
	assert_true(dims.batch * dims.seq * dims.width > CPU_INLINE_COST);
	struct rig one = rig_open("cpu", 1);
	for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
		struct rig many = rig_open("cpu", threads[i]);
		struct result a = {0}, b = {0};
		double norm_a, norm_b;
		for (int op = 1; op < OP_COUNT; op++) {
			const struct trial t = {.op = (enum op)op, .dims = dims, .accumulate = 2};
			a = run(&one, &t);
			b = run(&many, &t);
			same_bits(&a, &b);
			result_release(&a);
			result_release(&b);
		}
		a = b = (struct result){0};
		optimise(&one, 600011, &a, &norm_a);
		optimise(&many, 600011, &b, &norm_b);
		same_bits(&a, &b);
		assert_memory_equal(&norm_a, &norm_b, sizeof norm_a);
		result_release(&a);
		result_release(&b);
		many.backend->close(many.device);
	}
	one.backend->close(one.device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_op_matches_ref),
		cmocka_unit_test(absent_gradients_are_left_out),
		cmocka_unit_test(nan_passes_through),
		cmocka_unit_test(the_cache_stands_for_the_past),
		cmocka_unit_test(adamw_and_norm_match_ref),
		cmocka_unit_test(any_thread_count_gives_the_same_bits),
	};
	return cmocka_run_group_tests(tests, open_both, close_both);
}
