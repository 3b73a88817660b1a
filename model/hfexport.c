#include "model/hfexport.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "model/hfarch.h"
#include "model/hfconfig.h"
#include "model/safetensors_out.h"
#include "model/weightset.h"

#define ROWS 32u /* of a turned matrix, so that a cache line is used whole */

struct item {
	const struct tensor *t;
	char name[HFARCH_NAME];
	bool turned;
	uint32_t file;
};

struct writing {
	const struct hfexport *e;
	const struct hfarch *arch;
	struct item *items; /* in the graph's order, then file by file, by name */
	size_t n;
	uint32_t n_files, n_done;
	uint64_t bytes;
};

/* ---- which tensor goes where */

static uint64_t item_bytes(const struct writing *w, const struct item *i)
{
	return shape_count(&i->t->shape) * safetensors_width(w->e->type);
}

static void list_items(struct writing *w)
{
	const struct graph *g = w->e->graph;
	uint64_t in_file = 0;
	w->n_files = 1;
	for (uint32_t k = 0; k < g->n_tensors; k++) {
		const struct tensor *t = &g->tensors[k];
		if (t->role != TENSOR_param)
			continue;
		struct item *i = &w->items[w->n++];
		i->t = t;
		i->turned = t->shape.rank == 2 && w->arch->is_turned(hfarch_bare(w->arch, t->name));
		hfarch_full(w->arch, t->name, i->name);
		uint64_t bytes = item_bytes(w, i);
		if (w->e->max_file && in_file && in_file + bytes > w->e->max_file) {
			w->n_files++;
			in_file = 0;
		}
		in_file += bytes;
		w->bytes += bytes;
		i->file = w->n_files;
	}
}

static int compare_items(const void *left, const void *right)
{
	const struct item *a = left, *b = right;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* ---- one file */

static char *file_name(const struct writing *w, uint32_t file)
{
	if (w->n_files == 1)
		return alloc_must_strdup(WEIGHTSET_FILE);
	return alloc_must_printf("model-%05u-of-%05u.safetensors", file, w->n_files);
}

static enum err put_turned(
	struct safetensors_out *f, const struct item *item, const float *values, struct why *why)
{
	size_t outs = item->t->shape.dim[0], ins = item->t->shape.dim[1];
	float *rows = alloc_try(ROWS * outs, sizeof *rows);
	if (!rows)
		return err_why(why, ERR_nomem, "no memory to transpose %s", item->name);
	enum err e = ERR_OK;
	for (size_t first = 0; first < ins && !e; first += ROWS) {
		size_t n = ins - first < ROWS ? ins - first : ROWS;
		for (size_t o = 0; o < outs; o++)
			for (size_t i = 0; i < n; i++)
				rows[i * outs + o] = values[o * ins + first + i];
		e = safetensors_out_put(f, rows, n * outs, why);
	}
	free(rows);
	return e;
}

static enum err put_items(const struct writing *w, struct safetensors_out *f,
	const struct item *items, size_t n, struct why *why)
{
	enum err e = ERR_OK;
	for (size_t i = 0; i < n && !e; i++) {
		const struct tensor *t = items[i].t;
		const float *values = w->e->shards[t->shard] + t->offset;
		struct why inner = {0};
		e = items[i].turned
			    ? put_turned(f, &items[i], values, &inner)
			    : safetensors_out_put(f, values, shape_count(&t->shape), &inner);
		if (e)
			err_why(why, e, "tensor %s: %s", items[i].name, inner.text);
	}
	return e;
}

static enum err open_file(const struct writing *w, const char *path, const struct item *items,
	size_t n, struct safetensors_out **out, struct why *why)
{
	struct safetensors_plan *plans = alloc_try(n, sizeof *plans);
	if (!plans)
		return err_why(why, ERR_nomem, "no memory to write %s", path);
	for (size_t i = 0; i < n; i++) {
		const struct shape *s = &items[i].t->shape;
		plans[i] = (struct safetensors_plan){.name = items[i].name, .rank = s->rank};
		for (uint32_t k = 0; k < s->rank; k++)
			plans[i].dim[k] = s->dim[items[i].turned ? s->rank - 1 - k : k];
	}
	/* transformers asks for "format". */
	const struct safetensors_text meta[] = {{"format", "pt"}, {"shoal_run", w->e->run}};
	const struct safetensors_plans all = {.type = w->e->type,
		.tensors = plans,
		.n_tensors = n,
		.meta = meta,
		.n_meta = w->e->run ? 2 : 1};
	enum err e = safetensors_out_open(path, &all, out, why);
	free(plans);
	return e;
}

static enum err write_file(
	const struct writing *w, const struct item *items, size_t n, struct why *why)
{
	char *name = file_name(w, items->file), *path = alloc_must_printf("%s/%s", w->e->dir, name);
	struct safetensors_out *f = NULL;
	enum err e = open_file(w, path, items, n, &f, why);
	if (!e)
		e = put_items(w, f, items, n, why);
	if (!e)
		e = safetensors_out_commit(f, why);
	else
		safetensors_out_discard(f);
	free(path);
	free(name);
	return e;
}

/* ---- the folder */

static enum err write_text(
	const struct writing *w, const char *name, const char *text, struct why *why)
{
	char *path = alloc_must_printf("%s/%s", w->e->dir, name);
	enum err e = text ? file_write(path, text, strlen(text), 0644, why)
			  : err_why(why, ERR_nomem, "no memory to write %s", path);
	free(path);
	return e;
}

static enum err write_index(const struct writing *w, struct why *why)
{
	json_t *map = json_object();
	for (size_t i = 0; i < w->n; i++) {
		char *name = file_name(w, w->items[i].file);
		json_object_set_new(map, w->items[i].name, json_string(name));
		free(name);
	}
	json_t *doc = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)w->bytes,
		"weight_map", map);
	char *json = doc ? json_dumps(doc, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
	char *text = json ? alloc_must_printf("%s\n", json) : NULL;
	enum err e = write_text(w, WEIGHTSET_INDEX, text, why);
	free(text);
	free(json);
	json_decref(doc);
	return e;
}

static enum err write_config(const struct writing *w, struct why *why)
{
	const struct hfexport *e = w->e;
	char *text = e->config_text ? hfconfig_retype(e->config_text, e->config_len, e->type)
				    : hfconfig_print(e->config, e->type);
	enum err err = write_text(w, "config.json", text, why);
	free(text);
	return err;
}

static void remove_file(const struct writing *w, const char *name)
{
	char *path = alloc_must_printf("%s/%s", w->e->dir, name);
	unlink(path);
	free(path);
}

static enum err write_all(struct writing *w, struct why *why)
{
	enum err e = ERR_OK;
	/* Who is killed leaves files of two models under an older index: none must join them. */
	if (w->n_files > 1)
		remove_file(w, WEIGHTSET_INDEX);
	for (size_t i = 0, end; i < w->n && !e; i = end) {
		for (end = i; end < w->n && w->items[end].file == w->items[i].file;)
			end++;
		e = write_file(w, &w->items[i], end - i, why);
		w->n_done += !e;
	}
	if (!e && w->n_files > 1)
		e = write_index(w, why);
	if (!e)
		e = write_config(w, why);
	if (!e) {
		/* It would be read in place of what was written. */
		remove_file(w, w->n_files > 1 ? WEIGHTSET_FILE : WEIGHTSET_INDEX);
		return ERR_OK;
	}
	for (uint32_t file = 1; file <= w->n_done; file++) {
		char *name = file_name(w, file);
		remove_file(w, name);
		free(name);
	}
	return e;
}

enum err hfexport_write(const struct hfexport *e, struct why *why)
{
	struct writing w = {.e = e, .arch = hfarch_of_builder(e->config->builder)};
	if (!w.arch)
		return err_why(why, ERR_unsupported,
			"a model of the builder %s has no form in Hugging Face's transformers",
			e->config->builder);
	enum err err = file_mkdirs(e->dir, 0755, why);
	if (err)
		return err;
	w.items = alloc_try(e->graph->n_tensors, sizeof *w.items);
	if (!w.items)
		return err_why(why, ERR_nomem, "no memory to write %s", e->dir);
	list_items(&w);
	qsort(w.items, w.n, sizeof *w.items, compare_items);
	err = write_all(&w, why);
	free(w.items);
	return err;
}
