/*
 * What the builders of graphs have in common: a place where building stands, parameters that are
 * called after it, and the two ends of a language model.  Mistakes are kept by the graph
 * (graph.h), so that nothing here fails before builder_close.
 */
#ifndef MODEL_BUILDER_H
#define MODEL_BUILDER_H
#include "base/err.h"
#include "model/graph.h"

#define BUILDER_LAYERS_MAX (GRAPH_NODES_MAX / 16)
/* Of the spec, the builders and Hugging Face's configs alike. */
#define BUILDER_WIDTH_MAX (1u << 16)
#define BUILDER_HEADS_MAX (1u << 12)
#define BUILDER_HIDDEN_MAX (1u << 20)
#define BUILDER_TOKENS_MAX (1u << 20) /* of a vocabulary, and of a sequence */
#define BUILDER_IMAGE_MAX (1u << 12)
#define BUILDER_CHANNELS_MAX (1u << 12) /* of a ResNet's first stage */
#define BUILDER_INIT_STD 0.02           /* of matrices in language models (GPT-2) */
/* Defaults of the spec: part of its format. */
#define BUILDER_NORM_EPS 1e-5
#define BUILDER_ROPE_THETA 10000.0

struct builder {
	struct graph *g;
	const struct model_config *m;
	uint32_t layer, shard; /* where building stands */
	char block[48];        /* begins the names of its parameters: "h.3." */
};

/* What a config says, or its default where it says 0. */
double builder_norm_eps(const struct model_config *m);
double builder_rope_theta(const struct model_config *m);
uint32_t builder_kv_heads(const struct model_config *m);

struct shape builder_vector(uint32_t n);
struct shape builder_matrix(uint32_t rows, uint32_t columns);

/* ERR_range with a sentence about model.shards. */
enum err builder_check_shards(const struct model_config *m, struct why *why) MUST_CHECK;
/* The same for what every language model has: layers, width, heads, vocab, context, shards and the
 * shape of the micro-batch. */
enum err builder_check_language(
	const struct model_config *m, uint32_t batch, uint32_t seq, struct why *why) MUST_CHECK;

enum err builder_open(struct builder *b, const struct model_config *m, uint32_t batch, uint32_t seq,
	struct why *why) MUST_CHECK;
/* Goes to the block of this number (each in turn, from 0) and to its shard; block then begins with
 * prefix and number.  After the last: what follows belongs to none. */
void builder_block(struct builder *b, const char *prefix, uint32_t number);
void builder_after_blocks(struct builder *b);
/* A parameter of the block: its name is the block's and part. */
uint32_t builder_param(
	struct builder *b, const char *part, struct shape s, enum init_kind init, double std);
uint32_t builder_add(struct builder *b, uint32_t x, uint32_t y);
/* What projections onto the residual stream start with: smaller, so that its variance does not
 * grow with depth (GPT-2). */
double builder_residual_std(const struct model_config *m);

/* The tokens and their embedding in a table of this name; returns x [B,T,width]. */
uint32_t builder_embed(struct builder *b, const char *name, uint32_t *table);
/* Logits by table, or by a head of its own unless the model is tied, and their loss. */
void builder_head(struct builder *b, uint32_t x, uint32_t table);

/* Finishes the graph: *out is the caller's.  On failure it is freed. */
enum err builder_close(struct builder *b, struct graph **out, struct why *why) MUST_CHECK;

#endif
