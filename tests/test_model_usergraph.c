/* The user's graph: the builders' graphs written down and built again, nodes in any order, and
 * every mistake with the node and the line where it was made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/spec.h"
#include "model/usergraph.h"
#include "tests/help_graph.h"
#include "tests/help_model.h"
#include "tests/help_usergraph.h"

#define EXAMPLE "configs/graph-tiny.json"

/* ---- the builders' graphs */

static struct model_config llama(void)
{
	struct model_config m = {.builder = "llama",
		.layers = 2,
		.width = 16,
		.heads = 4,
		.kv_heads = 2,
		.hidden = 20,
		.context = 8,
		.vocab = 23,
		.norm_eps = 1e-6,
		.n_shards = 2,
		.shard_first = {0, 1}};
	return m;
}

static struct model_config resnet(void)
{
	struct model_config m = {.builder = "resnet",
		.layers = 3,
		.width = 8,
		.vocab = 7,
		.blocks = {2, 1},
		.bottleneck = true,
		.image = {3, 24, 20},
		.n_shards = 2,
		.shard_first = {0, 1}};
	return m;
}

static struct graph *build_user(
	const struct model_config *m, const char *text, uint32_t batch, uint32_t seq)
{
	struct model_config user = *m;
	snprintf(user.builder, sizeof user.builder, "graph");
	user.user = text;
	struct graph *g = NULL;
	struct why why = {0};
	if (graph_build(&user, batch, seq, &g, &why))
		fail_msg("%s", why.text);
	return g;
}

/* Params in the same places with the same start; nodes the same, in the same order if asked. */
static void same_params(const struct graph *is, const struct graph *must)
{
	assert_int_equal(is->n_shards, must->n_shards);
	assert_int_equal(is->n_tensors, must->n_tensors);
	assert_int_equal(is->n_nodes, must->n_nodes);
	for (uint32_t i = 0; i < must->n_tensors; i++) {
		const struct tensor *b = &must->tensors[i];
		uint32_t at = graph_find(is, b->name);
		if (b->role != TENSOR_param)
			continue;
		assert_int_not_equal(at, GRAPH_NONE);
		const struct tensor *a = &is->tensors[at];
		assert_true(shape_equal(&a->shape, &b->shape));
		assert_int_equal(a->shard, b->shard);
		assert_int_equal(a->offset, b->offset);
		assert_int_equal(a->init, b->init);
		assert_true(a->init_std >= b->init_std && a->init_std <= b->init_std);
		assert_int_equal(a->decay, b->decay);
		assert_int_equal(a->buffer, b->buffer);
	}
	for (uint32_t s = 0; s < must->n_shards; s++)
		assert_int_equal(is->shard_trained[s], must->shard_trained[s]);
}

static void same_nodes(const struct graph *is, const struct graph *must)
{
	for (uint32_t i = 0; i < must->n_nodes; i++) {
		struct node a = is->nodes[i], b = must->nodes[i];
		assert_string_equal(is->tensors[a.out].name, must->tensors[b.out].name);
		for (uint32_t j = 0; j < b.n_in; j++)
			assert_string_equal(is->tensors[a.in[j]].name, must->tensors[b.in[j]].name);
		assert_int_equal(a.op, b.op);
		assert_int_equal(a.n_in, b.n_in);
		assert_int_equal(a.shard, b.shard);
		assert_int_equal(a.heads, b.heads);
		/* None means as many as heads. */
		assert_int_equal(a.kv_heads, b.kv_heads ? b.kv_heads : a.kv_heads);
		assert_int_equal(a.window, b.window);
		assert_int_equal(a.stride, b.stride);
		assert_int_equal(a.pad, b.pad);
		const float *x[] = {&a.eps, &a.theta, &a.momentum, &b.eps, &b.theta, &b.momentum};
		for (int k = 0; k < 3; k++)
			assert_memory_equal(x[k], x[k + 3], sizeof(float));
	}
	assert_string_equal(is->tensors[is->logits].name, must->tensors[must->logits].name);
	assert_string_equal(is->tensors[is->loss].name, must->tensors[must->loss].name);
}

static void builders_can_be_written_down(void **state)
{
	(void)state;
	struct model_config all[] = {
		help_graph_config(3, true), help_graph_config(2, false), llama(), resnet()};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		uint32_t seq = all[i].image[0] ? 1 : 5;
		struct graph *must = help_graph_build(&all[i], 2, seq);
		json_t *doc = help_usergraph_of(must);
		char *text = json_canonical(doc);
		struct graph *is = build_user(&all[i], text, 2, seq);
		same_params(is, must);
		same_nodes(is, must);
		struct buf mistakes;
		buf_init(&mistakes, SPEC_MISTAKES_MAX);
		assert_int_equal(usergraph_check(doc, &all[i], &mistakes), must->n_shards);
		assert_int_equal(mistakes.len, 0);
		buf_release(&mistakes);
		graph_free(is);
		graph_free(must);
		json_decref(doc);
		free(text);
	}
}

/* Whatever the order of the nodes, they come out inputs first and shard by shard. */
static void nodes_may_come_in_any_order(void **state)
{
	(void)state;
	struct model_config m = llama();
	struct graph *must = help_graph_build(&m, 2, 5);
	json_t *doc = help_usergraph_of(must);
	json_t *nodes = json_object_get(doc, "nodes");
	for (uint64_t seed = 0; seed < 20; seed++) {
		for (size_t i = json_array_size(nodes) - 1; i > 0; i--) {
			size_t j = (size_t)rng_below(seed, 1, i, i + 1);
			json_t *a = json_incref(json_array_get(nodes, i));
			json_array_set(nodes, i, json_array_get(nodes, j));
			json_array_set_new(nodes, j, a);
		}
		char *text = json_canonical(doc);
		struct graph *is = build_user(&m, text, 2, 5);
		same_params(is, must);
		for (uint32_t i = 0; i < is->n_nodes; i++)
			for (uint32_t j = 0; j < is->nodes[i].n_in; j++) {
				const struct tensor *t = &is->tensors[is->nodes[i].in[j]];
				assert_true(t->role != TENSOR_value || t->producer < i);
			}
		graph_free(is);
		free(text);
	}
	json_decref(doc);
	graph_free(must);
}

/* Without a word, a node is where what it reads is. */
static void shards_follow_what_is_read(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(3, true);
	struct graph *must = help_graph_build(&m, 2, 5);
	json_t *doc = help_usergraph_of(must);
	for (uint32_t i = 0; i < must->n_nodes; i++)
		if (!i || must->nodes[i].shard == must->nodes[i - 1].shard)
			json_object_del(json_array_get(json_object_get(doc, "nodes"), i), "shard");
	char *text = json_canonical(doc);
	struct graph *is = build_user(&m, text, 2, 5);
	same_nodes(is, must);
	same_params(is, must);
	graph_free(is);
	graph_free(must);
	free(text);
	json_decref(doc);
}

static void the_example_is_read(void **state)
{
	(void)state;
	struct spec *s = NULL;
	struct graph *g = NULL;
	struct why why = {0};
	if (spec_load(EXAMPLE, NULL, 0, &s, NULL, &why) ||
		graph_build(&s->model, s->train.micro_batch, s->train.seq, &g, &why))
		fail_msg("%s", why.text);
	assert_string_equal(s->model.builder, "graph");
	assert_int_equal(s->model.n_shards, 2);
	assert_int_equal(g->n_shards, 2);
	assert_int_equal(graph_params(g), 132352);
	graph_free(g);
	spec_free(s);
}

/* ---- mistakes */

/* The example with one text in the place of another, as a file. */
static void replace(const char *from, const char *to, const char *file)
{
	uint8_t *bytes = NULL;
	size_t n = 0;
	struct why why = {0};
	if (file_read(EXAMPLE, SPEC_MAX_BYTES, &bytes, &n, &why))
		fail_msg("%s", why.text);
	char *at = strstr((char *)bytes, from);
	if (!at)
		fail_msg("the example has no %s", from);
	struct buf out;
	buf_init(&out, SPEC_MAX_BYTES);
	buf_put(&out, bytes, (size_t)(at - (char *)bytes));
	buf_printf(&out, "%s", to);
	at += strlen(from);
	buf_put(&out, at, n - (size_t)(at - (char *)bytes));
	help_model_write(file, out.data, out.len);
	buf_release(&out);
	free(bytes);
}

static size_t line_of(const char *file, const char *part)
{
	size_t n, line = 1;
	const char *text = (const char *)help_model_read(file, &n), *at = strstr(text, part);
	if (!at)
		fail_msg("no %s in the file", part);
	for (const char *c = text; c < at; c++)
		line += *c == '\n';
	return line;
}

/* What is replaced by what; where the mistake is and what is said of it; on the line of what. */
static const struct mistake {
	const char *from, *to, *path, *says, *line;
} mistakes[] = {
#define Q "\"h.0.q\", \"op\": \"linear\""
	{Q, "\"h.0.q\", \"op\": \"linar\"", "nodes[2](h.0.q).op", "must be one of token_embed",
		"linar"},
	{Q, "\"h 0.q\", \"op\": \"linear\"", "nodes[2].name", "letters, digits", "h 0.q"},
	{Q, "\"h.0.k\", \"op\": \"linear\"", "nodes[3].name",
		"is taken by model.graph.nodes[2](h.0.k)",
		"\"h.0.k\", \"op\": \"linear\", \"in\": [\"h.0.ln_1\", \"h.0.k.weight\"]"},
	{Q, "\"wte.weight\", \"op\": \"linear\"", "nodes[2].name",
		"is taken by model.graph.params[0](wte.weight)",
		"\"wte.weight\", \"op\": \"linear\""},
	{Q, "\"targets\", \"op\": \"linear\"", "nodes[2].name", "is the name of an input",
		"\"targets\", \"op\""},
	{Q, "\"h.0.q\", \"eps\": 1, \"op\": \"linear\"", "nodes[2](h.0.q).eps", "is not known here",
		"\"eps\": 1"},
	{"[\"h.0.ln_1\", \"h.0.q.weight\"]", "[\"h.0.ln_1\", \"h.0.q.wait\"]",
		"nodes[2](h.0.q).in[1]", "\"h.0.q.wait\" is neither an input (tokens, targets)",
		"h.0.q.wait"},
	{"[\"h.0.ln_1\", \"h.0.q.weight\"]", "[\"h.0.ln_1\"]", "nodes[2](h.0.q).in",
		"linear reads from 2 to 3 things, here are 1", "[\"h.0.ln_1\"]"},
	{"[\"h.0.ln_1\", \"h.0.q.weight\"]", "[\"h.0.ln_1\", 7]", "nodes[2](h.0.q).in[1]",
		"must be the name", "\"h.0.ln_1\", 7"},
	{"[\"h.0.ln_1\", \"h.0.q.weight\"]", "[\"h.0.ln_1\", \"h.0.up.weight\"]",
		"params[3](h.0.q.weight)", "is not used", "\"h.0.q.weight\", \"shape\""},
	{"\"h.0.q.weight\", \"shape\": [64, 64]", "\"h.0.q.weight\", \"shape\": [64, 65]",
		"nodes[2](h.0.q)", "linear: input 1 (h.0.q.weight) is [64,65], must be [O,64]",
		"\"h.0.q\", \"op\""},
	{"\"h.0.q.weight\", \"shape\": [64, 64]", "\"h.0.q.weight\", \"shape\": [60, 64]",
		"nodes[5](h.0.q.turned)", "rope: input 0 (h.0.q) is [1,128,60]", "h.0.q.turned"},
	{"\"h.0.q.weight\", \"shape\": [64, 64]", "\"h.0.q.weight\", \"shape\": [64, -1]",
		"params[3](h.0.q.weight).shape", "whole numbers from 1, item 2 is not", "-1"},
	{"\"h.0.q.weight\", \"shape\": [64, 64]", "\"h.0.q.weight\", \"shape\": []",
		"params[3](h.0.q.weight).shape", "from 1 to 4 sizes", "\"shape\": []"},
	{"\"h.0.q.weight\", \"shape\": [64, 64], \"init\": \"normal\"",
		"\"h.0.q.weight\", \"shape\": [64, 64], \"init\": \"one\"",
		"params[3](h.0.q.weight).std", "is not known here", "\"h.0.q.weight\", \"shape\""},
	{"\"h.0.q.weight\", \"shape\"", "\"h.0.q.weight\", \"buffer\": true, \"shape\"",
		"params[3](h.0.q.weight).init", "a buffer is not drawn at random",
		"\"buffer\": true"},
	{"\"h.0.ln_1.bias\", \"shape\"", "\"h.0.ln_1.bias\", \"buffer\": true, \"shape\"",
		"nodes[1](h.0.ln_1)", "must not be a buffer", "\"h.0.ln_1\", \"op\""},
	{"\"in\": [\"embedded\", \"h.0.ln_1.weight\"", "\"in\": [\"h.0.out\", \"h.0.ln_1.weight\"",
		"nodes[2](h.0.q).in", "a cycle: h.0.ln_1 is made from this node's output",
		"\"h.0.q\", \"op\""},
	{"\"name\": \"h.1.q\",", "\"name\": \"h.1.q\", \"shard\": 0,", "nodes[16](h.1.q).shard",
		"is 0, but the node reads h.1.ln_1 of shard 1", "\"h.1.q\", \"shard\": 0"},
	{"\"name\": \"ln_f\",", "\"name\": \"ln_f\", \"shard\": 3,", "nodes[29](ln_f).shard",
		"is 3, but no node is in shard 2", "\"ln_f\", \"shard\": 3"},
	{"\"name\": \"loss\",", "\"name\": \"loss\", \"shard\": 2,", "nodes",
		"shard 2 has no parameter to train", "\"nodes\""},
	{"\"heads\": 4", "\"heads\": 5", "nodes[5](h.0.q.turned)", "twice 5 heads", "\"heads\": 5"},
	{"\"heads\": 4", "\"heads\": 0", "nodes[5](h.0.q.turned).heads",
		"must be a whole number from 1", "\"heads\": 0"},
	{"\"logits\": \"logits\"", "\"logits\": \"ln_f\"", "loss", "cross_entropy of the logits",
		"\"loss\": \"loss\""},
	{"\"loss\": \"loss\"", "\"loss\": \"lost\"", "loss", "\"lost\" is neither",
		"\"loss\": \"lost\""},
	{"\"logits\": \"logits\",", "", "logits", "is missing", "\"graph\": {"},
	{"\"in\": [\"logits\", \"targets\"]", "\"in\": [\"logits\", \"tokens\"]", "nodes",
		"none of them reads targets", "\"nodes\""},
	{"\"wte.weight\", \"shape\": [256, 64]", "\"wte.weight\", \"shape\": [255, 64]",
		"nodes[0](embedded)", "takes tokens below 255 only, the spec has 256",
		"\"embedded\", \"op\""},
	{"\"lm_head.weight\", \"shape\": [256, 64]", "\"lm_head.weight\", \"shape\": [257, 64]",
		"logits", "gives 256 numbers for each token", "\"logits\": \"logits\""},
	{"\"nodes\": [", "\"nodes\": [7, ", "nodes[0]", "must be an object", "\"nodes\": [7"},
	{"\"context\": 128,", "\"image\": [1, 2, 2],", "vocab", "is not known here", "\"vocab\""},
};

static void check_mistake(const struct mistake *m)
{
	struct spec *s = NULL;
	struct why why = {0};
	struct buf all;
	buf_init(&all, SPEC_MISTAKES_MAX);
	replace(m->from, m->to, "spec.json");
	const char *path = help_model_path("spec.json");
	enum err e = spec_load(path, NULL, 0, &s, &all, &why);
	buf_put_u8(&all, 0);
	char must[300];
	snprintf(must, sizeof must, "line %zu: model.%s%s: ", line_of("spec.json", m->line),
		strncmp(m->path, "vocab", 5) ? "graph." : "", m->path);
	const char *at = strstr((const char *)all.data, must);
	if (e != ERR_range || !at || !strstr(at, m->says))
		fail_msg("%s -> %s: no \"%s… %s\" in: %s", m->from, m->to, must, m->says,
			(const char *)all.data);
	buf_release(&all);
	assert_null(s);
}

static void mistakes_name_node_and_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
		check_mistake(&mistakes[i]);
}

/* A line of a member that was given behind the file would be a lie. */
static void overrides_have_no_line(void **state)
{
	(void)state;
	static const char *const set[] = {"model.graph={}", "train.lr=-1"};
	struct spec *s = NULL;
	struct why why = {0};
	struct buf all;
	buf_init(&all, SPEC_MISTAKES_MAX);
	assert_int_equal(spec_load(EXAMPLE, set, 2, &s, &all, &why), ERR_range);
	buf_put_u8(&all, 0);
	assert_null(strstr((const char *)all.data, "line "));
	assert_non_null(strstr((const char *)all.data, "model.graph.params: is missing"));
	assert_non_null(strstr((const char *)all.data, "train.lr: must be"));
	buf_release(&all);
}

static void building_survives_a_lack_of_memory(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(2, true);
	struct graph *gpt = help_graph_build(&m, 1, 4);
	json_t *doc = help_usergraph_of(gpt);
	char *text = json_canonical(doc);
	snprintf(m.builder, sizeof m.builder, "graph");
	m.user = text;
	assert_true(help_graph_build_without_memory(&m) > 12);
	json_decref(doc);
	free(text);
	graph_free(gpt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(builders_can_be_written_down),
		cmocka_unit_test(nodes_may_come_in_any_order),
		cmocka_unit_test(shards_follow_what_is_read),
		cmocka_unit_test(the_example_is_read),
		cmocka_unit_test_setup_teardown(
			mistakes_name_node_and_line, help_model_setup, help_model_teardown),
		cmocka_unit_test(overrides_have_no_line),
		cmocka_unit_test(building_survives_a_lack_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
