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
	if (n->n_in == 3 &&
		(shape_of(g, n, 2)->rank != 1 || shape_last(shape_of(g, n, 2)) != w->dim[0])) {
		snprintf(must, sizeof must, "[%u]", w->dim[0]);
		return op_wrong_shape(g, n, 2, must, why);
	}
	*y = *x;
	y->dim[x->rank - 1] = w->dim[0];
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t product = shape_rows(shape_of(g, n, 0)) * shape_count(shape_of(g, n, 1));
	uint64_t bias = n->n_in == 3 ? shape_count(&g->tensors[n->out].shape) : 0;
	c->flops_forward = 2 * product + bias;
	c->flops_backward = 4 * product + bias;
	op_count_bytes(g, n, c);
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
