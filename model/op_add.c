#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *a = &g->tensors[n->in[0]].shape;
	if (!shape_equal(a, &g->tensors[n->in[1]].shape)) {
		char must[SHAPE_TEXT];
		shape_text(a, must);
		return op_wrong_shape(g, n, 1, must, why);
	}
	*y = *a;
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	c->flops_forward = shape_count(&g->tensors[n->out].shape);
	c->flops_backward = 0; /* the gradient is handed on as it is */
	op_count_bytes(g, n, c);
}

const struct op_def op_add = {
	.name = "add",
	.min_in = 2,
	.max_in = 2,
	.gradient_in = 1 << 0 | 1 << 1,
	.infer = infer,
	.cost = cost,
};
