/* What an attention node computes, from its inputs' shapes and its heads (op.h). */
#ifndef MODEL_ATTENTION_FORM_H
#define MODEL_ATTENTION_FORM_H
#include "model/graph.h"

struct attention_form {
	uint32_t batch, seq;
	uint32_t heads, kv_heads, size; /* size: of a head, D */
	/* Elements from a row of q to the next, and of k and v.  With one input q begins at 0, k at
	 * heads * size, v at (heads + kv_heads) * size of the same row. */
	uint32_t q_step, kv_step;
};

struct attention_form attention_form(const struct graph *g, const struct node *n);

#endif
