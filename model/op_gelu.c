#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	(void)why;
	*y = g->tensors[n->in[0]].shape;
	return ERR_OK;
}

/* An element costs 9 forward; backward the argument and its tanh again (6), the derivative (11) and
 * the product with the gradient. */
static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t all = shape_count(&g->tensors[n->out].shape);
	c->flops_forward = 9 * all;
	c->flops_backward = 18 * all;
	op_count_bytes(g, n, c);
}

const struct op_def op_gelu = {
	.name = "gelu",
	.min_in = 1,
	.max_in = 1,
	.gradient_in = 1 << 0,
	.backward_in = 1 << 0,
	.over_in = 1 << 0,
	.infer = infer,
	.cost = cost,
};
