#include "model/graph.h"
#include "model/slide.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = &g->tensors[n->in[0]].shape;
	uint32_t rows, columns;
	if (x->rank != 4)
		return op_wrong_shape(g, n, 0, "[N,C,H,W]", why);
	if (n->pad >= n->window || slide(x->dim[2], n->window, n->stride, n->pad, &rows) ||
		slide(x->dim[3], n->window, n->stride, n->pad, &columns))
		return err_why(why, ERR_shape,
			"maxpool.%u: a window of %u with stride %u and pad %u does not fit into "
			"%u x %u",
			g->n_nodes, n->window, n->stride, n->pad, x->dim[2], x->dim[3]);
	*y = shape_make(4, x->dim[0], x->dim[1], rows, columns);
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t out = shape_count(&g->tensors[n->out].shape);
	c->flops_forward = c->flops_backward = out * n->window * n->window;
	op_count_bytes(g, n, c);
}

const struct op_def op_maxpool = {
	.name = "maxpool",
	.min_in = 1,
	.max_in = 1,
	.gradient_in = 1 << 0,
	.backward_in = 1 << 0,
	.backward_out = true,
	.infer = infer,
	.cost = cost,
};
