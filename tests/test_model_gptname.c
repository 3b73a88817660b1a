/* GPT-2 files in Hugging Face's layout: each weight is where transformers looks for it, what was
 * exported comes back bit for bit, and a file of another model is refused by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/gptname.h"
#include "model/safetensors.h"
#include "tests/help_model.h"

#define SHARDS 2

static const struct model_config config = {.builder = "gpt",
	.layers = 3,
	.width = 20,
	.heads = 4,
	.context = 8,
	.vocab = 37,
	.tied = true,
	.n_shards = SHARDS,
	.shard_first = {0, 2}};

struct model {
	struct model_config config;
	struct graph *g;
	float *shards[SHARDS];
};

static struct model built(bool tied)
{
	struct model m = {.config = config};
	struct why why = {0};
	m.config.tied = tied;
	if (graph_build(&m.config, 1, 4, &m.g, &why))
		fail_msg("%s", why.text);
	for (uint32_t s = 0; s < SHARDS; s++) {
		m.shards[s] = alloc_must_zero(m.g->shard_params[s], sizeof(float));
		for (uint64_t i = 0; i < m.g->shard_params[s]; i++)
			m.shards[s][i] = rng_normal(5, s, i);
	}
	return m;
}

static void release(struct model *m)
{
	for (uint32_t s = 0; s < SHARDS; s++)
		free(m->shards[s]);
	graph_free(m->g);
}

static void exported(const struct model *m, const char *dir)
{
	struct why why = {0};
	const float *shards[SHARDS] = {m->shards[0], m->shards[1]};
	struct gptname_model from = {
		.graph = m->g, .config = &m->config, .shards = shards, .run = "abc"};
	if (gptname_export(help_model_path(dir), &from, &why))
		fail_msg("%s", why.text);
}

static enum err import(const struct model *m, const char *file, struct why *why)
{
	return gptname_import(help_model_path(file), m->g, m->shards, why);
}

static const float *param(const struct model *m, const char *name)
{
	uint32_t i = graph_find(m->g, name);
	assert_int_not_equal(i, GRAPH_NONE);
	return m->shards[m->g->tensors[i].shard] + m->g->tensors[i].offset;
}

static void assert_tensor(
	const struct safetensors *s, const char *name, uint64_t rows, uint64_t cols)
{
	const struct safetensors_tensor *t = safetensors_find(s, name);
	if (!t)
		fail_msg("%s is missing", name);
	assert_int_equal(t->rank, cols ? 2 : 1);
	assert_int_equal(t->dim[0], rows);
	if (cols)
		assert_int_equal(t->dim[1], cols);
}

static void weights_lie_as_transformers_wants(void **state)
{
	(void)state;
	struct model m = built(false);
	exported(&m, "out");
	struct safetensors *s = NULL;
	struct why why = {0};
	assert_int_equal(
		safetensors_open(help_model_path("out/model.safetensors"), &s, &why), ERR_OK);
	assert_int_equal(safetensors_count(s), 2 + 3 * 12 + 3);
	assert_tensor(s, "transformer.wte.weight", 37, 20);
	assert_tensor(s, "transformer.wpe.weight", 8, 20);
	assert_tensor(s, "transformer.h.1.attn.c_attn.weight", 20, 60);
	assert_tensor(s, "transformer.h.1.attn.c_proj.weight", 20, 20);
	assert_tensor(s, "transformer.h.2.mlp.c_fc.weight", 20, 80);
	assert_tensor(s, "transformer.h.2.mlp.c_proj.weight", 80, 20);
	assert_tensor(s, "transformer.h.2.mlp.c_fc.bias", 80, 0);
	assert_tensor(s, "transformer.ln_f.bias", 20, 0);
	assert_tensor(s, "lm_head.weight", 37, 20);
	assert_string_equal(safetensors_meta(s, "format"), "pt");
	assert_string_equal(safetensors_meta(s, "shoal_run"), "abc");
	/* [out, in] in the graph, [in, out] in the file. */
	float got[20 * 60];
	const float *ours = param(&m, "h.2.attn.c_attn.weight");
	const struct safetensors_tensor *t =
		safetensors_find(s, "transformer.h.2.attn.c_attn.weight");
	assert_int_equal(safetensors_read(t, 0, 20 * 60, got, &why), ERR_OK);
	for (unsigned o = 0; o < 60; o++)
		for (unsigned i = 0; i < 20; i++)
			assert_true(got[i * 60 + o] == ours[o * 20 + i]);
	t = safetensors_find(s, "transformer.wte.weight");
	assert_int_equal(safetensors_read(t, 0, 37 * 20, got, &why), ERR_OK);
	assert_memory_equal(got, param(&m, "wte.weight"), 37 * 20 * sizeof(float));
	safetensors_close(s);
	release(&m);
}

static void the_config_tells_the_model(void **state)
{
	(void)state;
	struct model m = built(true);
	exported(&m, "out");
	size_t n;
	const uint8_t *text = help_model_read("out/config.json", &n);
	json_t *doc;
	assert_int_equal(json_parse(text, n, 1u << 16, &doc, NULL), ERR_OK);
	static const struct {
		const char *name;
		int value;
	} rows[] = {{"n_layer", 3}, {"n_embd", 20}, {"n_head", 4}, {"n_positions", 8},
		{"vocab_size", 37}};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_int_equal(
			json_integer_value(json_object_get(doc, rows[i].name)), rows[i].value);
	assert_true(json_is_true(json_object_get(doc, "tie_word_embeddings")));
	assert_true(json_real_value(json_object_get(doc, "layer_norm_epsilon")) == 1e-5);
	assert_string_equal(
		json_string_value(json_object_get(doc, "activation_function")), "gelu_new");
	assert_non_null(strstr((const char *)text, "\"layer_norm_epsilon\": 1e-5"));
	json_decref(doc);
	release(&m);
}

static void assert_same(const struct model *a, const struct model *b)
{
	for (uint32_t s = 0; s < SHARDS; s++)
		assert_memory_equal(
			a->shards[s], b->shards[s], a->g->shard_params[s] * sizeof(float));
}

static void wipe(struct model *m)
{
	for (uint32_t s = 0; s < SHARDS; s++)
		memset(m->shards[s], 0, m->g->shard_params[s] * sizeof(float));
}

static void what_was_exported_comes_back(void **state)
{
	(void)state;
	for (unsigned tied = 0; tied < 2; tied++) {
		struct model m = built(tied), back = built(tied);
		struct why why = {0};
		exported(&m, "out");
		wipe(&back);
		if (import(&back, "out/model.safetensors", &why))
			fail_msg("%s", why.text);
		assert_same(&m, &back);
		release(&m);
		release(&back);
	}
}

/* ---- files of others: the exported tensors once more, changed in one way */

struct change {
	const char *strip; /* this prefix away from every name */
	const char *drop;  /* without this tensor */
	const char *add;   /* and with one of two elements more */
	const char *spoil; /* a NaN as the last element of this one */
	const char *turn;  /* this one with its two dimensions exchanged */
};

static void copy_changed(const char *from, const char *to, const struct change *c)
{
	struct safetensors *s = NULL;
	struct safetensors_out *f = NULL;
	struct safetensors_plan plans[64];
	float values[4096];
	assert_int_equal(safetensors_open(help_model_path(from), &s, NULL), ERR_OK);
	size_t n = 0, skip = c->strip ? strlen(c->strip) : 0;
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const struct safetensors_tensor *t = safetensors_at(s, i);
		if (c->drop && strcmp(t->name, c->drop) == 0)
			continue;
		bool turn = c->turn && strcmp(t->name, c->turn) == 0;
		bool cut = skip && strncmp(t->name, c->strip, skip) == 0;
		plans[n++] = (struct safetensors_plan){.name = t->name + (cut ? skip : 0),
			.rank = t->rank,
			.dim = {t->dim[turn], t->dim[!turn]}};
	}
	if (c->add)
		plans[n++] = (struct safetensors_plan){.name = c->add, .rank = 1, .dim = {2}};
	struct safetensors_plans all = {.tensors = plans, .n_tensors = n};
	assert_int_equal(safetensors_create(help_model_path(to), &all, &f, NULL), ERR_OK);
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const struct safetensors_tensor *t = safetensors_at(s, i);
		if (c->drop && strcmp(t->name, c->drop) == 0)
			continue;
		assert_int_equal(safetensors_read(t, 0, t->count, values, NULL), ERR_OK);
		if (c->spoil && strcmp(t->name, c->spoil) == 0)
			values[t->count - 1] = NAN;
		assert_int_equal(safetensors_put(f, values, t->count, NULL), ERR_OK);
	}
	if (c->add)
		assert_int_equal(safetensors_put(f, values, 2, NULL), ERR_OK);
	assert_int_equal(safetensors_commit(f, NULL), ERR_OK);
	safetensors_close(s);
}

static void other_spellings_are_read(void **state)
{
	(void)state;
	struct model m = built(true), back = built(true);
	struct why why = {0};
	exported(&m, "out");
	static const struct change changes[] = {
		{.strip = "transformer."},
		{.add = "transformer.h.0.attn.bias"},
		{.add = "h.2.attn.masked_bias"},
		{.add = "lm_head.weight"},
	};
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		copy_changed("out/model.safetensors", "changed", &changes[i]);
		wipe(&back);
		if (import(&back, "changed", &why))
			fail_msg("%s", why.text);
		assert_same(&m, &back);
	}
	release(&m);
	release(&back);
}

static void other_models_are_refused(void **state)
{
	(void)state;
	struct model m = built(true);
	exported(&m, "out");
	static const struct {
		struct change change;
		enum err code;
		const char *part;
	} rows[] = {
		{{.drop = "transformer.h.1.ln_2.bias"}, ERR_missing, "no tensor h.1.ln_2.bias"},
		{{.add = "transformer.h.3.ln_1.bias"}, ERR_spec, "h.3.ln_1.bias is not part"},
		{{.add = "score.weight"}, ERR_spec, "score.weight is not part"},
		{{.add = "h.0.attn"}, ERR_spec, "h.0.attn is not part"},
		{{.add = "tokens"}, ERR_spec, "tokens is not part"},
		{{.turn = "transformer.h.1.mlp.c_fc.weight"}, ERR_shape,
			"h.1.mlp.c_fc.weight has shape 80 x 20, this model needs 20 x 80"},
		{{.turn = "transformer.wte.weight"}, ERR_shape, "needs 37 x 20"},
		{{.spoil = "transformer.h.1.mlp.c_fc.weight"}, ERR_not_finite, "at element 1599"},
		{{.spoil = "transformer.ln_f.weight"}, ERR_not_finite, "at element 19"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct why why = {0};
		copy_changed("out/model.safetensors", "changed", &rows[i].change);
		assert_int_equal(import(&m, "changed", &why), rows[i].code);
		help_model_told(&why, rows[i].code, rows[i].part);
		assert_non_null(strstr(why.text, "/changed: "));
	}
	struct model untied = built(false);
	struct why why = {0};
	assert_int_equal(import(&untied, "out/model.safetensors", &why), ERR_missing);
	help_model_told(&why, ERR_missing, "lm_head.weight");
	assert_int_equal(import(&m, "none", &why), ERR_missing);
	release(&untied);
	release(&m);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	struct model m = built(true), back = built(true);
	const float *shards[SHARDS] = {m.shards[0], m.shards[1]};
	struct gptname_model from = {.graph = m.g, .config = &m.config, .shards = shards};
	const char *dir = help_model_path("out"), *file = help_model_path("out/model.safetensors");
	enum err e;
	long n = 1;
	do {
		alloc_fail_at(n++);
		e = gptname_export(dir, &from, NULL);
		if (!e)
			e = gptname_import(file, back.g, back.shards, NULL);
		alloc_fail_at(0);
		assert_true(e == ERR_OK || e == ERR_nomem);
	} while (e);
	assert_true(n > 6);
	assert_same(&m, &back);
	release(&m);
	release(&back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(weights_lie_as_transformers_wants),
		T(the_config_tells_the_model),
		T(what_was_exported_comes_back),
		T(other_spellings_are_read),
		T(other_models_are_refused),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
