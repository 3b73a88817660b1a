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
	struct input in[3];
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
	uint32_t in[3];
	for (uint32_t i = 0; i < e->n_in; i++) {
		char name[] = {(char)('a' + i), 0};
		in[i] = graph_input(
			g, name, &e->in[i].shape, e->in[i].tokens ? DTYPE_token : DTYPE_real);
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
		if (!(fabs(is[i] - e->must[i]) < 1e-6 * fmax(1, fabs(e->must[i]))))
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
	};
	static const char *const names[] = {"ref", "ref64"};
	for (size_t b = 0; b < 2; b++) {
		struct help_kernels k = help_kernels_open(names[b]);
		for (size_t i = 0; i < sizeof list / sizeof *list; i++)
			check_example(&k, &list[i]);
		help_kernels_close(&k);
	}
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
		cmocka_unit_test(floats_differ_by_rounding_only),
		cmocka_unit_test(a_device_says_what_it_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
