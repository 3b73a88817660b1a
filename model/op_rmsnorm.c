#include <stdio.h>
#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = &g->tensors[n->in[0]].shape, *gain = &g->tensors[n->in[1]].shape;
	if (x->rank < 1)
		return op_wrong_shape(g, n, 0, "[..,C]", why);
	if (gain->rank != 1 || gain->dim[0] != shape_last(x)) {
		char must[32];
		snprintf(must, sizeof must, "[%u]", shape_last(x));
		return op_wrong_shape(g, n, 1, must, why);
	}
	*y = *x;
	return ERR_OK;
}

static uint64_t saved(const struct graph *g, const struct node *n)
{
	return shape_rows(&g->tensors[n->in[0]].shape);
}

/* Forward: square and sum, two factors; 4 a row.  Backward: x rstd again, dy gain, two for its sum
 * with h, three for x, two for the gain; 2 a row. */
static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t all = shape_count(&g->tensors[n->in[0]].shape), rows = saved(g, n);
	c->flops_forward = 4 * all + 4 * rows;
	c->flops_backward = 9 * all + 2 * rows;
	op_count_bytes(g, n, c);
}

const struct op_def op_rmsnorm = {
	.name = "rmsnorm",
	.min_in = 2,
	.max_in = 2,
	.gradient_in = 1 << 0 | 1 << 1,
	.backward_in = 1 << 0 | 1 << 1,
	.infer = infer,
	.cost = cost,
	.saved = saved,
};
