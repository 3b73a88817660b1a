/* The builder of Llama's architecture: pre-norm blocks with RMSNorm, rotary positions,
 * grouped-query attention and SwiGLU, no biases. */
#ifndef MODEL_LLAMA_H
#define MODEL_LLAMA_H
#include "base/err.h"
#include "model/graph.h"

/* As graph_build. */
enum err llama_build(const struct model_config *m, uint32_t batch, uint32_t seq, struct graph **out,
	struct why *why) MUST_CHECK;

#endif
