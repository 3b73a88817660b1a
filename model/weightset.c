#include "model/weightset.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define SUFFIX ".safetensors"
#define FILE_NAME_MAX 128u

struct weightset {
	char **names; /* of the files, sorted */
	struct safetensors **files;
	size_t n_files, n_tensors, header_bytes;
};

static bool is_plain_name(const char *name)
{
	size_t n = strlen(name), end = strlen(SUFFIX);
	return n > end && n <= FILE_NAME_MAX && !strchr(name, '/') && name[0] != '.' &&
	       !strcmp(name + n - end, SUFFIX);
}

static enum err open_one(struct weightset *w, const char *dir, const char *name, struct why *why)
{
	char *path = alloc_must_printf("%s/%s", dir, name);
	enum err e = safetensors_open(path, &w->files[w->n_files], why);
	free(path);
	if (e)
		return e;
	const struct safetensors *file = w->files[w->n_files];
	w->n_tensors += safetensors_count(file);
	w->header_bytes += safetensors_header_bytes(file);
	w->names[w->n_files++] = alloc_must_strdup(name);
	if (w->header_bytes <= SAFETENSORS_HEADER_MAX)
		return ERR_OK;
	return err_why(why, ERR_toobig,
		"%s: the headers of its files have more than %u bytes together, up to %s", dir,
		SAFETENSORS_HEADER_MAX, name);
}

static void make_room(struct weightset *w, size_t n)
{
	w->names = alloc_must_zero(n, sizeof *w->names);
	w->files = alloc_must_zero(n, sizeof *w->files);
}

/* ---- several files */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that the map names, each once; *names and what it points to live as long as map. */
static enum err list_files(
	const char *index, json_t *map, const char ***names, size_t *n, struct why *why)
{
	const char *tensor;
	json_t *file;
	size_t found = 0;
	const char **all = alloc_try(json_object_size(map) + 1, sizeof *all);
	if (!all)
		return err_why(why, ERR_nomem, "no memory for %s", index);
	*names = all;
	json_object_foreach(map, tensor, file)
	{
		const char *name = json_string_value(file);
		if (!name || !is_plain_name(name))
			return err_why(why, ERR_syntax,
				"%s: tensor %.64s lies in \"%.64s\", which is no name of a "
				"*" SUFFIX " file in the same folder",
				index, tensor, name ? name : "");
		all[found++] = name;
	}
	qsort(all, found, sizeof *all, compare_names);
	for (size_t i = 0; i < found; i++)
		if (!*n || strcmp(all[*n - 1], all[i]))
			all[(*n)++] = all[i];
	if (!*n || *n > WEIGHTSET_FILES_MAX)
		return err_why(why, ERR_range, "%s names %zu files, must be from 1 to %u", index,
			*n, WEIGHTSET_FILES_MAX);
	return ERR_OK;
}

/* Every tensor lies where the map says, and the files hold no other. */
static enum err check_map(
	const struct weightset *w, const char *index, json_t *map, struct why *why)
{
	for (size_t f = 0; f < w->n_files; f++)
		for (size_t i = 0; i < safetensors_count(w->files[f]); i++) {
			const char *tensor = safetensors_at(w->files[f], i)->name;
			const char *file = json_string_value(json_object_get(map, tensor));
			if (!file || strcmp(file, w->names[f]))
				return err_why(why, ERR_syntax,
					"%s: tensor %s lies in %s, the index has it in %.64s",
					index, tensor, w->names[f], file ? file : "no file");
		}
	if (w->n_tensors == json_object_size(map))
		return ERR_OK;
	const char *tensor;
	json_t *file;
	json_object_foreach(map, tensor, file)
	{
		if (!weightset_find(w, tensor))
			return err_why(why, ERR_missing, "%s: tensor %.64s is not in %.64s", index,
				tensor, json_string_value(file));
	}
	return ERR_OK;
}

static enum err open_all(
	struct weightset *w, const char *dir, const char *index, json_t *map, struct why *why)
{
	const char **names = NULL;
	size_t n = 0;
	enum err e = list_files(index, map, &names, &n, why);
	if (!e)
		make_room(w, n);
	for (size_t i = 0; i < n && !e; i++)
		e = open_one(w, dir, names[i], why);
	free(names);
	return e ? e : check_map(w, index, map, why);
}

static enum err open_indexed(
	struct weightset *w, const char *dir, const char *index, struct why *why)
{
	uint8_t *text = NULL;
	size_t n = 0;
	json_t *doc = NULL;
	struct why inner = {0};
	enum err e = file_read(index, SAFETENSORS_HEADER_MAX, &text, &n, why);
	if (e)
		return e;
	e = json_parse(text, n, SAFETENSORS_HEADER_MAX, &doc, &inner);
	free(text);
	json_t *map = json_object_get(doc, "weight_map");
	if (e)
		e = err_why(why, e, "%s: %s", index, inner.text);
	else if (!json_is_object(map))
		e = err_why(why, ERR_syntax,
			"%s has no object \"weight_map\", which tells where each tensor lies",
			index);
	else
		e = open_all(w, dir, index, map, why);
	json_decref(doc);
	return e;
}

/* ---- opening */

/* What people have instead, and what to do. */
static enum err tell_missing(const char *dir, struct why *why)
{
	char *torch = alloc_must_printf("%s/pytorch_model.bin", dir);
	enum err e = err_why(why, ERR_missing,
		"%s holds neither " WEIGHTSET_FILE " nor " WEIGHTSET_INDEX "%s", dir,
		file_exists(torch) ? "; pytorch_model.bin is not read: save the model again with "
				     "safe_serialization=True"
				   : "");
	free(torch);
	return e;
}

enum err weightset_open(const char *dir, struct weightset **out, struct why *why)
{
	struct weightset *w = alloc_must_zero(1, sizeof *w);
	char *single = alloc_must_printf("%s/" WEIGHTSET_FILE, dir);
	char *index = alloc_must_printf("%s/" WEIGHTSET_INDEX, dir);
	enum err e;
	if (file_exists(single)) {
		make_room(w, 1);
		e = open_one(w, dir, WEIGHTSET_FILE, why);
	} else if (file_exists(index)) {
		e = open_indexed(w, dir, index, why);
	} else {
		e = tell_missing(dir, why);
	}
	free(single);
	free(index);
	if (e) {
		weightset_close(w);
		return e;
	}
	*out = w;
	return ERR_OK;
}

void weightset_close(struct weightset *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n_files; i++) {
		safetensors_close(w->files[i]);
		free(w->names[i]);
	}
	free(w->names);
	free(w->files);
	free(w);
}

/* ---- asking */

size_t weightset_count(const struct weightset *w)
{
	return w->n_tensors;
}

const struct safetensors_tensor *weightset_at(const struct weightset *w, size_t i)
{
	size_t f = 0;
	for (; i >= safetensors_count(w->files[f]); f++)
		i -= safetensors_count(w->files[f]);
	assert(f < w->n_files);
	return safetensors_at(w->files[f], i);
}

const struct safetensors_tensor *weightset_find(const struct weightset *w, const char *name)
{
	const struct safetensors_tensor *t = NULL;
	for (size_t f = 0; f < w->n_files && !t; f++)
		t = safetensors_find(w->files[f], name);
	return t;
}

const char *weightset_meta(const struct weightset *w, const char *key)
{
	return safetensors_meta(w->files[0], key);
}

struct hash weightset_hash(const struct weightset *w)
{
	if (w->n_files == 1 && !strcmp(w->names[0], WEIGHTSET_FILE))
		return safetensors_hash(w->files[0]);
	json_t *list = json_object();
	for (size_t f = 0; f < w->n_files; f++) {
		struct hash one = safetensors_hash(w->files[f]);
		char hex[HASH_HEX];
		hash_hex(&one, hex);
		json_object_set_new(list, w->names[f], json_string(hex));
	}
	char *text = json_canonical(list);
	struct hash all = hash_of(text, strlen(text));
	free(text);
	json_decref(list);
	return all;
}
