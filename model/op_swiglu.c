#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *gate = &g->tensors[n->in[0]].shape, *up = &g->tensors[n->in[1]].shape;
	if (!shape_equal(gate, up)) {
		char must[SHAPE_TEXT];
		shape_text(gate, must);
		return op_wrong_shape(g, n, 1, must, why);
	}
	*y = *gate;
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t count = shape_count(&g->tensors[n->in[0]].shape);
	c->flops_forward = 5 * count;
	c->flops_backward = 11 * count;
	op_count_bytes(g, n, c);
}

const struct op_def op_swiglu = {
	.name = "swiglu",
	.min_in = 2,
	.max_in = 2,
	.gradient_in = 1 << 0 | 1 << 1,
	.backward_in = 1 << 0 | 1 << 1,
	.over_in = 1 << 0 | 1 << 1,
	.infer = infer,
	.cost = cost,
};
