/*
 * The op graph (OP-DAG): nodes are operators, edges are tensors, in topological order, cut into
 * shards. A graph is built for one micro-batch shape (batch B, sequence T): every shape in it is
 * concrete. Building allocates nodes only; kernels/exec.h computes.  Immutable once graph_finish
 * has passed.
 */
#ifndef MODEL_GRAPH_H
#define MODEL_GRAPH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "model/op.h"
#include "model/shape.h"

#define GRAPH_NAME 64
#define GRAPH_NODES_MAX 65536
#define GRAPH_SHARDS_MAX 1024
#define GRAPH_NONE UINT32_MAX
#define NODE_IN_MAX 6
#define GRAPH_ELEMENTS_MAX (1ull << 40) /* of one tensor */

/* What model.builder may say, and the file of the builder: model/FILE.c with FILE_build. */
#define BUILDER_LIST(X) \
	X(gpt, gpt) \
	X(llama, llama) \
	X(resnet, resnet) \
	X(graph, usergraph)

enum tensor_role { TENSOR_input, TENSOR_param, TENSOR_value };
enum dtype { DTYPE_real, DTYPE_token /* int32 */ };
enum init_kind { INIT_zero, INIT_one, INIT_normal };

struct tensor {
	char name[GRAPH_NAME]; /* Hugging Face's names for parameters: "h.0.attn.c_attn.weight" */
	enum tensor_role role;
	enum dtype dtype;
	struct shape shape;
	uint32_t producer;   /* node, or GRAPH_NONE for inputs and parameters */
	uint32_t shard;      /* of its parameter, or of its producer */
	uint64_t offset;     /* parameters: first element in the shard's flat vector */
	enum init_kind init; /* parameters */
	float init_std;
	bool decay;  /* parameters: weight decay applies (matrices and kernels only) */
	bool buffer; /* parameters: running statistics, changed by forward, by no gradient */
};

struct node {
	enum op op;
	uint32_t shard;
	uint32_t n_in, in[NODE_IN_MAX]; /* tensors; which is which is said at the op in op.h */
	uint32_t out;                   /* every op has one output tensor */
	uint32_t block;                 /* graph_block */
	uint32_t heads, kv_heads;       /* attention; rope: heads */
	uint32_t window, stride, pad;   /* conv2d (without window), maxpool */
	float eps;                      /* layernorm, rmsnorm, batchnorm */
	float theta;                    /* rope */
	float momentum;                 /* batchnorm */
};

struct graph {
	struct node *nodes;
	uint32_t n_nodes;
	struct tensor *tensors;
	uint32_t n_tensors;
	uint32_t n_shards;
	uint32_t batch, seq; /* B, T; of images N, 1 */
	/* The input tensors: tokens [B,T] or images [N,C,H,W], GRAPH_NONE the one that is not, and
	 * targets [B,T] or [N]. */
	uint32_t tokens_in, images_in, targets_in;
	uint32_t loss;   /* the scalar output tensor, or GRAPH_NONE: no training */
	uint32_t logits; /* tensor [B,T,V] or [N,V], or GRAPH_NONE */
	/* Elements of each shard's flat vector: shard_params in all; the first shard_trained of
	 * them have gradients, the rest are buffers; the first shard_decay of those decay. */
	uint64_t *shard_params, *shard_trained, *shard_decay;
	uint32_t cap_nodes, cap_tensors;
	uint32_t block;     /* of the next node */
	struct why mistake; /* the first one made while building */
};

#define MODEL_STAGES 4

/* What the spec says of a model.  "gpt": GPT-2's architecture (pre-norm, learned positions,
 * tanh-GELU, biases).  "llama": RMSNorm, RoPE, SwiGLU, grouped-query attention, no biases.
 * "resnet": He et al.'s residual networks as torchvision builds them.  "graph": the user's own
 * (usergraph.h). */
struct model_config {
	char builder[16];
	uint32_t layers, width, heads, context, vocab;
	bool tied; /* head shares the token embedding */
	uint32_t n_shards;
	/* First layer (block) of each shard; [0] is 0.  Embeddings or the stem are in shard 0,
	 * final norm and head in the last one.  graph: not used, its nodes say where they are. */
	uint32_t shard_first[GRAPH_SHARDS_MAX];
	uint32_t kv_heads, hidden;   /* llama: key heads (0: heads); width of the feed-forward */
	double rope_theta, norm_eps; /* llama; 0: builder.h has defaults.  gpt: norm_eps alone */
	/* resnet: layers is the number of residual blocks, width the channels of the first stage
	 * (64), vocab the classes. */
	uint32_t blocks[MODEL_STAGES]; /* residual blocks of each stage; 0: no such stage */
	bool bottleneck;               /* 1x1, 3x3, 1x1 blocks that widen four times (ResNet-50) */
	bool small_stem;   /* 3x3 at full size for small images; else 7x7/2 and a pool */
	uint32_t image[3]; /* channels, height, width */
	const char *user;  /* graph: canonical JSON of model.graph; borrowed */
};

/* ---- building (used by builders).  The first mistake is kept and reported by graph_finish; the
 * calls after it do nothing and return GRAPH_NONE, which they also accept as an input. */
struct graph *graph_new(uint32_t batch, uint32_t seq); /* NULL: out of memory */
uint32_t graph_input(struct graph *g, const char *name, const struct shape *s, enum dtype dtype);
uint32_t graph_param(struct graph *g, uint32_t shard, const char *name, const struct shape *s,
	enum init_kind init, float std);
/* Running statistics: a parameter without gradient. */
uint32_t graph_buffer(struct graph *g, uint32_t shard, const char *name, const struct shape *s,
	enum init_kind init);
/* Appends a node; its shape rule runs at once.  attrs supplies the attributes (heads to momentum);
 * may be NULL.  Returns the output tensor. */
uint32_t graph_node(struct graph *g, uint32_t shard, enum op op, const uint32_t *in, uint32_t n_in,
	const struct node *attrs);
/* The nodes from here on are a block of their own.  Executors that recompute keep only what crosses
 * a block's border, and make its values again before its backward. */
void graph_block(struct graph *g);
/* Lays the parameters out (matrices first, in order of their making, then vectors, then buffers),
 * and checks the whole: shards contiguous and not empty, every tensor but loss and logits used,
 * names unique, loss one element.  On failure the caller still owns g. */
enum err graph_finish(struct graph *g, struct why *why) MUST_CHECK;
void graph_free(struct graph *g);

/* The builder's graph for a micro-batch of batch x seq tokens.  Parameters are the same, in the
 * same order and with the same offsets, whatever batch and seq.  ERR_range with a sentence; seq may
 * not exceed context. */
enum err graph_build(const struct model_config *m, uint32_t batch, uint32_t seq, struct graph **out,
	struct why *why) MUST_CHECK;

/* ---- asking */
uint64_t graph_params(const struct graph *g);                 /* elements in all shards */
uint32_t graph_find(const struct graph *g, const char *name); /* tensor or GRAPH_NONE */
/* Initial parameters of one shard (shard_params[shard] elements): a pure function of (seed, the
 * parameter's name, element), no libm, so that it does not depend on the cut into shards. */
void graph_init_shard(const struct graph *g, uint32_t shard, uint64_t seed, float *out);

#endif
