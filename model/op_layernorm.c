#include <stdio.h>
#include "model/graph.h"

static const struct shape *x_of(const struct graph *g, const struct node *n)
{
	return &g->tensors[n->in[0]].shape;
}

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = x_of(g, n);
	if (x->rank < 1)
		return op_wrong_shape(g, n, 0, "[..,C]", why);
	for (uint32_t i = 1; i < 3; i++) {
		const struct shape *s = &g->tensors[n->in[i]].shape;
		if (s->rank != 1 || s->dim[0] != shape_last(x)) {
			char must[32];
			snprintf(must, sizeof must, "[%u]", shape_last(x));
			return op_wrong_shape(g, n, i, must, why);
		}
	}
	*y = *x;
	return ERR_OK;
}

static uint64_t saved(const struct graph *g, const struct node *n)
{
	return 2 * shape_rows(x_of(g, n));
}

/* Forward: 1 for the mean, 3 for the variance, 4 to normalise and scale; 5 a row.  Backward: 2 to
 * normalise again, 4 for the two sums over the row, 3 for gain and bias, 4 for x; 2 a row. */
static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t all = shape_count(x_of(g, n)), rows = shape_rows(x_of(g, n));
	c->flops_forward = 8 * all + 5 * rows;
	c->flops_backward = 13 * all + 2 * rows;
	op_count_bytes(g, n, c);
}

const struct op_def op_layernorm = {
	.name = "layernorm",
	.min_in = 3,
	.max_in = 3,
	.gradient_in = 1 << 0 | 1 << 1 | 1 << 2,
	.backward_in = 1 << 0 | 1 << 1,
	.infer = infer,
	.cost = cost,
	.saved = saved,
};
