/* The op list: shapes that are taken and refused, what each op costs, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "model/graph.h"

enum { B = 2, T = 3, C = 4, V = 5, TMAX = 7, O = 6, HEADS = 2 };

static uint32_t real(struct graph *g, const char *name, struct shape s)
{
	return graph_input(g, name, &s, DTYPE_real);
}

static uint32_t token(struct graph *g, struct shape s)
{
	return graph_input(g, "tokens", &s, DTYPE_token);
}

static struct shape dims(uint32_t rank, uint32_t d0, uint32_t d1, uint32_t d2)
{
	return shape_make(rank, d0, d1, d2, 1);
}

/* ---- one case per op: good inputs, what they cost; an op without a case does not compile */

struct costs {
	struct op_cost c;
	uint64_t saved;
};

#define WITH_INPUTS(name) static uint32_t inputs_##name(struct graph *g, uint32_t *in)

WITH_INPUTS(token_embed)
{
	in[0] = token(g, dims(2, B, T, 1));
	in[1] = real(g, "table", dims(2, V, C, 1));
	return 2;
}
/* 6 rows of 4: 24 additions back into the table; bytes: 6 tokens, 24 read, 24 written. */
static const struct costs costs_token_embed = {{0, 24, 4 * 54, 4 * 54}, 0};

WITH_INPUTS(pos_embed)
{
	in[0] = real(g, "x", dims(3, B, T, C));
	in[1] = real(g, "table", dims(2, TMAX, C, 1));
	return 2;
}
/* Bytes: 24 in, 24 out, 3 rows of 4 of the table. */
static const struct costs costs_pos_embed = {{24, 24, 4 * 60, 4 * 60}, 0};

WITH_INPUTS(layernorm)
{
	in[0] = real(g, "x", dims(3, B, T, C));
	in[1] = real(g, "gain", dims(1, C, 1, 1));
	in[2] = real(g, "bias", dims(1, C, 1, 1));
	return 3;
}
/* 8 * 24 + 5 * 6; 13 * 24 + 2 * 6.  Forward 24 + 4 + 4 + 24 + 12; backward reads x, gain, saved and
 * the gradient (24 + 4 + 12 + 24), writes three gradients (24 + 4 + 4). */
static const struct costs costs_layernorm = {{222, 324, 4 * 68, 4 * 96}, 12};

WITH_INPUTS(linear)
{
	in[0] = real(g, "x", dims(3, B, T, C));
	in[1] = real(g, "weight", dims(2, O, C, 1));
	in[2] = real(g, "bias", dims(1, O, 1, 1));
	return 3;
}
/* 2 * 6 * 4 * 6 + 36; 4 * 144 + 36.  Forward 24 + 24 + 6 + 36; backward 24 + 24 + 36 and 54. */
static const struct costs costs_linear = {{324, 612, 4 * 90, 4 * 138}, 0};

WITH_INPUTS(attention)
{
	in[0] = real(g, "qkv", dims(3, B, T, 3 * C));
	return 1;
}
/* 2 sequences, 2 heads of size 2, 6 pairs each: 24 pairs.  24 * (4 * 2 + 4) + 24; 24 * (10 * 2 + 6)
 * + 48.  Forward 72 + 24 + 12; backward 72 + 24 + 12 + 24 and 72. */
static const struct costs costs_attention = {{312, 672, 4 * 108, 4 * 204}, 12};

WITH_INPUTS(gelu)
{
	in[0] = real(g, "x", dims(3, B, T, C));
	return 1;
}
static const struct costs costs_gelu = {{216, 432, 4 * 48, 4 * 72}, 0};

WITH_INPUTS(add)
{
	in[0] = real(g, "a", dims(3, B, T, C));
	in[1] = real(g, "b", dims(3, B, T, C));
	return 2;
}
static const struct costs costs_add = {{24, 0, 4 * 72, 4 * 72}, 0};

WITH_INPUTS(cross_entropy)
{
	in[0] = real(g, "logits", dims(3, B, T, V));
	in[1] = token(g, dims(2, B, T, 1));
	return 2;
}
/* 4 * 30 + 4 * 6; 3 * 30 + 6.  Forward 30 + 6 + 1 + 6; backward 30 + 6 + 6 + 1 and 30. */
static const struct costs costs_cross_entropy = {{144, 96, 4 * 43, 4 * 73}, 6};

WITH_INPUTS(rmsnorm)
{
	in[0] = real(g, "x", dims(3, B, T, C));
	in[1] = real(g, "gain", dims(1, C, 1, 1));
	return 2;
}
/* 4 * 24 + 4 * 6; 9 * 24 + 2 * 6.  Forward 24 + 4 + 24 + 6; backward 24 + 4 + 6 + 24 and 28. */
static const struct costs costs_rmsnorm = {{120, 228, 4 * 58, 4 * 86}, 6};

WITH_INPUTS(rope)
{
	in[0] = real(g, "x", dims(3, B, T, C));
	return 1;
}
static const struct costs costs_rope = {{72, 72, 4 * 48, 4 * 48}, 0};

WITH_INPUTS(swiglu)
{
	in[0] = real(g, "gate", dims(3, B, T, C));
	in[1] = real(g, "up", dims(3, B, T, C));
	return 2;
}
static const struct costs costs_swiglu = {{120, 264, 4 * 72, 4 * 120}, 0};

WITH_INPUTS(relu)
{
	in[0] = real(g, "x", dims(3, B, T, C));
	return 1;
}
static const struct costs costs_relu = {{24, 24, 4 * 48, 4 * 72}, 0};

/* 120 elements. */
static uint32_t images(struct graph *g)
{
	return real(g, "x", shape_make(4, B, 3, 5, 4));
}

WITH_INPUTS(conv2d)
{
	in[0] = images(g);
	in[1] = real(g, "weight", shape_make(4, O, 3, 3, 2));
	in[2] = real(g, "bias", dims(1, O, 1, 1));
	return 3;
}
/* y is [2,6,3,3]: 108 elements, each of 18 products, and 108 are in the weight.  Forward 120 + 108
 * + 6 + 108; backward 120 + 108 + 108 and 234. */
static const struct costs costs_conv2d = {{3996, 7884, 4 * 342, 4 * 570}, 0};

WITH_INPUTS(batchnorm)
{
	in[0] = images(g);
	in[1] = real(g, "gain", dims(1, 3, 1, 1));
	in[2] = real(g, "bias", dims(1, 3, 1, 1));
	in[3] = real(g, "mean", dims(1, 3, 1, 1));
	in[4] = real(g, "var", dims(1, 3, 1, 1));
	for (uint32_t i = 3; i < 5 && in[i] != GRAPH_NONE; i++)
		g->tensors[in[i]].buffer = true;
	return 5;
}
/* 7 * 120; 11 * 120.  Forward 120 + 12 + 120 + 6; backward 120 + 3 + 6 + 120 and 126. */
static const struct costs costs_batchnorm = {{840, 1320, 4 * 258, 4 * 375}, 6};

WITH_INPUTS(maxpool)
{
	in[0] = images(g);
	return 1;
}
/* y is [2,3,3,2]: 36 windows of 9.  Forward 120 + 36; backward 120 + 36 + 36 and 120. */
static const struct costs costs_maxpool = {{324, 324, 4 * 156, 4 * 312}, 0};

WITH_INPUTS(global_average)
{
	in[0] = images(g);
	return 1;
}
static const struct costs costs_global_average = {{120, 120, 4 * 126, 4 * 126}, 0};

struct op_case {
	uint32_t (*inputs)(struct graph *g, uint32_t *in);
	const struct costs *costs;
};

static const struct op_case cases[OP_COUNT] = {
#define X(id, name) [OP_##name] = {inputs_##name, &costs_##name},
	OP_LIST(X)
#undef X
};

static const struct node attrs = {.heads = HEADS,
	.window = 3,
	.stride = 2,
	.pad = 1,
	.eps = 1e-5f,
	.theta = 10000,
	.momentum = 0.1f};

static void every_op_costs_what_the_hand_says(void **state)
{
	(void)state;
	for (int op = 1; op < OP_COUNT; op++) {
		struct graph *g = graph_new(B, T);
		uint32_t in[NODE_IN_MAX], n = cases[op].inputs(g, in);
		assert_int_not_equal(graph_node(g, 0, (enum op)op, in, n, &attrs), GRAPH_NONE);
		const struct op_def *def = op_def((enum op)op);
		struct op_cost c;
		def->cost(g, &g->nodes[0], &c);
		const struct costs *must = cases[op].costs;
		if (memcmp(&c, &must->c, sizeof c))
			fail_msg("%s costs %llu %llu flops, %llu %llu bytes", def->name,
				(unsigned long long)c.flops_forward,
				(unsigned long long)c.flops_backward,
				(unsigned long long)c.bytes_forward,
				(unsigned long long)c.bytes_backward);
		assert_int_equal(def->saved ? def->saved(g, &g->nodes[0]) : 0, must->saved);
		graph_free(g);
	}
}

static void a_linear_without_bias_costs_less(void **state)
{
	(void)state;
	struct graph *g = graph_new(B, T);
	uint32_t in[NODE_IN_MAX];
	cases[OP_linear].inputs(g, in);
	graph_node(g, 0, OP_linear, in, 2, NULL);
	struct op_cost c;
	op_def(OP_linear)->cost(g, &g->nodes[0], &c);
	assert_int_equal(c.flops_forward, 288);
	assert_int_equal(c.flops_backward, 576);
	graph_free(g);
}

/* 4 query heads over 2 key heads: k and v have half of q's width, the same pairs are counted. */
static void shared_keys_cost_less_bytes_only(void **state)
{
	(void)state;
	const struct node wide = {.heads = 4}, shared = {.heads = 4, .kv_heads = 2};
	struct op_cost all, half;
	for (int i = 0; i < 2; i++) {
		struct graph *g = graph_new(B, T);
		const uint32_t in[] = {real(g, "q", dims(3, B, T, 8)),
			real(g, "k", dims(3, B, T, i ? 4 : 8)),
			real(g, "v", dims(3, B, T, i ? 4 : 8))};
		graph_node(g, 0, OP_attention, in, 3, i ? &shared : &wide);
		assert_int_equal(g->mistake.code, ERR_OK);
		op_def(OP_attention)->cost(g, &g->nodes[0], i ? &half : &all);
		graph_free(g);
	}
	assert_int_equal(all.flops_forward, half.flops_forward);
	assert_int_equal(all.flops_backward, half.flops_backward);
	assert_int_equal(all.bytes_forward - half.bytes_forward, 4 * 2 * 24);
	assert_int_equal(all.bytes_backward - half.bytes_backward, 4 * 4 * 24);
}

static void the_list_is_whole(void **state)
{
	(void)state;
	for (int op = 1; op < OP_COUNT; op++) {
		const struct op_def *def = op_def((enum op)op);
		assert_non_null(def);
		assert_true(def->min_in >= 1 && def->min_in <= def->max_in);
		assert_true(def->max_in <= NODE_IN_MAX);
		assert_int_equal(def->gradient_in & def->token_in, 0);
		assert_int_equal(
			(def->gradient_in | def->token_in | def->backward_in | def->buffer_in) >>
				def->max_in,
			0);
		assert_int_equal(def->buffer_in & (def->gradient_in | def->token_in), 0);
		assert_int_equal(def->token_in != 0, def->token_limit != NULL);
	}
	assert_null(op_def(OP_none));
	assert_null(op_def(OP_COUNT));
}

/* ---- refusals */

/* The node is refused with this sentence, and the graph says it again when finished. */
static void refused(struct graph *g, enum op op, const uint32_t *in, uint32_t n, const char *must)
{
	struct why why = {0};
	assert_int_equal(graph_node(g, 0, op, in, n, &attrs), GRAPH_NONE);
	assert_int_not_equal(graph_finish(g, &why), ERR_OK);
	if (!strstr(why.text, must))
		fail_msg("\"%s\" does not say \"%s\"", why.text, must);
	graph_free(g);
}

struct wrong {
	enum op op;
	uint32_t input; /* which one is replaced */
	struct shape shape;
	const char *must;
};

static void wrong_shapes_are_named(void **state)
{
	(void)state;
	const struct wrong list[] = {
		{OP_token_embed, 0, dims(3, B, T, 1), "input 0 (wrong) is [2,3,1], must be [B,T]"},
		{OP_token_embed, 1, dims(1, V, 1, 1), "input 1 (wrong) is [5], must be [V,C]"},
		{OP_pos_embed, 0, dims(2, B, T, 1), "must be [B,T,C]"},
		{OP_pos_embed, 1, dims(2, T - 1, C, 1), "must be [Tmax,4] with at least 3 rows"},
		{OP_pos_embed, 1, dims(2, TMAX, C + 1, 1), "must be [Tmax,4] with at least 3 rows"},
		{OP_layernorm, 0, dims(0, 1, 1, 1), "must be [..,C]"},
		{OP_layernorm, 1, dims(1, C + 1, 1, 1), "input 1 (wrong) is [5], must be [4]"},
		{OP_layernorm, 2, dims(2, 1, C, 1), "input 2 (wrong) is [1,4], must be [4]"},
		{OP_linear, 0, dims(0, 1, 1, 1), "must be [..,I]"},
		{OP_linear, 1, dims(2, O, C + 1, 1), "input 1 (wrong) is [6,5], must be [O,4]"},
		{OP_linear, 2, dims(1, C, 1, 1), "input 2 (wrong) is [4], must be [6]"},
		{OP_attention, 0, dims(3, B, T, 3 * 3), "is [2,3,9], must be [B,T,6 D]"},
		{OP_attention, 0, dims(2, B, 12, 1), "must be [B,T,6 D]"},
		{OP_add, 1, dims(3, B, T, C + 1), "input 1 (wrong) is [2,3,5], must be [2,3,4]"},
		{OP_cross_entropy, 0, dims(1, V, 1, 1), "must be [..,V]"},
		{OP_cross_entropy, 1, dims(2, B, T + 1, 1), "is [2,4], must be [2,3]"},
		{OP_rmsnorm, 0, dims(0, 1, 1, 1), "must be [..,C]"},
		{OP_rmsnorm, 1, dims(1, C + 1, 1, 1), "input 1 (wrong) is [5], must be [4]"},
		{OP_rope, 0, dims(3, B, T, 6),
			"is [2,3,6], must be [B,T,C] with C a multiple of "
			"twice 2 heads"},
		{OP_rope, 0, dims(2, B, C, 1), "must be [B,T,C]"},
		{OP_swiglu, 1, dims(3, B, T, C + 1), "is [2,3,5], must be [2,3,4]"},
		{OP_conv2d, 0, dims(3, B, T, C), "must be [N,C,H,W]"},
		{OP_conv2d, 1, shape_make(4, O, 4, 3, 2), "is [6,4,3,2], must be [O,3,R,S]"},
		{OP_conv2d, 1, shape_make(4, O, 3, 8, 2), "a 8 x 2 kernel with stride 2 and pad 1"},
		{OP_conv2d, 2, dims(1, O + 1, 1, 1), "input 2 (wrong) is [7], must be [6]"},
		{OP_batchnorm, 0, dims(3, B, 3, 5), "must be [N,C,H,W] or [N,C]"},
		{OP_batchnorm, 2, dims(1, 4, 1, 1), "input 2 (wrong) is [4], must be [3]"},
		{OP_maxpool, 0, dims(3, B, 3, 5), "must be [N,C,H,W]"},
		{OP_global_average, 0, dims(3, B, 3, 5), "must be [N,C,H,W]"},
	};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		const struct wrong *w = &list[i];
		struct graph *g = graph_new(B, T);
		uint32_t in[NODE_IN_MAX], n = cases[w->op].inputs(g, in);
		bool tokens = op_def(w->op)->token_in >> w->input & 1;
		in[w->input] =
			graph_input(g, "wrong", &w->shape, tokens ? DTYPE_token : DTYPE_real);
		refused(g, w->op, in, n, w->must);
	}
}

static void wrong_inputs_are_named(void **state)
{
	(void)state;
	uint32_t in[NODE_IN_MAX];
	struct graph *g = graph_new(B, T);
	cases[OP_add].inputs(g, in);
	refused(g, OP_add, in, 1, "op 7 with 1 inputs");
	g = graph_new(B, T);
	refused(g, OP_COUNT, in, 1, "is not in the list of ops");
	g = graph_new(B, T);
	refused(g, OP_gelu, (const uint32_t[]){17}, 1, "tensor 17, which does not exist");
	g = graph_new(B, T);
	in[0] = token(g, dims(3, B, T, C));
	refused(g, OP_gelu, in, 1, "gelu.0: input 0 (tokens) must hold reals");
	g = graph_new(B, T);
	cases[OP_token_embed].inputs(g, in);
	in[0] = real(g, "x", dims(2, B, T, 1));
	refused(g, OP_token_embed, in, 2, "input 0 (x) must hold tokens");
	g = graph_new(B, T);
	in[0] = in[1] = real(g, "x", dims(3, B, T, C));
	refused(g, OP_add, in, 2, "inputs 0 and 1 are the same tensor (x)");
}

static void wrong_attributes_are_named(void **state)
{
	(void)state;
	const struct {
		enum op op;
		struct node attrs;
		const char *must;
	} list[] = {
		{OP_attention, {.heads = 0}, "0 query heads over 0 key heads"},
		{OP_attention, {.heads = 3, .kv_heads = 2}, "3 query heads over 2 key heads"},
		{OP_rope, {.heads = 0, .theta = 10}, "twice 0 heads"},
		{OP_rope, {.heads = 2, .theta = 1}, "theta is 1, must be above 1"},
		{OP_rope, {.heads = 2, .theta = NAN}, "must be above 1"},
		{OP_conv2d, {.stride = 0}, "stride 0"},
		{OP_conv2d, {.stride = 1, .pad = UINT32_MAX}, "pad 4294967295 does not fit"},
		{OP_maxpool, {.window = 0, .stride = 1}, "a window of 0"},
		{OP_maxpool, {.window = 2, .stride = 1, .pad = 2}, "window of 2 with stride 1"},
		{OP_maxpool, {.window = 6, .stride = 1}, "does not fit into 5 x 4"},
	};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		struct graph *g = graph_new(B, T);
		struct why why = {0};
		uint32_t in[NODE_IN_MAX], n = cases[list[i].op].inputs(g, in);
		assert_int_equal(graph_node(g, 0, list[i].op, in, n, &list[i].attrs), GRAPH_NONE);
		assert_int_not_equal(graph_finish(g, &why), ERR_OK);
		if (!strstr(why.text, list[i].must))
			fail_msg("\"%s\" does not say \"%s\"", why.text, list[i].must);
		graph_free(g);
	}
}

/* q, k and v apart: their widths must fit to each other and to the heads. */
static void three_inputs_must_fit(void **state)
{
	(void)state;
	const struct node shared = {.heads = 4, .kv_heads = 2};
	const struct {
		uint32_t n_in, q, k, v;
		const char *must;
	} list[] = {
		{3, 8, 8, 4, "input 1 (k) is [2,3,8], must be [2,3,4]"},
		{3, 8, 4, 2, "input 2 (v) is [2,3,2], must be [2,3,4]"},
		{3, 6, 3, 3, "input 0 (q) is [2,3,6], must be [B,T,4 D]"},
		{2, 8, 4, 4, "not two"},
	};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		struct graph *g = graph_new(B, T);
		struct why why = {0};
		const uint32_t in[] = {real(g, "q", dims(3, B, T, list[i].q)),
			real(g, "k", dims(3, B, T, list[i].k)),
			real(g, "v", dims(3, B, T, list[i].v))};
		graph_node(g, 0, OP_attention, in, list[i].n_in, &shared);
		assert_int_not_equal(graph_finish(g, &why), ERR_OK);
		if (!strstr(why.text, list[i].must))
			fail_msg("\"%s\" does not say \"%s\"", why.text, list[i].must);
		graph_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_list_is_whole),
		cmocka_unit_test(every_op_costs_what_the_hand_says),
		cmocka_unit_test(a_linear_without_bias_costs_less),
		cmocka_unit_test(shared_keys_cost_less_bytes_only),
		cmocka_unit_test(wrong_shapes_are_named),
		cmocka_unit_test(wrong_inputs_are_named),
		cmocka_unit_test(wrong_attributes_are_named),
		cmocka_unit_test(three_inputs_must_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
