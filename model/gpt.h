/* The builder of GPT-2's architecture: pre-norm blocks, learned positions, tanh-GELU, biases. */
#ifndef MODEL_GPT_H
#define MODEL_GPT_H
#include "base/err.h"
#include "model/graph.h"

/* As graph_build. */
enum err gpt_build(const struct model_config *m, uint32_t batch, uint32_t seq, struct graph **out,
	struct why *why) MUST_CHECK;

#endif
