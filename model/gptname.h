/*
 * GPT-2 weights as Hugging Face lays them out.  The graph's parameters carry Hugging Face's names;
 * what differs is the order of a linear layer's weight inside the blocks (transformers' Conv1D
 * keeps [in, out], the graph [out, in]) and the prefix "transformer." of a model saved with its
 * head.
 */
#ifndef MODEL_GPTNAME_H
#define MODEL_GPTNAME_H
#include "base/err.h"
#include "model/graph.h"

struct gptname_model {
	const struct graph *graph; /* built by builder "gpt" from config */
	const struct model_config *config;
	const float *const *shards; /* a flat vector for each shard */
	const char *run;            /* run id for __metadata__, or NULL */
};

/* Writes DIR/model.safetensors and DIR/config.json, which GPT2LMHeadModel.from_pretrained(DIR)
 * reads. */
enum err gptname_export(const char *dir, const struct gptname_model *m, struct why *why) MUST_CHECK;

/* Fills the shards' vectors from a safetensors file; with or without the prefix.  Masks that old
 * files carry ("h.0.attn.bias") are passed over, as is a head that the graph ties.  ERR_missing,
 * ERR_shape, ERR_not_finite name the tensor; a tensor that the graph has not is ERR_spec. */
enum err gptname_import(
	const char *path, const struct graph *g, float *const *shards, struct why *why) MUST_CHECK;

#endif
