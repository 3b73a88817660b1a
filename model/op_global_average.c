#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = &g->tensors[n->in[0]].shape;
	if (x->rank != 4)
		return op_wrong_shape(g, n, 0, "[N,C,H,W]", why);
	*y = shape_make(2, x->dim[0], x->dim[1], 1, 1);
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	c->flops_forward = c->flops_backward = shape_count(&g->tensors[n->in[0]].shape);
	op_count_bytes(g, n, c);
}

const struct op_def op_global_average = {
	.name = "global_average",
	.min_in = 1,
	.max_in = 1,
	.gradient_in = 1 << 0,
	.infer = infer,
	.cost = cost,
};
