/* Hugging Face folders: each weight is where transformers looks for it, what was written comes back
 * bit for bit in any type and any number of files, and a folder of another model, or one that is
 * damaged, is refused by name. */
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
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "model/half.h"
#include "model/hfexport.h"
#include "model/hfinit.h"
#include "model/hfmodel.h"
#include "model/safetensors_out.h"
#include "model/weightset.h"
#include "tests/help_model.h"

#define SHARDS 2

static const struct model_config gpt = {.builder = "gpt",
	.layers = 3,
	.width = 20,
	.heads = 4,
	.context = 8,
	.vocab = 37,
	.tied = true,
	.n_shards = SHARDS,
	.shard_first = {0, 2}};

static const struct model_config llama = {.builder = "llama",
	.layers = 3,
	.width = 24,
	.heads = 6,
	.kv_heads = 2,
	.hidden = 40,
	.context = 8,
	.vocab = 37,
	.rope_theta = 500,
	.norm_eps = 1e-6,
	.n_shards = SHARDS,
	.shard_first = {0, 1}};

struct model {
	struct model_config config;
	struct graph *g;
	float *shards[SHARDS];
};

static struct model built(const struct model_config *config, bool tied)
{
	struct model m = {.config = *config};
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

static enum err export(const struct model *m, const char *dir, enum safetensors_type type,
	uint64_t max_file, struct why *why) {
	const float *shards[SHARDS] = {m->shards[0], m->shards[1]};
	const struct hfexport e = {.dir = help_model_path(dir),
		.graph = m->g,
		.config = &m->config,
		.shards = shards,
		.type = type,
		.max_file = max_file,
		.run = "abc"};
	return hfexport_write(&e, why);
}

static void exported(
	const struct model *m, const char *dir, enum safetensors_type type, uint64_t max_file)
{
	struct why why = {0};
	if (export(m, dir, type, max_file, &why))
		fail_msg("%s", why.text);
}

static enum err import(const struct model *m, const char *dir, struct why *why)
{
	struct hfmodel *from = NULL;
	enum err e = hfmodel_open(help_model_path(dir), &from, why);
	if (!e)
		e = hfmodel_suits(from, &m->config, why);
	if (!e)
		e = hfmodel_read(from, m->g, m->shards, why);
	hfmodel_close(from);
	return e;
}

static void imported(const struct model *m, const char *dir)
{
	struct why why = {0};
	if (import(m, dir, &why))
		fail_msg("%s", why.text);
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
	struct model m = built(&gpt, false);
	exported(&m, "out", SAFETENSORS_F32, 0);
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
	/* by name, as the format's own library writes them */
	for (size_t i = 1; i < safetensors_count(s); i++)
		assert_true(strcmp(safetensors_at(s, i - 1)->name, safetensors_at(s, i)->name) < 0);
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

static void round_to(struct model *m, enum safetensors_type type)
{
	for (uint32_t s = 0; s < SHARDS; s++)
		for (uint64_t i = 0; i < m->g->shard_params[s]; i++) {
			float *v = &m->shards[s][i];
			if (type == SAFETENSORS_F16)
				*v = half_from_f16(half_to_f16(*v));
			else if (type == SAFETENSORS_BF16)
				*v = half_from_bf16(half_to_bf16(*v));
		}
}

static void assert_same_file(const char *dir_a, const char *dir_b, const char *name)
{
	char a[200], b[200];
	size_t n, m;
	snprintf(a, sizeof a, "%s/%s", dir_a, name);
	snprintf(b, sizeof b, "%s/%s", dir_b, name);
	const uint8_t *x = help_model_read(a, &n), *y = help_model_read(b, &m);
	assert_int_equal(n, m);
	assert_memory_equal(x, y, n);
}

/* All files of weights; the index names them. */
static void assert_same_files(const char *a, const char *b)
{
	size_t n;
	char path[200];
	snprintf(path, sizeof path, "%s/" WEIGHTSET_INDEX, a);
	json_t *doc = NULL, *file;
	const uint8_t *text = help_model_read(path, &n);
	assert_int_equal(json_parse(text, n, 1u << 20, &doc, NULL), ERR_OK);
	json_t *map = json_object_get(doc, "weight_map");
	const char *tensor, *last = NULL;
	assert_true(json_object_size(map) > 20);
	size_t files = 0;
	json_object_foreach(map, tensor, file)
	{
		if (!last || strcmp(last, json_string_value(file))) {
			last = json_string_value(file);
			assert_same_file(a, b, last);
			files++;
		}
	}
	assert_true(files > 2);
	json_decref(doc);
}

static bool is_there(const char *name)
{
	return file_exists(help_model_path(name));
}

#define SMALL_FILE 8000 /* bytes: several files */

static void comes_back(
	const struct model_config *config, bool tied, enum safetensors_type type, uint64_t max)
{
	struct model m = built(config, tied), back = built(config, tied);
	exported(&m, "out", type, max);
	wipe(&back);
	imported(&back, "out");
	round_to(&m, type);
	assert_same(&m, &back);
	exported(&back, "again", type, max);
	assert_same_file("out", "again", "config.json");
	assert_same_file("out", "again", max ? WEIGHTSET_INDEX : WEIGHTSET_FILE);
	if (max)
		assert_same_files("out", "again");
	/* What an earlier export left does not stand in the way. */
	assert_true(is_there("out/" WEIGHTSET_FILE) == !max);
	assert_true(is_there("out/" WEIGHTSET_INDEX) == !!max);
	release(&m);
	release(&back);
}

static void what_was_written_comes_back(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 12; k++) {
		enum safetensors_type type = (enum safetensors_type)(k % 3);
		uint64_t max = k / 3 % 2 ? SMALL_FILE : 0;
		comes_back(k % 2 ? &llama : &gpt, k >= 6, type, max);
		comes_back(k % 2 ? &gpt : &llama, k >= 6, type, max);
	}
}

/* Matrices of Llama lie as in the graph, and so do names. */
static void llamas_weights_lie_as_transformers_wants(void **state)
{
	(void)state;
	struct model m = built(&llama, false);
	struct safetensors *s = NULL;
	float got[8 * 24];
	exported(&m, "out", SAFETENSORS_F32, 0);
	assert_int_equal(
		safetensors_open(help_model_path("out/model.safetensors"), &s, NULL), ERR_OK);
	assert_int_equal(safetensors_count(s), 1 + 3 * 9 + 2);
	assert_tensor(s, "model.embed_tokens.weight", 37, 24);
	assert_tensor(s, "model.layers.2.self_attn.k_proj.weight", 8, 24);
	assert_tensor(s, "model.layers.2.self_attn.o_proj.weight", 24, 24);
	assert_tensor(s, "model.layers.2.mlp.gate_proj.weight", 40, 24);
	assert_tensor(s, "model.layers.2.mlp.down_proj.weight", 24, 40);
	assert_tensor(s, "model.layers.2.input_layernorm.weight", 24, 0);
	assert_tensor(s, "model.layers.2.post_attention_layernorm.weight", 24, 0);
	assert_tensor(s, "model.norm.weight", 24, 0);
	assert_tensor(s, "lm_head.weight", 37, 24);
	const char *name = "model.layers.1.self_attn.k_proj.weight";
	assert_int_equal(safetensors_read(safetensors_find(s, name), 0, 8 * 24, got, NULL), ERR_OK);
	assert_memory_equal(got, param(&m, name), sizeof got);
	safetensors_close(s);
	release(&m);
}

static void too_large_for_a_type_is_refused(void **state)
{
	(void)state;
	struct model m = built(&gpt, true);
	struct why why = {0};
	m.shards[0][3] = 65520;
	assert_int_equal(export(&m, "out", SAFETENSORS_F16, 0, &why), ERR_range);
	help_model_told(&why, ERR_range, "too large for F16");
	help_model_told(&why, ERR_range, "transformer.wte.weight");
	assert_false(is_there("out/" WEIGHTSET_FILE));
	exported(&m, "out", SAFETENSORS_BF16, 0);
	release(&m);
}

/* Files of two models are never joined by the older one's index. */
static void half_an_export_over_an_older_one_is_no_model(void **state)
{
	(void)state;
	struct model m = built(&gpt, true);
	struct why why = {0};
	exported(&m, "out", SAFETENSORS_F32, SMALL_FILE);
	assert_true(is_there("out/" WEIGHTSET_INDEX));
	m.shards[0][3] = 65520;
	assert_int_equal(export(&m, "out", SAFETENSORS_F16, SMALL_FILE / 2, &why), ERR_range);
	assert_int_equal(import(&m, "out", &why), ERR_missing);
	assert_false(is_there("out/" WEIGHTSET_INDEX));
	release(&m);
}

/* ---- folders of others: the exported tensors once more, changed in one way */

struct change {
	const char *strip;     /* this prefix away from every name */
	const char *drop;      /* without this tensor */
	const char *add;       /* and with one of two elements more */
	const char *spoil;     /* a NaN as the last element of this one */
	const char *turn;      /* this one with its two dimensions exchanged */
	const char *from, *to; /* a text of config.json in place of another */
};

static void copy_weights(const char *from, const char *to, const struct change *c)
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
	assert_int_equal(safetensors_out_open(help_model_path(to), &all, &f, NULL), ERR_OK);
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const struct safetensors_tensor *t = safetensors_at(s, i);
		if (c->drop && strcmp(t->name, c->drop) == 0)
			continue;
		assert_int_equal(safetensors_read(t, 0, t->count, values, NULL), ERR_OK);
		if (c->spoil && strcmp(t->name, c->spoil) == 0)
			values[t->count - 1] = NAN;
		assert_int_equal(safetensors_out_put(f, values, t->count, NULL), ERR_OK);
	}
	if (c->add)
		assert_int_equal(safetensors_out_put(f, values, 2, NULL), ERR_OK);
	assert_int_equal(safetensors_out_commit(f, NULL), ERR_OK);
	safetensors_close(s);
}

static void copy_changed(const struct change *c)
{
	assert_int_equal(file_mkdirs(help_model_path("changed"), 0755, NULL), ERR_OK);
	copy_weights("out/" WEIGHTSET_FILE, "changed/" WEIGHTSET_FILE, c);
	size_t n;
	const char *text = (const char *)help_model_read("out/config.json", &n);
	char changed[2000];
	const char *at = c->from ? strstr(text, c->from) : NULL;
	if (c->from)
		assert_non_null(at);
	snprintf(changed, sizeof changed, "%.*s%s%s", at ? (int)(at - text) : 0, text,
		at ? c->to : "", at ? at + strlen(c->from) : text);
	help_model_write("changed/config.json", changed, strlen(changed));
}

static void other_spellings_are_read(void **state)
{
	(void)state;
	struct model m = built(&gpt, true), back = built(&gpt, true);
	exported(&m, "out", SAFETENSORS_F32, 0);
	static const struct change changes[] = {
		{.strip = "transformer."},
		{.add = "transformer.h.0.attn.bias"},
		{.add = "h.2.attn.masked_bias"},
		{.add = "lm_head.weight"},
		{.from = "\"gelu_new\"", .to = "\"gelu_pytorch_tanh\", \"n_inner\": null"},
		{.from = "\"gelu_new\"", .to = "\"gelu_new\", \"n_inner\": 80, \"new\": [1]"},
		{.from = "\"tie_word_embeddings\": true", .to = "\"scale_attn_weights\": true"},
	};
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		copy_changed(&changes[i]);
		wipe(&back);
		imported(&back, "changed");
		assert_same(&m, &back);
	}
	release(&m);
	release(&back);
}

struct refusal {
	struct change change;
	enum err code;
	const char *part;
};

static void refused(const struct model *m, const struct refusal *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct why why = {0};
		copy_changed(&rows[i].change);
		assert_int_equal(import(m, "changed", &why), rows[i].code);
		help_model_told(&why, rows[i].code, rows[i].part);
		assert_non_null(strstr(why.text, "/changed"));
	}
}

static void other_weights_are_refused(void **state)
{
	(void)state;
	struct model m = built(&gpt, true);
	exported(&m, "out", SAFETENSORS_F32, 0);
	static const struct refusal rows[] = {
		{{.drop = "transformer.h.1.ln_2.bias"}, ERR_missing, "no tensor h.1.ln_2.bias"},
		{{.add = "transformer.h.3.ln_1.bias"}, ERR_spec, "h.3.ln_1.bias is not part"},
		{{.add = "score.weight"}, ERR_spec, "score.weight is not part"},
		{{.add = "h.0.attn"}, ERR_spec, "h.0.attn is not part"},
		{{.add = "tokens"}, ERR_spec, "tokens is not part"},
		{{.add = "transformer.lm_head.weight"}, ERR_spec, "is not part"},
		{{.add = "h.0.ln_1.bias"}, ERR_spec, "is there twice"},
		{{.turn = "transformer.h.1.mlp.c_fc.weight"}, ERR_shape,
			"h.1.mlp.c_fc.weight has shape 80 x 20, by its config.json it must be 20 x "
			"80"},
		{{.turn = "transformer.wte.weight"}, ERR_shape, "must be 37 x 20"},
		{{.spoil = "transformer.h.1.mlp.c_fc.weight"}, ERR_not_finite, "at element 1599"},
		{{.spoil = "transformer.ln_f.weight"}, ERR_not_finite, "at element 19"},
		{{.from = "\"tie_word_embeddings\": true", .to = "\"tie_word_embeddings\": false"},
			ERR_missing, "lm_head.weight"},
	};
	refused(&m, rows, sizeof rows / sizeof *rows);
	release(&m);
}

static void other_configs_are_refused(void **state)
{
	(void)state;
	struct model m = built(&gpt, true);
	exported(&m, "out", SAFETENSORS_F32, 0);
	static const struct refusal rows[] = {
		{{.from = "\"n_layer\": 3", .to = "\"n_layer\": 4"}, ERR_missing, "h.3.ln_1"},
		{{.from = "\"n_layer\": 3", .to = "\"n_layer\": 2"}, ERR_spec, "h.2."},
		{{.from = "\"n_head\": 4", .to = "\"n_head\": 3"}, ERR_range, "does not divide"},
		{{.from = "\"n_head\": 4", .to = "\"n_head\": 5"}, ERR_spec, "model.heads = 5"},
		{{.from = "1e-5", .to = "1e-6"}, ERR_spec, "norm_eps"},
		{{.from = "{", .to = "["}, ERR_syntax, "config.json"},
	};
	refused(&m, rows, sizeof rows / sizeof *rows);
	struct why why = {0};
	struct model other = built(&llama, true);
	assert_int_equal(import(&other, "out", &why), ERR_spec);
	help_model_told(&why, ERR_spec, "a model of the builder gpt, the spec's is llama");
	release(&other);
	help_model_write("out/pytorch_model.bin", "x", 1);
	assert_int_equal(remove(help_model_path("out/" WEIGHTSET_FILE)), 0);
	assert_int_equal(import(&m, "out", &why), ERR_missing);
	help_model_told(&why, ERR_missing, "safe_serialization=True");
	assert_int_equal(import(&m, "none", &why), ERR_missing);
	release(&m);
}

/* ---- init */

static void init_names_the_weights(void **state)
{
	(void)state;
	struct model m = built(&gpt, true);
	struct why why = {0};
	struct spec spec = {.model = m.config};
	char set[HFINIT_SET], hex[HASH_HEX];
	struct hfmodel *from = NULL;
	exported(&m, "out", SAFETENSORS_F32, 0);
	assert_int_equal(hfinit_set(help_model_path("out"), set, &why), ERR_OK);
	size_t n;
	const uint8_t *bytes = help_model_read("out/" WEIGHTSET_FILE, &n);
	spec.init = hash_of(bytes, n);
	hash_hex(&spec.init, hex);
	assert_memory_equal(set, "init=", 5);
	assert_string_equal(set + 5, hex);
	assert_int_equal(hfinit_open(help_model_path("out"), &spec, &from, &why), ERR_OK);
	hfmodel_close(from);
	assert_int_equal(hfinit_open(NULL, &spec, &from, &why), ERR_missing);
	help_model_told(&why, ERR_missing, "--init");
	spec.model.heads = 5;
	assert_int_equal(hfinit_open(help_model_path("out"), &spec, &from, &why), ERR_spec);
	/* One weight is another: another hash. */
	m.shards[1][0] += 1;
	exported(&m, "other", SAFETENSORS_F32, 0);
	assert_int_equal(hfinit_open(help_model_path("other"), &spec, &from, &why), ERR_hash);
	help_model_told(&why, ERR_hash, "/other holds the weights");
	release(&m);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	struct model m = built(&gpt, true), back = built(&gpt, true);
	enum err e;
	long n = 1;
	do {
		alloc_fail_at(n++);
		e = export(&m, "out", SAFETENSORS_F32, 40000, NULL);
		if (!e)
			e = import(&back, "out", NULL);
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
		T(llamas_weights_lie_as_transformers_wants),
		T(what_was_written_comes_back),
		T(too_large_for_a_type_is_refused),
		T(half_an_export_over_an_older_one_is_no_model),
		T(other_spellings_are_read),
		T(other_weights_are_refused),
		T(other_configs_are_refused),
		T(init_names_the_weights),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
