/*
 * The weights of a Hugging Face folder: model.safetensors, or several files that
 * model.safetensors.index.json lists ({"weight_map": {tensor: file}}).  Everything is hostile
 * input: an index may only name files in its folder, and it and the files must agree on every
 * tensor.  The headers, which are parsed and kept, have a limit together (SAFETENSORS_HEADER_MAX).
 * Files are mapped, not read.  A refusal is a sentence that names the file.
 */
#ifndef MODEL_WEIGHTSET_H
#define MODEL_WEIGHTSET_H
#include "base/err.h"
#include "base/hash.h"
#include "model/safetensors.h"

#define WEIGHTSET_FILE "model.safetensors"
#define WEIGHTSET_INDEX "model.safetensors.index.json"
#define WEIGHTSET_FILES_MAX 4096u

struct weightset;

enum err weightset_open(const char *dir, struct weightset **out, struct why *why) MUST_CHECK;
void weightset_close(struct weightset *w); /* NULL-safe */

size_t weightset_count(const struct weightset *w);
/* File by file, as long as w lives. */
const struct safetensors_tensor *weightset_at(const struct weightset *w, size_t i);
const struct safetensors_tensor *weightset_find(const struct weightset *w, const char *name);
/* A text of __metadata__ in the first file, or NULL. */
const char *weightset_meta(const struct weightset *w, const char *key);

/* The name of the weights, which a spec's `init` is: the SHA-256 of the file when there is one; of
 * several, the SHA-256 of the canonical JSON {"FILE": "SHA-256 of FILE", ...}.  Reads everything.
 */
struct hash weightset_hash(const struct weightset *w);

#endif
