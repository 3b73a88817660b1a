/* The definition itself: values worked out by hand, and that the float build differs from the
 * double one by rounding only, at odd shapes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "tests/help_graph.h"
#include "tests/help_kernels.h"

/* ---- by hand */

struct input {
	struct shape shape;
	const double *reals;   /* or */
	const int32_t *tokens; /* these */
};

struct example {
	enum op op;
	uint32_t n_in;
	struct input in[5];
	struct node attrs;
	uint32_t past;
	uint64_t loss_rows;
	const double *must;
};

static struct view place(const struct help_kernels *k, const struct input *in)
{
	uint64_t n = shape_count(&in->shape);
	struct view v = help_kernels_alloc(k, n);
	if (in->tokens)
		k->backend->write(k->device, v.mem, 0, in->tokens, n * sizeof *in->tokens);
	else
		help_kernels_write(k, v, n, in->reals);
	return v;
}

static void check_example(const struct help_kernels *k, const struct example *e)
{
	struct graph *g = graph_new(1, 1);
	struct kernel_call c = {.graph = g, .past = e->past, .loss_rows = e->loss_rows};
	uint32_t in[5];
	for (uint32_t i = 0; i < e->n_in; i++) {
		char name[] = {(char)('a' + i), 0};
		in[i] = graph_input(
			g, name, &e->in[i].shape, e->in[i].tokens ? DTYPE_token : DTYPE_real);
		g->tensors[in[i]].buffer = op_def(e->op)->buffer_in >> i & 1;
		c.in[i] = place(k, &e->in[i]);
	}
	uint32_t y = graph_node(g, 0, e->op, in, e->n_in, &e->attrs);
	if (y == GRAPH_NONE)
		fail_msg("%s", g->mistake.text);
	c.node = &g->nodes[0];
	uint64_t n = shape_count(&g->tensors[y].shape);
	double is[16];
	assert_true(n <= 16);
	c.out = help_kernels_alloc(k, n);
	k->backend->run(k->device, &c);
	help_kernels_read(k, c.out, n, is);
	for (uint64_t i = 0; i < n; i++)
		if (!(fabs(is[i] - e->must[i]) < 1e-6 * fmax(1, fabs(e->must[i]))) &&
			!(isnan(is[i]) && isnan(e->must[i])))
			fail_msg("%s: y[%llu] is %.9g, must be %.9g", op_def(e->op)->name,
				(unsigned long long)i, is[i], e->must[i]);
	k->backend->free(k->device, c.out.mem);
	for (uint32_t i = 0; i < e->n_in; i++)
		k->backend->free(k->device, c.in[i].mem);
	graph_free(g);
}

#define REALS(...) \
	.reals = (const double[]) \
	{ \
		__VA_ARGS__ \
	}
#define TOKENS(...) \
	.tokens = (const int32_t[]) \
	{ \
		__VA_ARGS__ \
	}
#define MUST(...) \
	.must = (const double[]) \
	{ \
		__VA_ARGS__ \
	}

static void ops_give_what_the_hand_says(void **state)
{
	(void)state;
	/* Attention, two rows of one head of size 1: the first sees itself; the second has scores 2
	 * and 4, hence weights 1 / (1 + e^2) and the rest, on values 10 and 20. */
	const double far = 1 / (1 + exp(2));
	const struct example list[] = {
		{OP_token_embed, 2,
			{{{2, {1, 2, 1, 1}}, TOKENS(2, 0)},
				{{2, {3, 2, 1, 1}}, REALS(1, 2, 3, 4, 5, 6)}},
			MUST(5, 6, 1, 2)},
		{OP_pos_embed, 2,
			{{{3, {1, 1, 2, 1}}, REALS(10, 20)},
				{{2, {3, 2, 1, 1}}, REALS(1, 2, 3, 4, 5, 6)}},
			.past = 1, MUST(13, 24)},
		{OP_layernorm, 3,
			{{{2, {1, 2, 1, 1}}, REALS(1, 5)}, {{1, {2, 1, 1, 1}}, REALS(10, 100)},
				{{1, {2, 1, 1, 1}}, REALS(1, 2)}},
			MUST(-9, 102)},
		{OP_linear, 3,
			{{{2, {1, 2, 1, 1}}, REALS(1, 2)},
				{{2, {3, 2, 1, 1}}, REALS(1, 0, 0, 1, 3, 4)},
				{{1, {3, 1, 1, 1}}, REALS(10, 20, 30)}},
			MUST(11, 22, 41)},
		{OP_attention, 1, {{{3, {1, 2, 3, 1}}, REALS(1, 1, 10, 2, 2, 20)}},
			.attrs = {.heads = 1}, MUST(10, 10 * far + 20 * (1 - far))},
		{OP_gelu, 1, {{{1, {4, 1, 1, 1}}, REALS(0, 1, -1, 10)}},
			MUST(0, 0.8411920, -0.1588080, 10)},
		{OP_add, 2, {{{1, {2, 1, 1, 1}}, REALS(1, 2)}, {{1, {2, 1, 1, 1}}, REALS(10, 20)}},
			MUST(11, 22)},
		{OP_cross_entropy, 2,
			{{{3, {1, 2, 2, 1}}, REALS(0, 0, 0, log(3))},
				{{2, {1, 2, 1, 1}}, TOKENS(1, 0)}},
			MUST((log(2) + log(4)) / 2)},
		{OP_cross_entropy, 2,
			{{{3, {1, 2, 2, 1}}, REALS(0, 0, 0, log(3))},
				{{2, {1, 2, 1, 1}}, TOKENS(-1, 0)}},
			MUST(log(4))},
		{OP_cross_entropy, 2,
			{{{3, {1, 2, 2, 1}}, REALS(0, 0, 0, log(3))},
				{{2, {1, 2, 1, 1}}, TOKENS(-1, 0)}},
			.loss_rows = 8, MUST(log(4) / 8)},
		{OP_cross_entropy, 2,
			{{{2, {1, 2, 1, 1}}, REALS(0, 0)}, {{1, {1, 1, 1, 1}}, TOKENS(-1)}},
			MUST(0)},
		{OP_cross_entropy, 2,
			{{{2, {1, 2, 1, 1}}, REALS(1e4, -1e4)}, {{1, {1, 1, 1, 1}}, TOKENS(1)}},
			MUST(2e4)},
		{OP_rmsnorm, 2,
			{{{2, {2, 2, 1, 1}}, REALS(3, 4, 0, 2)},
				{{1, {2, 1, 1, 1}}, REALS(10, 100)}},
			MUST(30 / sqrt(12.5), 400 / sqrt(12.5), 0, 200 / sqrt(2))},
		/* Two positions after one, one head of size 4: angles t and t / 10. */
		{OP_rope, 1, {{{3, {1, 2, 4, 1}}, REALS(1, 1, 0, 0, 0, 0, 1, 1)}},
			.attrs = {.heads = 1, .theta = 100}, .past = 1,
			MUST(cos(1), cos(.1), sin(1), sin(.1), -sin(2), -sin(.2), cos(2), cos(.2))},
		{OP_swiglu, 2,
			{{{1, {3, 1, 1, 1}}, REALS(0, 1, -2)},
				{{1, {3, 1, 1, 1}}, REALS(5, 10, 3)}},
			MUST(0, 10 / (1 + exp(-1)), -6 / (1 + exp(2)))},
		{OP_relu, 1, {{{1, {4, 1, 1, 1}}, REALS(-1, 0, 2, NAN)}}, MUST(0, 0, 2, NAN)},
		/* The kernel is not flipped: at the first place only its last element is over x. */
		{OP_conv2d, 3,
			{{{4, {1, 1, 2, 2}}, REALS(1, 2, 3, 4)},
				{{4, {1, 1, 2, 2}}, REALS(10, 100, 1000, 10000)},
				{{1, {1, 1, 1, 1}}, REALS(5)}},
			.attrs = {.stride = 2, .pad = 1}, MUST(10005, 2005, 305, 45)},
		{OP_conv2d, 2,
			{{{4, {1, 2, 1, 3}}, REALS(1, 2, 3, 4, 5, 6)},
				{{4, {2, 2, 1, 2}}, REALS(1, 0, 0, 1, 0, 10, 100, 0)}},
			.attrs = {.stride = 1}, MUST(6, 8, 420, 530)},
		{OP_batchnorm, 5,
			{{{2, {1, 2, 1, 1}}, REALS(5, 7)}, {{1, {2, 1, 1, 1}}, REALS(10, 100)},
				{{1, {2, 1, 1, 1}}, REALS(1, 2)}, {{1, {2, 1, 1, 1}}, REALS(3, 6)},
				{{1, {2, 1, 1, 1}}, REALS(4, -4)}}, /* a var below 0 is 0 */
			.attrs = {.eps = 0.25f}, MUST(1 + 20 / sqrt(4.25), 202)},
		{OP_maxpool, 1, {{{4, {1, 1, 3, 3}}, REALS(-1, -2, -3, -4, -5, -6, -7, NAN, -9)}},
			.attrs = {.window = 2, .stride = 2, .pad = 1}, MUST(-1, -2, -4, NAN)},
		{OP_global_average, 1, {{{4, {1, 2, 1, 2}}, REALS(1, 2, 30, 50)}}, MUST(1.5, 40)},
	};
	static const char *const names[] = {"ref", "ref64"};
	for (size_t b = 0; b < 2; b++) {
		struct help_kernels k = help_kernels_open(names[b]);
		for (size_t i = 0; i < sizeof list / sizeof *list; i++)
			check_example(&k, &list[i]);
		help_kernels_close(&k);
	}
}

/* ---- what a single call does not show */

/* A call of one op on inputs of its own; the test changes the call and reads the tensors. */
struct single {
	struct help_kernels k;
	struct graph *g;
	struct kernel_call c;
};

static struct single single_make(const struct example *e)
{
	struct single s = {.k = help_kernels_open("ref64"), .g = graph_new(1, 1)};
	uint32_t in[5];
	s.c.graph = s.g;
	for (uint32_t i = 0; i < e->n_in; i++) {
		char name[] = {(char)('a' + i), 0};
		in[i] = graph_input(s.g, name, &e->in[i].shape, DTYPE_real);
		s.g->tensors[in[i]].buffer = op_def(e->op)->buffer_in >> i & 1;
		s.c.in[i] = place(&s.k, &e->in[i]);
	}
	assert_int_not_equal(graph_node(s.g, 0, e->op, in, e->n_in, &e->attrs), GRAPH_NONE);
	s.c.node = &s.g->nodes[0];
	s.c.out = help_kernels_alloc(&s.k, shape_count(&s.g->tensors[s.c.node->out].shape));
	return s;
}

static void single_release(struct single *s)
{
	for (uint32_t i = 0; i < NODE_IN_MAX; i++)
		s->k.backend->free(s->k.device, s->c.in[i].mem);
	s->k.backend->free(s->k.device, s->c.out.mem);
	graph_free(s->g);
	help_kernels_close(&s->k);
}

static void assert_is(const struct single *s, struct view at, uint64_t n, const double *must)
{
	double is[16];
	assert_true(n <= 16);
	help_kernels_read(&s->k, at, n, is);
	for (uint64_t i = 0; i < n; i++)
		if (!(fabs(is[i] - must[i]) < 1e-6))
			fail_msg("element %llu is %.9g, must be %.9g", (unsigned long long)i, is[i],
				must[i]);
}

/* Channel 0 is 1 and 3 (mean 2, variance 1, unbiased 2), channel 1 has no variance. */
static void the_buffers_move_once_in_training_only(void **state)
{
	(void)state;
	const struct example e = {OP_batchnorm, 5,
		{{{2, {2, 2, 1, 1}}, REALS(1, 5, 3, 5)}, {{1, {2, 1, 1, 1}}, REALS(1, 1)},
			{{1, {2, 1, 1, 1}}, REALS(0, 0)}, {{1, {2, 1, 1, 1}}, REALS(0, 1)},
			{{1, {2, 1, 1, 1}}, REALS(1, 1)}},
		.attrs = {.eps = 1, .momentum = 0.25f}};
	const double batch[] = {-sqrt(0.5), 0, sqrt(0.5), 0};
	struct single s = single_make(&e);
	s.k.backend->run(s.k.device, &s.c);
	assert_is(&s, s.c.in[3], 2, (const double[]){0, 1});
	assert_is(&s, s.c.in[4], 2, (const double[]){1, 1});
	s.c.train = true;
	s.k.backend->run(s.k.device, &s.c);
	assert_is(&s, s.c.out, 4, batch);
	for (int again = 0; again < 2; again++) {
		assert_is(&s, s.c.in[3], 2, (const double[]){0.5, 2});
		assert_is(&s, s.c.in[4], 2, (const double[]){1.25, 0.75});
		s.c.again = true;
		s.k.backend->run(s.k.device, &s.c);
		assert_is(&s, s.c.out, 4, batch);
	}
	s.c.train = s.c.again = false;
	s.k.backend->run(s.k.device, &s.c);
	assert_is(&s, s.c.out, 4,
		(const double[]){0.5 / 1.5, 3 / sqrt(1.75), 2.5 / 1.5, 3 / sqrt(1.75)});
	single_release(&s);
}

/* One number of a channel: the variance is 0, and moves the buffer as it is. */
static void one_number_is_no_division_by_zero(void **state)
{
	(void)state;
	const struct example e = {OP_batchnorm, 5,
		{{{2, {1, 1, 1, 1}}, REALS(8)}, {{1, {1, 1, 1, 1}}, REALS(3)},
			{{1, {1, 1, 1, 1}}, REALS(7)}, {{1, {1, 1, 1, 1}}, REALS(0)},
			{{1, {1, 1, 1, 1}}, REALS(1)}},
		.attrs = {.eps = 1, .momentum = 0.25f}};
	struct single s = single_make(&e);
	s.c.train = true;
	s.k.backend->run(s.k.device, &s.c);
	assert_is(&s, s.c.out, 1, (const double[]){7});
	assert_is(&s, s.c.in[3], 1, (const double[]){2});
	assert_is(&s, s.c.in[4], 1, (const double[]){0.75});
	single_release(&s);
}

/* The gradient of x when that of y is 1 everywhere. */
static void check_kink(const struct example *e)
{
	struct single s = single_make(e);
	double ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	uint64_t n = shape_count(&e->in[0].shape);
	struct view grad_y = help_kernels_alloc(&s.k, 16), grad = help_kernels_alloc(&s.k, n);
	s.k.backend->run(s.k.device, &s.c);
	help_kernels_write(&s.k, grad_y, 16, ones);
	s.c.backward = true;
	s.c.grad_out = grad_y;
	s.c.grad_in[0] = grad;
	s.k.backend->run(s.k.device, &s.c);
	assert_is(&s, grad, n, e->must);
	s.k.backend->free(s.k.device, grad_y.mem);
	s.k.backend->free(s.k.device, grad.mem);
	single_release(&s);
}

static void kinks_have_the_slopes_that_are_said(void **state)
{
	(void)state;
	const struct example list[] = {
		{OP_relu, 1, {{{1, {3, 1, 1, 1}}, REALS(-1, 0, 1)}}, MUST(0, 0, 1)},
		/* Windows (7,7) (7,7), then the second row: the first of equals takes all. */
		{OP_maxpool, 1, {{{4, {1, 1, 2, 3}}, REALS(7, 7, 7, 7, 7, 7)}},
			.attrs = {.window = 2, .stride = 1}, MUST(1, 1, 0, 0, 0, 0)},
		{OP_maxpool, 1, {{{4, {1, 1, 2, 2}}, REALS(1, 2, 2, 1)}},
			.attrs = {.window = 2, .stride = 1}, MUST(0, 1, 0, 0)},
		{OP_maxpool, 1, {{{4, {1, 1, 2, 2}}, REALS(1, 2, NAN, 1)}},
			.attrs = {.window = 2, .stride = 1}, MUST(0, 0, 1, 0)},
	};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		check_kink(&list[i]);
}

/* ---- float against double */

struct result {
	double loss, *grad[2], *value[2];
};

static struct result step(const char *backend, const struct model_config *m, uint32_t b, uint32_t t)
{
	struct help_kernels k = help_kernels_open(backend);
	struct graph *g = help_graph_build(m, b, t);
	struct params *p = help_kernels_params(&k, g, NULL, 0, 21);
	struct exec *x = help_kernels_exec(g, p, EXEC_train);
	int32_t *tokens = help_kernels_tokens(g, 1), *targets = help_kernels_tokens(g, 2);
	const struct exec_batch batch = {.tokens = tokens, .targets = targets};
	/* A large eps, so that AdamW does not make large steps of what is only rounding. */
	const struct params_step how = {.lr = 1e-2,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-2,
		.weight_decay = 0.1,
		.clip = 0.5,
		.step = 1};
	struct result r = {0};
	assert_int_equal(exec_whole(x, &batch, &r.loss, NULL), ERR_OK);
	for (uint32_t s = 0; s < g->n_shards; s++)
		r.grad[s] = help_kernels_part(&k, p, s, PARAMS_grad);
	assert_int_equal(params_adamw(p, &how, NULL, NULL), ERR_OK);
	for (uint32_t s = 0; s < g->n_shards; s++)
		r.value[s] = help_kernels_part(&k, p, s, PARAMS_value);
	free(tokens);
	free(targets);
	exec_free(x);
	params_free(p);
	graph_free(g);
	help_kernels_close(&k);
	return r;
}

static void floats_differ_by_rounding_only(void **state)
{
	(void)state;
	static const struct {
		uint32_t b, t, width, heads, vocab, layers;
		bool tied;
	} odd[] = {
		{1, 1, 2, 1, 2, 1, true},
		{1, 1, 3, 3, 5, 2, false},
		{3, 7, 15, 5, 31, 2, true},
		{2, 16, 10, 1, 257, 1, false},
		{5, 3, 33, 11, 2, 2, true},
	};
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		struct model_config m = help_graph_config(odd[i].layers, odd[i].tied);
		m.width = odd[i].width;
		m.heads = odd[i].heads;
		m.vocab = odd[i].vocab;
		struct result narrow = step("ref", &m, odd[i].b, odd[i].t);
		struct result wide = step("ref64", &m, odd[i].b, odd[i].t);
		struct graph *g = help_graph_build(&m, 1, 1);
		assert_true(fabs(narrow.loss - wide.loss) < 1e-6 * wide.loss);
		for (uint32_t s = 0; s < m.n_shards; s++) {
			uint64_t n = g->shard_params[s];
			assert_true(help_kernels_distance(narrow.grad[s], wide.grad[s], n) < 2e-6);
			assert_true(
				help_kernels_distance(narrow.value[s], wide.value[s], n) < 1e-6);
			free(narrow.grad[s]);
			free(narrow.value[s]);
			free(wide.grad[s]);
			free(wide.value[s]);
		}
		graph_free(g);
	}
}

static void a_device_says_what_it_is(void **state)
{
	(void)state;
	char text[100];
	struct help_kernels k = help_kernels_open("ref64");
	k.backend->describe(k.device, text, sizeof text);
	assert_non_null(strstr(text, "ref64: plain loops"));
	assert_int_equal(k.backend->real_size, sizeof(double));
	help_kernels_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ops_give_what_the_hand_says),
		cmocka_unit_test(the_buffers_move_once_in_training_only),
		cmocka_unit_test(one_number_is_no_division_by_zero),
		cmocka_unit_test(kinks_have_the_slopes_that_are_said),
		cmocka_unit_test(floats_differ_by_rounding_only),
		cmocka_unit_test(a_device_says_what_it_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
