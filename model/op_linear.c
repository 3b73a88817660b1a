#include <stdio.h>
#include "model/graph.h"

static const struct shape *shape_of(const struct graph *g, const struct node *n, uint32_t i)
{
	return &g->tensors[n->in[i]].shape;
}

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = shape_of(g, n, 0), *w = shape_of(g, n, 1);
	char must[32];
	if (x->rank < 1)
		return op_wrong_shape(g, n, 0, "[..,I]", why);
	if (w->rank != 2 || w->dim[1] != shape_last(x)) {
		snprintf(must, sizeof must, "[O,%u]", shape_last(x));
		return op_wrong_shape(g, n, 1, must, why);
	}
	*y = *x;
	y->dim[x->rank - 1] = w->dim[0];
	return op_check_bias(g, n, w->dim[0], why);
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	op_count_product(g, n, shape_rows(shape_of(g, n, 0)) * shape_count(shape_of(g, n, 1)), c);
}

const struct op_def op_linear = {
	.name = "linear",
	.min_in = 2,
	.max_in = 3,
	.gradient_in = 1 << 0 | 1 << 1 | 1 << 2,
	.backward_in = 1 << 0 | 1 << 1,
	.infer = infer,
	.cost = cost,
};
