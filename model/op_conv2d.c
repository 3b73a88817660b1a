#include <stdio.h>
#include "model/graph.h"
#include "model/slide.h"

static const struct shape *shape_of(const struct graph *g, const struct node *n, uint32_t i)
{
	return &g->tensors[n->in[i]].shape;
}

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = shape_of(g, n, 0), *w = shape_of(g, n, 1);
	char must[48];
	if (x->rank != 4)
		return op_wrong_shape(g, n, 0, "[N,C,H,W]", why);
	if (w->rank != 4 || w->dim[1] != x->dim[1]) {
		snprintf(must, sizeof must, "[O,%u,R,S]", x->dim[1]);
		return op_wrong_shape(g, n, 1, must, why);
	}
	uint32_t rows, columns;
	if (slide(x->dim[2], w->dim[2], n->stride, n->pad, &rows) ||
		slide(x->dim[3], w->dim[3], n->stride, n->pad, &columns))
		return err_why(why, ERR_shape,
			"conv2d.%u: a %u x %u kernel with stride %u and pad %u does not fit "
			"into %u x %u",
			g->n_nodes, w->dim[2], w->dim[3], n->stride, n->pad, x->dim[2], x->dim[3]);
	*y = shape_make(4, x->dim[0], w->dim[0], rows, columns);
	return op_check_bias(g, n, w->dim[0], why);
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	const struct shape *w = shape_of(g, n, 1);
	uint64_t out = shape_count(&g->tensors[n->out].shape);
	op_count_product(g, n, out * (shape_count(w) / w->dim[0]), c);
}

const struct op_def op_conv2d = {
	.name = "conv2d",
	.min_in = 2,
	.max_in = 3,
	.gradient_in = 1 << 0 | 1 << 1 | 1 << 2,
	.backward_in = 1 << 0 | 1 << 1,
	.infer = infer,
	.cost = cost,
};
