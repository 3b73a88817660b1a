/*
 * Writing a model as a folder that Hugging Face's transformers reads (AutoModelForCausalLM):
 * config.json and model.safetensors, or several files with their index.  Same model, same bytes.
 * A file holds its tensors by name, as safetensors' own writer does; a folder of one file that
 * transformers wrote comes back byte for byte, if it is read and written in its own type and held
 * no masks.  Of one split into several files every tensor comes back, maybe in another file.
 */
#ifndef MODEL_HFEXPORT_H
#define MODEL_HFEXPORT_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/graph.h"
#include "model/safetensors.h"

struct hfexport {
	/* Made when missing.  A single file or an index there that would be read in place of what
	 * is written is removed, and an index that will be written again is removed first. */
	const char *dir;
	const struct graph *graph; /* built from config; its builder must be one of hfarch.h */
	const struct model_config *config;
	const float *const *shards; /* a flat vector for each shard */
	enum safetensors_type type; /* F32, F16 or BF16 */
	uint64_t max_file;          /* bytes of tensors in a file, a tensor at least; 0: no limit */
	const char *run;            /* run id for __metadata__, or NULL */
	const char *config_text;    /* of the folder that the model comes from, or NULL */
	size_t config_len;
};

/* ERR_unsupported for a model that transformers does not know.  After a failure the weights that
 * were written are removed. */
enum err hfexport_write(const struct hfexport *e, struct why *why) MUST_CHECK;

#endif
