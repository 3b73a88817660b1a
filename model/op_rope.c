#include <stdio.h>
#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = &g->tensors[n->in[0]].shape;
	if (x->rank != 3 || !n->heads || x->dim[2] % (2 * (uint64_t)n->heads)) {
		char must[64];
		snprintf(
			must, sizeof must, "[B,T,C] with C a multiple of twice %u heads", n->heads);
		return op_wrong_shape(g, n, 0, must, why);
	}
	if (!(n->theta > 1))
		return err_why(why, ERR_range, "rope.%u: theta is %g, must be above 1", g->n_nodes,
			(double)n->theta);
	*y = *x;
	return ERR_OK;
}

/* Each number takes two products and a sum; the angles are few, since they repeat in every head. */
static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	c->flops_forward = c->flops_backward = 3 * shape_count(&g->tensors[n->in[0]].shape);
	op_count_bytes(g, n, c);
}

const struct op_def op_rope = {
	.name = "rope",
	.min_in = 1,
	.max_in = 1,
	.gradient_in = 1 << 0,
	.infer = infer,
	.cost = cost,
};
