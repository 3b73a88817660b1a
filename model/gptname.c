#include "model/gptname.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "model/safetensors.h"

#define PREFIX "transformer."
#define HEAD "lm_head.weight"
#define FULL_NAME (GRAPH_NAME + sizeof PREFIX)
/* Rows that are transposed together, so that a cache line is used whole. */
#define ROWS 16u
#define PIECE (1u << 16)

/* A Conv1D weight: every matrix inside a block. */
static bool is_transposed(const struct tensor *t)
{
	return strncmp(t->name, "h.", 2) == 0 && t->shape.rank == 2;
}

/* The shape as Hugging Face has it. */
static void file_shape(const struct tensor *t, uint64_t dim[static SHAPE_RANK])
{
	bool turn = is_transposed(t);
	for (uint32_t i = 0; i < t->shape.rank; i++)
		dim[i] = t->shape.dim[turn ? 1 - i : i];
}

static void full_name(const char *name, char out[static FULL_NAME])
{
	snprintf(out, FULL_NAME, "%s%s", strcmp(name, HEAD) == 0 ? "" : PREFIX, name);
}

/* ---- export */

static enum err put_transposed(
	struct safetensors_out *f, const struct tensor *t, const float *values, struct why *why)
{
	size_t outs = t->shape.dim[0], ins = t->shape.dim[1];
	float *rows = alloc_try(ROWS * outs, sizeof *rows);
	if (!rows)
		return err_why(why, ERR_nomem, "no memory to transpose %s", t->name);
	enum err e = ERR_OK;
	for (size_t first = 0; first < ins && !e; first += ROWS) {
		size_t n = ins - first < ROWS ? ins - first : ROWS;
		for (size_t o = 0; o < outs; o++)
			for (size_t i = 0; i < n; i++)
				rows[i * outs + o] = values[o * ins + first + i];
		e = safetensors_put(f, rows, n * outs, why);
	}
	free(rows);
	return e;
}

static enum err put_all(struct safetensors_out *f, const struct gptname_model *m, struct why *why)
{
	enum err e = ERR_OK;
	for (uint32_t i = 0; i < m->graph->n_tensors && !e; i++) {
		const struct tensor *t = &m->graph->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		const float *values = m->shards[t->shard] + t->offset;
		e = is_transposed(t) ? put_transposed(f, t, values, why)
				     : safetensors_put(f, values, shape_count(&t->shape), why);
	}
	return e;
}

static size_t plan_tensors(
	const struct graph *g, struct safetensors_plan *plans, char (*names)[FULL_NAME])
{
	size_t n = 0;
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		full_name(t->name, names[n]);
		plans[n] = (struct safetensors_plan){.name = names[n], .rank = t->shape.rank};
		file_shape(t, plans[n].dim);
		n++;
	}
	return n;
}

static enum err write_weights(const char *path, const struct gptname_model *m, struct why *why)
{
	const struct graph *g = m->graph;
	struct safetensors_plan *plans = alloc_try(g->n_tensors, sizeof *plans);
	char(*names)[FULL_NAME] = alloc_try(g->n_tensors, sizeof *names);
	/* transformers asks for "format". */
	struct safetensors_text meta[] = {{"format", "pt"}, {"shoal_run", m->run}};
	struct safetensors_plans all = {.tensors = plans, .meta = meta, .n_meta = m->run ? 2 : 1};
	struct safetensors_out *f = NULL;
	enum err e;
	if (plans && names) {
		all.n_tensors = plan_tensors(g, plans, names);
		e = safetensors_create(path, &all, &f, why);
	} else
		e = err_why(why, ERR_nomem, "no memory to write %s", path);
	free(plans);
	free(names);
	if (!e)
		e = put_all(f, m, why);
	if (!e)
		return safetensors_commit(f, why);
	safetensors_discard(f);
	return e;
}

static double norm_eps(const struct graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (g->nodes[i].op == OP_layernorm)
			return (double)g->nodes[i].eps;
	return 0;
}

static enum err write_config(const char *path, const struct gptname_model *m, struct why *why)
{
	const struct model_config *c = m->config;
	json_t *doc = json_pack("{s:[s], s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:n, "
				"s:n, s:f, s:f, s:f}",
		"architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function",
		"gelu_new", "torch_dtype", "float32", "vocab_size", (json_int_t)c->vocab,
		"n_positions", (json_int_t)c->context, "n_embd", (json_int_t)c->width, "n_layer",
		(json_int_t)c->layers, "n_head", (json_int_t)c->heads, "layer_norm_epsilon",
		norm_eps(m->graph), "tie_word_embeddings", c->tied, "bos_token_id", "eos_token_id",
		"attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0);
	/* As many digits as a float has: the epsilon reads 1e-5 again. */
	size_t style = JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(7);
	char *text = doc ? json_dumps(doc, style) : NULL;
	enum err e = text ? file_write(path, text, strlen(text), 0644, why)
			  : err_why(why, ERR_nomem, "no memory to write %s", path);
	free(text);
	json_decref(doc);
	return e;
}

enum err gptname_export(const char *dir, const struct gptname_model *m, struct why *why)
{
	enum err e = file_mkdirs(dir, 0755, why);
	if (e)
		return e;
	char *weights = alloc_must_printf("%s/model.safetensors", dir);
	char *config = alloc_must_printf("%s/config.json", dir);
	e = write_weights(weights, m, why);
	if (!e)
		e = write_config(config, m, why);
	free(weights);
	free(config);
	return e;
}

/* ---- import */

static void dims_text(uint32_t rank, const uint64_t *dim, char out[static 200])
{
	size_t at = 0;
	out[0] = 0;
	for (uint32_t i = 0; i < rank; i++)
		at += (size_t)snprintf(out + at, 200 - at, "%s%" PRIu64, i ? " x " : "", dim[i]);
}

static enum err check_shape(
	const struct tensor *t, const struct safetensors_tensor *from, struct why *why)
{
	uint64_t dim[SHAPE_RANK];
	file_shape(t, dim);
	if (from->rank == t->shape.rank && memcmp(dim, from->dim, from->rank * sizeof *dim) == 0)
		return ERR_OK;
	char is[200], must[200];
	dims_text(from->rank, from->dim, is);
	dims_text(t->shape.rank, dim, must);
	return err_why(why, ERR_shape, "tensor %s has shape %s, this model needs %s", from->name,
		is, must);
}

static enum err read_finite(const struct safetensors_tensor *from, uint64_t first, size_t n,
	float *out, struct why *why)
{
	enum err e = safetensors_read(from, first, n, out, why);
	for (size_t i = 0; i < n && !e; i++)
		if (!isfinite(out[i]))
			e = err_why(why, ERR_not_finite,
				"tensor %s has NaN or infinity at element %" PRIu64, from->name,
				first + i);
	return e;
}

static enum err read_plain(const struct safetensors_tensor *from, float *out, struct why *why)
{
	enum err e = ERR_OK;
	for (uint64_t at = 0; at < from->count && !e; at += PIECE) {
		size_t n = from->count - at < PIECE ? (size_t)(from->count - at) : PIECE;
		e = read_finite(from, at, n, out + at, why);
	}
	return e;
}

static enum err read_transposed(
	const struct tensor *t, const struct safetensors_tensor *from, float *out, struct why *why)
{
	size_t outs = t->shape.dim[0], ins = t->shape.dim[1];
	float *rows = alloc_try(ROWS * outs, sizeof *rows);
	if (!rows)
		return err_why(why, ERR_nomem, "no memory to transpose %s", t->name);
	enum err e = ERR_OK;
	for (size_t first = 0; first < ins && !e; first += ROWS) {
		size_t n = ins - first < ROWS ? ins - first : ROWS;
		e = read_finite(from, first * outs, n * outs, rows, why);
		for (size_t o = 0; o < outs && !e; o++)
			for (size_t i = 0; i < n; i++)
				out[o * ins + first + i] = rows[i * outs + o];
	}
	free(rows);
	return e;
}

static enum err read_param(
	const struct safetensors *file, const struct tensor *t, float *out, struct why *why)
{
	char name[FULL_NAME];
	full_name(t->name, name);
	const struct safetensors_tensor *from = safetensors_find(file, name);
	if (!from)
		from = safetensors_find(file, t->name);
	if (!from)
		return err_why(why, ERR_missing,
			"there is no tensor %s, which this model needs; is it a GPT-2 of the same "
			"layers?",
			t->name);
	enum err e = check_shape(t, from, why);
	if (e)
		return e;
	return is_transposed(t) ? read_transposed(t, from, out, why) : read_plain(from, out, why);
}

/* Not parameters: the causal mask, and its fill value, that old versions of transformers saved. */
static bool is_mask(const char *name)
{
	const char *dot = strncmp(name, "h.", 2) == 0 ? strchr(name + 2, '.') : NULL;
	return dot && (strcmp(dot, ".attn.bias") == 0 || strcmp(dot, ".attn.masked_bias") == 0);
}

/* A tensor that nobody read would be silently lost. */
static enum err check_all_known(
	const struct safetensors *file, const struct graph *g, struct why *why)
{
	for (size_t i = 0; i < safetensors_count(file); i++) {
		const char *full = safetensors_at(file, i)->name;
		size_t skip = strncmp(full, PREFIX, strlen(PREFIX)) == 0 ? strlen(PREFIX) : 0;
		const char *name = full + skip;
		uint32_t known = graph_find(g, name);
		bool param = known != GRAPH_NONE && g->tensors[known].role == TENSOR_param;
		if (!param && !is_mask(name) && strcmp(name, HEAD) != 0)
			return err_why(why, ERR_spec,
				"tensor %s is not part of this model; is it a GPT-2 of the same "
				"layers?",
				full);
	}
	return ERR_OK;
}

enum err gptname_import(
	const char *path, const struct graph *g, float *const *shards, struct why *why)
{
	struct safetensors *file;
	enum err e = safetensors_open(path, &file, why);
	if (e)
		return e;
	struct why inner = {0};
	e = check_all_known(file, g, &inner);
	for (uint32_t i = 0; i < g->n_tensors && !e; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role == TENSOR_param)
			e = read_param(file, t, shards[t->shard] + t->offset, &inner);
	}
	safetensors_close(file);
	return e ? err_why(why, e, "%s: %s", path, inner.text) : ERR_OK;
}
