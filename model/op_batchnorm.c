#include <stdio.h>
#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = &g->tensors[n->in[0]].shape;
	if (x->rank != 2 && x->rank != 4)
		return op_wrong_shape(g, n, 0, "[N,C,H,W] or [N,C]", why);
	for (uint32_t i = 1; i < n->n_in; i++) {
		const struct shape *s = &g->tensors[n->in[i]].shape;
		char must[32];
		snprintf(must, sizeof must, "[%u]", x->dim[1]);
		if (s->rank != 1 || s->dim[0] != x->dim[1])
			return op_wrong_shape(g, n, i, must, why);
	}
	*y = *x;
	return ERR_OK;
}

static uint64_t saved(const struct graph *g, const struct node *n)
{
	return 2 * (uint64_t)g->tensors[n->in[0]].shape.dim[1];
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t count = shape_count(&g->tensors[n->in[0]].shape);
	c->flops_forward = 7 * count;
	c->flops_backward = 11 * count;
	op_count_bytes(g, n, c);
}

const struct op_def op_batchnorm = {
	.name = "batchnorm",
	.min_in = 5,
	.max_in = 5,
	.gradient_in = 1 << 0 | 1 << 1 | 1 << 2,
	.backward_in = 1 << 0 | 1 << 1,
	.buffer_in = 1 << 3 | 1 << 4,
	.infer = infer,
	.cost = cost,
	.saved = saved,
};
