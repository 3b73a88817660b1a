#include "model/attention_form.h"

struct attention_form attention_form(const struct graph *g, const struct node *n)
{
	const struct shape *q = &g->tensors[n->in[0]].shape;
	uint32_t kv_heads = n->kv_heads ? n->kv_heads : n->heads;
	uint32_t columns = n->n_in == 1 ? n->heads + 2 * kv_heads : n->heads;
	struct attention_form f = {.batch = q->dim[0],
		.seq = q->dim[1],
		.heads = n->heads,
		.kv_heads = kv_heads,
		.size = q->dim[2] / columns};
	f.q_step = q->dim[2];
	f.kv_step = n->n_in == 1 ? q->dim[2] : kv_heads * f.size;
	return f;
}
