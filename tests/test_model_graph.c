/* The op graph and its first builder: names and places of parameters, initial values, shards and
 * their borders, and what is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/segment.h"
#include "tests/help_graph.h"

static void told(const struct why *why, enum err code, const char *part)
{
	assert_int_equal(why->code, code);
	if (!strstr(why->text, part))
		fail_msg("\"%s\" does not say \"%s\"", why->text, part);
}

/* ---- the builder */

static struct model_config gpt2(void)
{
	struct model_config m = {.builder = "gpt",
		.layers = 12,
		.width = 768,
		.heads = 12,
		.context = 1024,
		.vocab = 50257,
		.tied = true,
		.n_shards = 3,
		.shard_first = {0, 4, 8}};
	return m;
}

static void gpt2_has_its_parameters(void **state)
{
	(void)state;
	struct model_config m = gpt2();
	struct graph *g = help_graph_build(&m, 4, 64);
	assert_int_equal(graph_params(g), 124439808);
	assert_int_equal(g->n_shards, 3);
	assert_int_equal(g->shard_params[1], 4 * 7087872);
	assert_int_equal(g->shard_params[2], 4 * 7087872 + 2 * 768);
	static const struct {
		const char *name;
		uint32_t shard, rank, d0, d1;
	} some[] = {
		{"wte.weight", 0, 2, 50257, 768},
		{"wpe.weight", 0, 2, 1024, 768},
		{"h.0.ln_1.weight", 0, 1, 768, 1},
		{"h.3.attn.c_attn.weight", 0, 2, 2304, 768},
		{"h.4.attn.c_attn.bias", 1, 1, 2304, 1},
		{"h.7.attn.c_proj.weight", 1, 2, 768, 768},
		{"h.8.ln_2.bias", 2, 1, 768, 1},
		{"h.9.mlp.c_fc.weight", 2, 2, 3072, 768},
		{"h.11.mlp.c_proj.weight", 2, 2, 768, 3072},
		{"ln_f.bias", 2, 1, 768, 1},
	};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		uint32_t at = graph_find(g, some[i].name);
		assert_int_not_equal(at, GRAPH_NONE);
		const struct tensor *t = &g->tensors[at];
		struct shape s = shape_make(some[i].rank, some[i].d0, some[i].d1, 1, 1);
		assert_true(shape_equal(&t->shape, &s));
		assert_int_equal(t->shard, some[i].shard);
		assert_int_equal(t->decay, some[i].rank == 2);
	}
	assert_int_equal(graph_find(g, "lm_head.weight"), GRAPH_NONE);
	struct shape logits = shape_make(3, 4, 64, 50257, 1);
	assert_true(shape_equal(&g->tensors[g->logits].shape, &logits));
	graph_free(g);
	m.tied = false;
	g = help_graph_build(&m, 1, 1);
	assert_int_equal(graph_params(g), 124439808 + 50257 * 768);
	assert_int_equal(g->tensors[graph_find(g, "lm_head.weight")].shard, 2);
	graph_free(g);
}

/* Every element of a shard's vector belongs to one parameter; the matrices lie first. */
static void parameters_tile_their_shard(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(3, false);
	struct graph *g = help_graph_build(&m, 2, 5);
	for (uint32_t s = 0; s < g->n_shards; s++) {
		uint8_t *owned = calloc(g->shard_params[s], 1);
		for (uint32_t i = 0; i < g->n_tensors; i++) {
			const struct tensor *t = &g->tensors[i];
			if (t->role != TENSOR_param || t->shard != s)
				continue;
			for (uint64_t k = 0; k < shape_count(&t->shape); k++) {
				assert_int_equal(owned[t->offset + k]++, 0);
				assert_int_equal(t->offset + k < g->shard_decay[s], t->decay);
			}
		}
		for (uint64_t k = 0; k < g->shard_params[s]; k++)
			assert_int_equal(owned[k], 1);
		free(owned);
	}
	graph_free(g);
}

static void batch_and_sequence_move_no_parameter(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(2, true);
	struct graph *a = help_graph_build(&m, 1, 1), *b = help_graph_build(&m, 7, 16);
	assert_int_equal(a->n_tensors, b->n_tensors);
	for (uint32_t i = 0; i < a->n_tensors; i++) {
		assert_string_equal(a->tensors[i].name, b->tensors[i].name);
		assert_int_equal(a->tensors[i].offset, b->tensors[i].offset);
		assert_int_equal(a->tensors[i].shard, b->tensors[i].shard);
	}
	graph_free(a);
	graph_free(b);
}

/* ---- initial values */

static float *initial(const struct graph *g, uint32_t shard, uint64_t seed)
{
	float *x = alloc_must_zero(g->shard_params[shard], sizeof *x);
	graph_init_shard(g, shard, seed, x);
	return x;
}

static void check_spread(const struct graph *g, const float *x, const char *name, double std)
{
	const struct tensor *t = &g->tensors[graph_find(g, name)];
	uint64_t n = shape_count(&t->shape);
	double sum = 0, square = 0;
	for (uint64_t i = 0; i < n; i++) {
		sum += (double)x[t->offset + i];
		square += (double)x[t->offset + i] * (double)x[t->offset + i];
	}
	assert_true(fabs(sum / (double)n) < 5 * std / sqrt((double)n));
	assert_true(fabs(sqrt(square / (double)n) / std - 1) < 0.1);
}

static void initial_values_have_their_spread(void **state)
{
	(void)state;
	struct model_config m = {.builder = "gpt",
		.layers = 2,
		.width = 64,
		.heads = 4,
		.context = 32,
		.vocab = 100,
		.n_shards = 1};
	struct graph *g = help_graph_build(&m, 1, 8);
	float *x = initial(g, 0, 7);
	check_spread(g, x, "wte.weight", 0.02);
	check_spread(g, x, "wpe.weight", 0.02);
	check_spread(g, x, "lm_head.weight", 0.02);
	check_spread(g, x, "h.0.attn.c_attn.weight", 0.02);
	check_spread(g, x, "h.1.mlp.c_fc.weight", 0.02);
	check_spread(g, x, "h.0.attn.c_proj.weight", 0.01);
	check_spread(g, x, "h.1.mlp.c_proj.weight", 0.01);
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role != TENSOR_param || t->shape.rank != 1)
			continue;
		float must = strstr(t->name, ".bias") ? 0 : 1;
		for (uint64_t k = 0; k < t->shape.dim[0]; k++)
			assert_true(x[t->offset + k] == must);
	}
	free(x);
	graph_free(g);
}

static void initial_values_do_not_depend_on_the_cut(void **state)
{
	(void)state;
	struct model_config one = help_graph_config(4, false), four = one;
	one.n_shards = 1;
	struct graph *a = help_graph_build(&one, 1, 4), *b = help_graph_build(&four, 1, 4);
	float *whole = initial(a, 0, 99), *other = initial(a, 0, 100);
	assert_memory_not_equal(whole, other, a->shard_params[0] * sizeof *whole);
	for (uint32_t s = 0; s < b->n_shards; s++) {
		float *part = initial(b, s, 99);
		for (uint32_t i = 0; i < b->n_tensors; i++) {
			const struct tensor *t = &b->tensors[i];
			if (t->role != TENSOR_param || t->shard != s)
				continue;
			const struct tensor *in_whole = &a->tensors[graph_find(a, t->name)];
			assert_memory_equal(part + t->offset, whole + in_whole->offset,
				shape_count(&t->shape) * sizeof *part);
		}
		free(part);
	}
	free(whole);
	free(other);
	graph_free(a);
	graph_free(b);
}

/* ---- refusals */

static void wrong_models_are_refused(void **state)
{
	(void)state;
	static const struct {
		size_t field;
		uint32_t value;
		const char *must;
	} wrong[] = {
		{offsetof(struct model_config, layers), 0, "model.layers: 0"},
		{offsetof(struct model_config, layers), UINT32_MAX, "model.layers: 4294967295"},
		{offsetof(struct model_config, width), 0, "model.width: 0"},
		{offsetof(struct model_config, width), 1u << 31, "model.width"},
		{offsetof(struct model_config, heads), 5, "model.heads: 5 does not divide"},
		{offsetof(struct model_config, heads), 0, "model.heads: 0"},
		{offsetof(struct model_config, vocab), 0, "model.vocab is 0"},
		{offsetof(struct model_config, vocab), UINT32_MAX, "model.vocab is 4294967295"},
		{offsetof(struct model_config, context), 0, "model.context 0"},
		{offsetof(struct model_config, context), 4,
			"no sequence longer than model.context (4)"},
		{offsetof(struct model_config, n_shards), 0, "0 shards of 3 layers"},
		{offsetof(struct model_config, n_shards), 4, "4 shards of 3 layers"},
		{offsetof(struct model_config, shard_first), 1, "first shard starts at layer 1"},
		{offsetof(struct model_config, shard_first[1]), 0, "shard 1 starts at layer 0"},
		{offsetof(struct model_config, shard_first[2]), 3, "shard 2 starts at layer 3"},
		{offsetof(struct model_config, builder), 0x7878,
			"model.builder \"xx\" is not one of: gpt"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct model_config m = help_graph_config(3, true);
		memcpy((char *)&m + wrong[i].field, &wrong[i].value, sizeof wrong[i].value);
		struct graph *g = NULL;
		struct why why = {0};
		enum err e = graph_build(&m, 2, 5, &g, &why);
		assert_true(e == ERR_range || e == ERR_unsupported);
		told(&why, e, wrong[i].must);
		assert_null(g);
	}
}

static void tensors_beyond_reason_are_refused(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(1, true);
	m.context = 1u << 20;
	struct graph *g = NULL;
	struct why why = {0};
	assert_int_equal(graph_build(&m, UINT32_MAX, m.context, &g, &why), ERR_toobig);
	told(&why, ERR_toobig, "must have from 1 to 2^40 elements");
	assert_null(g);
}

static struct graph *half_made(uint32_t *x)
{
	struct graph *g = graph_new(2, 3);
	struct shape tokens = shape_make(2, 2, 3, 1, 1), table = shape_make(2, 5, 4, 1, 1);
	g->tokens_in = graph_input(g, "tokens", &tokens, DTYPE_token);
	uint32_t wte = graph_param(g, 0, "wte", &table, INIT_normal, 1);
	*x = graph_node(g, 0, OP_token_embed, (const uint32_t[]){g->tokens_in, wte}, 2, NULL);
	return g;
}

static void finish_refuses(struct graph *g, const char *must)
{
	struct why why = {0};
	enum err e = graph_finish(g, &why);
	assert_int_not_equal(e, ERR_OK);
	told(&why, e, must);
	graph_free(g);
}

static void unfinished_graphs_are_refused(void **state)
{
	(void)state;
	uint32_t x;
	struct shape s = shape_make(1, 4, 1, 1, 1);
	finish_refuses(graph_new(1, 1), "without nodes");
	finish_refuses(half_made(&x), "tensor token_embed.0 is not used");
	struct graph *g = half_made(&x);
	g->logits = x;
	graph_param(g, 0, "orphan", &s, INIT_zero, 0);
	finish_refuses(g, "tensor orphan is not used");
	g = half_made(&x);
	g->logits = x;
	graph_input(g, "wte", &s, DTYPE_real);
	finish_refuses(g, "two tensors are called wte");
	g = half_made(&x);
	g->loss = x;
	finish_refuses(g, "the loss token_embed.0 must be one number");
	g = half_made(&x);
	graph_node(g, 2, OP_gelu, &x, 1, NULL);
	finish_refuses(g, "gelu.1 is in shard 2 after a node in shard 0");
	g = half_made(&x);
	uint32_t y = graph_node(g, 1, OP_gelu, &x, 1, NULL);
	graph_node(g, 0, OP_gelu, &y, 1, NULL);
	finish_refuses(g, "gelu.2 is in shard 0 after a node in shard 1");
	g = half_made(&x);
	uint32_t far = graph_param(g, 3, "far", &s, INIT_zero, 0);
	uint32_t gain = graph_param(g, 0, "gain", &s, INIT_one, 0);
	const struct node attrs = {.eps = 1e-5f};
	g->logits = graph_node(g, 0, OP_layernorm, (const uint32_t[]){x, gain, far}, 3, &attrs);
	finish_refuses(g, "parameter far is in shard 3 of 1");
}

static void building_survives_a_lack_of_memory(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(8, true);
	assert_true(help_graph_build_without_memory(&m) > 6);
}

/* ---- segments */

static struct segments cut(const struct graph *g, const uint32_t *shards, uint32_t n)
{
	struct segments s;
	struct why why = {0};
	if (segment_cut(g, shards, n, &s, &why))
		fail_msg("%s", why.text);
	return s;
}

static void the_whole_has_no_borders(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(3, true);
	struct graph *g = help_graph_build(&m, 2, 5);
	struct segments s = cut(g, NULL, 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.at[0].n_nodes, g->n_nodes);
	assert_int_equal(s.at[0].n_shards, 3);
	assert_int_equal(s.at[0].n_in + s.at[0].n_out, 0);
	segment_release(&s);
	segment_release(&s);
	graph_free(g);
}

/* Only the residual stream crosses between blocks. */
static void one_tensor_crosses_between_blocks(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(4, false);
	struct graph *g = help_graph_build(&m, 2, 5);
	struct segments odd = cut(g, (const uint32_t[]){0, 2}, 2);
	struct segments even = cut(g, (const uint32_t[]){1, 3}, 2);
	assert_int_equal(odd.n, 2);
	assert_int_equal(even.n, 2);
	assert_int_equal(odd.at[0].n_in, 0);
	assert_int_equal(odd.at[0].n_out, 1);
	assert_int_equal(even.at[0].in[0], odd.at[0].out[0]);
	assert_int_equal(odd.at[1].in[0], even.at[0].out[0]);
	assert_int_equal(even.at[1].in[0], odd.at[1].out[0]);
	assert_int_equal(even.at[1].n_out, 0);
	segment_release(&odd);
	segment_release(&even);
	struct segments two = cut(g, (const uint32_t[]){1, 2}, 2);
	assert_int_equal(two.n, 1);
	assert_int_equal(two.at[0].n_shards, 2);
	segment_release(&two);
	graph_free(g);
}

static void cut_refuses(
	const struct graph *g, const uint32_t *shards, uint32_t n, enum err code, const char *must)
{
	struct segments s;
	struct why why = {0};
	assert_int_equal(segment_cut(g, shards, n, &s, &why), code);
	told(&why, code, must);
	assert_null(s.at);
}

static void wrong_sets_are_refused(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(3, true);
	struct graph *g = help_graph_build(&m, 2, 5);
	cut_refuses(g, (const uint32_t[]){1, 2}, 2, ERR_refused,
		"shard 2 needs wte.weight of shard 0: both must be on one peer");
	cut_refuses(g, (const uint32_t[]){2}, 1, ERR_refused, "wte.weight");
	cut_refuses(g, (const uint32_t[]){0, 3}, 2, ERR_range, "shard 3 does not exist");
	cut_refuses(g, (const uint32_t[]){1, 1}, 2, ERR_range, "shard 1 is listed after shard 1");
	cut_refuses(g, (const uint32_t[]){1, 0}, 2, ERR_range, "shard 0 is listed after shard 1");
	cut_refuses(g, (const uint32_t[]){0}, 0, ERR_range, "at least one");
	struct segments s = cut(g, (const uint32_t[]){0, 2}, 2);
	assert_int_equal(s.n, 2);
	segment_release(&s);
	graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gpt2_has_its_parameters),
		cmocka_unit_test(parameters_tile_their_shard),
		cmocka_unit_test(batch_and_sequence_move_no_parameter),
		cmocka_unit_test(initial_values_have_their_spread),
		cmocka_unit_test(initial_values_do_not_depend_on_the_cut),
		cmocka_unit_test(wrong_models_are_refused),
		cmocka_unit_test(tensors_beyond_reason_are_refused),
		cmocka_unit_test(unfinished_graphs_are_refused),
		cmocka_unit_test(building_survives_a_lack_of_memory),
		cmocka_unit_test(the_whole_has_no_borders),
		cmocka_unit_test(one_tensor_crosses_between_blocks),
		cmocka_unit_test(wrong_sets_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
