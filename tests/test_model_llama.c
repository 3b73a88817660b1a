/* The builder of Llama's architecture: its parameters against published sizes, their names and
 * places, how its nodes are joined, and what is refused. */
#include <math.h>
#include <string.h>
#include "model/segment.h"
#include "tests/help_graph.h"

static struct model_config llama(void)
{
	struct model_config m = {.builder = "llama",
		.layers = 3,
		.width = 16,
		.heads = 4,
		.kv_heads = 2,
		.hidden = 20,
		.context = 8,
		.vocab = 23,
		.n_shards = 3,
		.shard_first = {0, 1, 2}};
	return m;
}

static void published_sizes_come_out(void **state)
{
	(void)state;
	static const struct {
		struct model_config m;
		uint64_t params;
	} rows[] = {
		/* Llama 2 7B, Llama 3 8B, Llama 3.2 1B */
		{{.layers = 32, .width = 4096, .heads = 32, .hidden = 11008, .vocab = 32000},
			6738415616},
		{{.layers = 32,
			 .width = 4096,
			 .heads = 32,
			 .kv_heads = 8,
			 .hidden = 14336,
			 .vocab = 128256},
			8030261248},
		{{.layers = 16,
			 .width = 2048,
			 .heads = 32,
			 .kv_heads = 8,
			 .hidden = 8192,
			 .vocab = 128256,
			 .tied = true},
			1235814400},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct model_config m = rows[i].m;
		snprintf(m.builder, sizeof m.builder, "llama");
		m.context = 4096;
		m.n_shards = 1;
		struct graph *g = help_graph_build(&m, 1, 16);
		assert_int_equal(graph_params(g), rows[i].params);
		graph_free(g);
	}
}

static void parameters_have_their_names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		uint32_t shard, rank, d0, d1;
		double std; /* 0: ones */
	} rows[] = {
		{"model.embed_tokens.weight", 0, 2, 23, 16, 0.02},
		{"model.layers.0.input_layernorm.weight", 0, 1, 16, 1, 0},
		{"model.layers.0.self_attn.q_proj.weight", 0, 2, 16, 16, 0.02},
		{"model.layers.1.self_attn.k_proj.weight", 1, 2, 8, 16, 0.02},
		{"model.layers.1.self_attn.v_proj.weight", 1, 2, 8, 16, 0.02},
		{"model.layers.1.self_attn.o_proj.weight", 1, 2, 16, 16, 0.02 / 2.449489742783178},
		{"model.layers.1.post_attention_layernorm.weight", 1, 1, 16, 1, 0},
		{"model.layers.2.mlp.gate_proj.weight", 2, 2, 20, 16, 0.02},
		{"model.layers.2.mlp.up_proj.weight", 2, 2, 20, 16, 0.02},
		{"model.layers.2.mlp.down_proj.weight", 2, 2, 16, 20, 0.02 / 2.449489742783178},
		{"model.norm.weight", 2, 1, 16, 1, 0},
		{"lm_head.weight", 2, 2, 23, 16, 0.02},
	};
	struct model_config m = llama();
	struct graph *g = help_graph_build(&m, 2, 5);
	uint32_t params = 0;
	for (uint32_t i = 0; i < g->n_tensors; i++)
		params += g->tensors[i].role == TENSOR_param;
	assert_int_equal(params, 3 * 9 + 3);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		uint32_t at = graph_find(g, rows[i].name);
		if (at == GRAPH_NONE)
			fail_msg("no %s", rows[i].name);
		const struct tensor *t = &g->tensors[at];
		struct shape s = shape_make(rows[i].rank, rows[i].d0, rows[i].d1, 1, 1);
		assert_true(shape_equal(&t->shape, &s));
		assert_int_equal(t->shard, rows[i].shard);
		assert_int_equal(t->decay, rows[i].rank == 2);
		assert_int_equal(t->init, rows[i].std > 0 ? INIT_normal : INIT_one);
		assert_true(fabs((double)t->init_std - rows[i].std) < 1e-8);
	}
	graph_free(g);
}

static const struct node *nth(const struct graph *g, enum op op, uint32_t n)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i].op == op && n-- == 0)
			return &g->nodes[i];
	fail_msg("no such node");
	return NULL;
}

/* Queries and keys are turned, values are not; numbers of the config reach their nodes. */
static void numbers_reach_their_nodes(void **state)
{
	(void)state;
	struct model_config m = llama();
	m.rope_theta = 500000;
	m.norm_eps = 1e-6;
	struct graph *g = help_graph_build(&m, 2, 5);
	const struct node *a = nth(g, OP_attention, 1);
	assert_int_equal(a->heads, 4);
	assert_int_equal(a->kv_heads, 2);
	const struct node *q = &g->nodes[g->tensors[a->in[0]].producer];
	const struct node *k = &g->nodes[g->tensors[a->in[1]].producer];
	const struct node *v = &g->nodes[g->tensors[a->in[2]].producer];
	assert_int_equal(q->op, OP_rope);
	assert_int_equal(k->op, OP_rope);
	assert_int_equal(v->op, OP_linear);
	assert_string_equal(g->tensors[v->in[1]].name, "model.layers.1.self_attn.v_proj.weight");
	assert_int_equal(q->heads, 4);
	assert_int_equal(k->heads, 2);
	assert_true(q->theta == 500000.0f && k->theta == 500000.0f);
	assert_true(nth(g, OP_rmsnorm, 6)->eps == 1e-6f);
	const struct node *gate = nth(g, OP_swiglu, 0);
	const struct node *first = &g->nodes[g->tensors[gate->in[0]].producer];
	assert_string_equal(g->tensors[first->in[1]].name, "model.layers.0.mlp.gate_proj.weight");
	graph_free(g);
	m = llama();
	m.kv_heads = 0;
	g = help_graph_build(&m, 2, 5);
	assert_int_equal(nth(g, OP_attention, 0)->kv_heads, 4);
	assert_true(nth(g, OP_rope, 0)->theta == 10000.0f);
	assert_true(nth(g, OP_rmsnorm, 0)->eps == 1e-5f);
	graph_free(g);
}

static void blocks_can_be_cut_apart(void **state)
{
	(void)state;
	struct model_config m = llama();
	struct graph *g = help_graph_build(&m, 2, 5);
	struct segments s;
	struct why why = {0};
	assert_int_equal(segment_cut(g, (const uint32_t[]){1}, 1, &s, &why), ERR_OK);
	assert_int_equal(s.at[0].n_in, 1);
	assert_int_equal(s.at[0].n_out, 1);
	segment_release(&s);
	graph_free(g);
	m.tied = true;
	g = help_graph_build(&m, 2, 5);
	assert_int_equal(segment_cut(g, (const uint32_t[]){2}, 1, &s, &why), ERR_refused);
	assert_non_null(strstr(why.text, "model.embed_tokens.weight of shard 0"));
	graph_free(g);
}

static void wrong_models_are_refused(void **state)
{
	(void)state;
	static const struct {
		size_t field;
		uint32_t value;
		const char *must;
	} wrong[] = {
		{offsetof(struct model_config, layers), 0, "model.layers: 0"},
		{offsetof(struct model_config, width), 18, "does not divide the width of 18"},
		{offsetof(struct model_config, width), 12, "a head has 3 numbers, must be even"},
		{offsetof(struct model_config, kv_heads), 3, "model.kv_heads: 3 does not divide"},
		{offsetof(struct model_config, kv_heads), 8, "model.kv_heads: 8 does not divide"},
		{offsetof(struct model_config, hidden), 0, "model.hidden: 0"},
		{offsetof(struct model_config, hidden), UINT32_MAX, "model.hidden: 4294967295"},
		{offsetof(struct model_config, vocab), 0, "model.vocab is 0"},
		{offsetof(struct model_config, context), 4, "model.context (4)"},
		{offsetof(struct model_config, n_shards), 4, "4 shards of 3 layers"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct model_config m = llama();
		memcpy((char *)&m + wrong[i].field, &wrong[i].value, sizeof wrong[i].value);
		struct graph *g = NULL;
		struct why why = {0};
		assert_int_equal(graph_build(&m, 2, 5, &g, &why), ERR_range);
		if (!strstr(why.text, wrong[i].must))
			fail_msg("\"%s\" does not say \"%s\"", why.text, wrong[i].must);
		assert_null(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_sizes_come_out),
		cmocka_unit_test(parameters_have_their_names),
		cmocka_unit_test(numbers_reach_their_nodes),
		cmocka_unit_test(blocks_can_be_cut_apart),
		cmocka_unit_test(wrong_models_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
