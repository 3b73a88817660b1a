#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	(void)why;
	*y = g->tensors[n->in[0]].shape;
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	c->flops_forward = c->flops_backward = shape_count(&g->tensors[n->in[0]].shape);
	op_count_bytes(g, n, c);
}

const struct op_def op_relu = {
	.name = "relu",
	.min_in = 1,
	.max_in = 1,
	.gradient_in = 1 << 0,
	.backward_out = true,
	.infer = infer,
	.cost = cost,
};
