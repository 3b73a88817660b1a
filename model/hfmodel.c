#include "model/hfmodel.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/file.h"
#include "model/builder.h"
#include "model/hfarch.h"
#include "model/hfconfig.h"
#include "model/weightset.h"

#define PIECE (1u << 16) /* elements that are read at once */
#define COLUMNS 32u      /* of a turned matrix, so that a cache line is used whole */
#define DIMS_TEXT 200

struct hfmodel {
	char *dir;
	uint8_t *text; /* of config.json */
	size_t text_len;
	struct model_config config;
	const struct hfarch *arch;
	struct weightset *weights;
	enum safetensors_type type;
};

/* ---- the tensor of a parameter */

static bool is_turned(const struct hfmodel *m, const struct tensor *t)
{
	return t->shape.rank == 2 && m->arch->is_turned(hfarch_bare(m->arch, t->name));
}

static const struct safetensors_tensor *find(const struct hfmodel *m, const struct tensor *t)
{
	char full[HFARCH_NAME];
	hfarch_full(m->arch, t->name, full);
	const struct safetensors_tensor *from = weightset_find(m->weights, full);
	return from ? from : weightset_find(m->weights, hfarch_bare(m->arch, t->name));
}

/* With prefix and without: which of the two would count? */
static bool is_double(const struct hfmodel *m, const struct tensor *t)
{
	char full[HFARCH_NAME];
	const char *bare = hfarch_bare(m->arch, t->name);
	hfarch_full(m->arch, t->name, full);
	return strcmp(full, bare) && weightset_find(m->weights, full) &&
	       weightset_find(m->weights, bare);
}

static void dims_text(uint32_t rank, const uint64_t *dim, char out[static DIMS_TEXT])
{
	size_t at = 0;
	out[0] = 0;
	for (uint32_t i = 0; i < rank; i++)
		at += (size_t)snprintf(
			out + at, DIMS_TEXT - at, "%s%" PRIu64, i ? " x " : "", dim[i]);
}

static enum err check_tensor(const struct hfmodel *m, const struct tensor *t,
	const struct safetensors_tensor *from, struct why *why)
{
	uint64_t dim[SHAPE_RANK];
	bool turned = is_turned(m, t);
	for (uint32_t i = 0; i < t->shape.rank; i++)
		dim[i] = t->shape.dim[turned ? 1 - i : i];
	if (from->type > SAFETENSORS_BF16)
		return err_why(why, ERR_unsupported,
			"%s: tensor %s has type %s; only F32, F16 and BF16 can be read, convert it "
			"first",
			m->dir, from->name, safetensors_type_name(from->type));
	if (from->rank == t->shape.rank && !memcmp(dim, from->dim, from->rank * sizeof *dim))
		return ERR_OK;
	char is[DIMS_TEXT], must[DIMS_TEXT];
	dims_text(from->rank, from->dim, is);
	dims_text(t->shape.rank, dim, must);
	return err_why(why, ERR_shape,
		"%s: tensor %s has shape %s, by its config.json it must be %s", m->dir, from->name,
		is, must);
}

static enum err check_needed(struct hfmodel *m, const struct graph *g, struct why *why)
{
	bool first = true;
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		const struct safetensors_tensor *from = find(m, t);
		if (!from)
			return err_why(why, ERR_missing,
				"%s: there is no tensor %s, which the model of its config.json "
				"needs",
				m->dir, t->name);
		if (is_double(m, t))
			return err_why(why, ERR_spec,
				"%s: tensor %s is there twice, with \"%s\" before its name and "
				"without",
				m->dir, t->name, m->arch->prefix);
		enum err e = check_tensor(m, t, from, why);
		if (e)
			return e;
		if (first || m->type == from->type)
			m->type = from->type;
		else
			m->type = SAFETENSORS_F32;
		first = false;
	}
	return ERR_OK;
}

static bool is_known(const struct hfmodel *m, const struct graph *g, const char *name)
{
	const char *bare = hfarch_bare(m->arch, name);
	char full[GRAPH_NAME + SAFETENSORS_NAME_MAX];
	snprintf(full, sizeof full, "%s%s", m->arch->prefix, bare);
	const char *const spellings[] = {bare, full};
	for (size_t i = 0; i < 2; i++) {
		uint32_t t = graph_find(g, spellings[i]);
		if (t != GRAPH_NONE && g->tensors[t].role == TENSOR_param)
			return true;
	}
	return m->arch->is_surplus(bare) || (m->config.tied && !strcmp(name, HFARCH_HEAD));
}

/* A tensor that nobody reads would be silently lost. */
static enum err check_surplus(const struct hfmodel *m, const struct graph *g, struct why *why)
{
	for (size_t i = 0; i < weightset_count(m->weights); i++) {
		const char *name = weightset_at(m->weights, i)->name;
		if (!is_known(m, g, name))
			return err_why(why, ERR_spec,
				"%s: tensor %s is not part of the model of its config.json", m->dir,
				name);
	}
	return ERR_OK;
}

/* ---- opening */

bool hfmodel_is(const char *path)
{
	struct stat st;
	char *config = alloc_must_printf("%s/config.json", path);
	bool is = !stat(path, &st) && S_ISDIR(st.st_mode) && file_exists(config);
	free(config);
	return is;
}

static enum err read_config(struct hfmodel *m, struct why *why)
{
	char *path = alloc_must_printf("%s/config.json", m->dir);
	enum err e = file_read(path, HFCONFIG_MAX, &m->text, &m->text_len, why);
	if (!e)
		e = hfconfig_parse(path, m->text, m->text_len, &m->config, why);
	if (!e)
		m->arch = hfarch_of_builder(m->config.builder);
	free(path);
	return e;
}

enum err hfmodel_open(const char *dir, struct hfmodel **out, struct why *why)
{
	struct hfmodel *m = alloc_must_zero(1, sizeof *m);
	struct graph *g = NULL;
	struct why inner = {0};
	m->dir = alloc_must_strdup(dir);
	enum err e = read_config(m, why);
	if (!e && graph_build(&m->config, 1, 1, &g, &inner))
		e = err_why(why, inner.code, "%s/config.json: %s", dir, inner.text);
	if (!e)
		e = weightset_open(dir, &m->weights, why);
	if (!e)
		e = check_needed(m, g, why);
	if (!e)
		e = check_surplus(m, g, why);
	graph_free(g);
	if (e) {
		hfmodel_close(m);
		return e;
	}
	*out = m;
	return ERR_OK;
}

void hfmodel_close(struct hfmodel *m)
{
	if (!m)
		return;
	weightset_close(m->weights);
	free(m->text);
	free(m->dir);
	free(m);
}

/* ---- asking */

const struct model_config *hfmodel_config(const struct hfmodel *m)
{
	return &m->config;
}

struct hash hfmodel_hash(const struct hfmodel *m)
{
	return weightset_hash(m->weights);
}

const char *hfmodel_config_text(const struct hfmodel *m, size_t *n)
{
	*n = m->text_len;
	return (const char *)m->text;
}

enum safetensors_type hfmodel_type(const struct hfmodel *m)
{
	return m->type;
}

const char *hfmodel_run(const struct hfmodel *m)
{
	return weightset_meta(m->weights, "shoal_run");
}

/* ---- the spec's model */

enum err hfmodel_suits(const struct hfmodel *m, const struct model_config *spec, struct why *why)
{
	const struct model_config *c = &m->config;
	if (strcmp(c->builder, spec->builder))
		return err_why(why, ERR_spec,
			"%s holds a model of the builder %s, the spec's is %s", m->dir, c->builder,
			spec->builder);
	bool llama = !strcmp(c->builder, "llama");
	/* Positions that are turned, not learned, have no weights: any context suits. */
	const struct {
		const char *name;
		double is, must;
	} rows[] = {
		{"layers", c->layers, spec->layers},
		{"width", c->width, spec->width},
		{"heads", c->heads, spec->heads},
		{"vocab", c->vocab, spec->vocab},
		{"context", llama ? 0 : c->context, llama ? 0 : spec->context},
		{"tied", c->tied, spec->tied},
		{"norm_eps", builder_norm_eps(c), builder_norm_eps(spec)},
		{"kv_heads", llama ? builder_kv_heads(c) : 0, llama ? builder_kv_heads(spec) : 0},
		{"hidden", c->hidden, spec->hidden},
		{"rope_theta", builder_rope_theta(c), builder_rope_theta(spec)},
	};
	char list[320] = ""; /* ten rows at most, and a folder's name is cut rather than these */
	int n = 0;
	for (size_t i = 0; i < sizeof rows / sizeof *rows && n < (int)sizeof list; i++)
		if (rows[i].is < rows[i].must || rows[i].is > rows[i].must)
			n += snprintf(list + n, sizeof list - (size_t)n,
				"%smodel.%s = %g, the spec has %g", n ? "; " : "", rows[i].name,
				rows[i].is, rows[i].must);
	return n ? err_why(why, ERR_spec, "the spec must say what the model in %.40s has: %s",
			   m->dir, list)
		 : ERR_OK;
}

/* ---- the values */

struct loading {
	const struct hfmodel *m;
	const struct tensor *t;
	const struct safetensors_tensor *from;
	const struct hfmodel_sink *sink;
};

static enum err read_finite(
	const struct loading *l, uint64_t first, size_t n, float *out, struct why *why)
{
	enum err e = safetensors_read(l->from, first, n, out, why);
	for (size_t i = 0; i < n && !e; i++)
		if (!isfinite(out[i]))
			e = err_why(why, ERR_not_finite,
				"%s: tensor %s has NaN or infinity at element %" PRIu64, l->m->dir,
				l->from->name, first + i);
	return e;
}

static void give(const struct loading *l, uint64_t first, const float *values, size_t n)
{
	l->sink->put(l->sink->arg, l->t->shard, l->t->offset + first, values, n);
}

static enum err load_plain(const struct loading *l, struct why *why)
{
	float *piece = alloc_try(PIECE, sizeof *piece);
	if (!piece)
		return err_why(why, ERR_nomem, "no memory to read %s", l->t->name);
	enum err e = ERR_OK;
	for (uint64_t at = 0; at < l->from->count && !e; at += PIECE) {
		size_t n = l->from->count - at < PIECE ? (size_t)(l->from->count - at) : PIECE;
		e = read_finite(l, at, n, piece, why);
		if (!e)
			give(l, at, piece, n);
	}
	free(piece);
	return e;
}

/* The file has [in, out]; some columns of it are so many rows of ours. */
static enum err load_turned(const struct loading *l, struct why *why)
{
	size_t outs = l->t->shape.dim[0], ins = l->t->shape.dim[1];
	float *rows = alloc_try(COLUMNS * ins, sizeof *rows), column[COLUMNS];
	if (!rows)
		return err_why(why, ERR_nomem, "no memory to transpose %s", l->t->name);
	enum err e = ERR_OK;
	for (size_t first = 0; first < outs && !e; first += COLUMNS) {
		size_t n = outs - first < COLUMNS ? outs - first : COLUMNS;
		for (size_t i = 0; i < ins && !e; i++) {
			e = read_finite(l, i * outs + first, n, column, why);
			for (size_t o = 0; o < n && !e; o++)
				rows[o * ins + i] = column[o];
		}
		if (!e)
			give(l, first * ins, rows, n * ins);
	}
	free(rows);
	return e;
}

enum err hfmodel_load(const struct hfmodel *m, const struct graph *g,
	const struct hfmodel_sink *sink, struct why *why)
{
	enum err e = ERR_OK;
	for (uint32_t i = 0; i < g->n_tensors && !e; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		const struct loading l = {m, t, find(m, t), sink};
		e = is_turned(m, t) ? load_turned(&l, why) : load_plain(&l, why);
	}
	return e;
}

static void put_vector(void *arg, uint32_t shard, uint64_t offset, const float *values, size_t n)
{
	float *const *shards = arg;
	memcpy(shards[shard] + offset, values, n * sizeof *values);
}

enum err hfmodel_read(
	const struct hfmodel *m, const struct graph *g, float *const *shards, struct why *why)
{
	/* The sink takes a plain pointer; the list itself is only read. */
	const struct hfmodel_sink sink = {put_vector, (void *)(uintptr_t)shards};
	return hfmodel_load(m, g, &sink, why);
}
