#include <stdio.h>
#include "model/graph.h"

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *x = &g->tensors[n->in[0]].shape;
	const struct shape *table = &g->tensors[n->in[1]].shape;
	if (x->rank != 3)
		return op_wrong_shape(g, n, 0, "[B,T,C]", why);
	if (table->rank != 2 || table->dim[0] < x->dim[1] || table->dim[1] != x->dim[2]) {
		char must[64];
		snprintf(
			must, sizeof must, "[Tmax,%u] with at least %u rows", x->dim[2], x->dim[1]);
		return op_wrong_shape(g, n, 1, must, why);
	}
	*y = *x;
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	const struct shape *x = &g->tensors[n->in[0]].shape;
	uint64_t all = shape_count(x), used = (uint64_t)x->dim[1] * x->dim[2];
	c->flops_forward = all;
	c->flops_backward = all;
	c->bytes_forward = 4 * (2 * all + used);
	c->bytes_backward = 4 * (2 * all + used);
}

static uint32_t context(const struct graph *g, const struct node *n)
{
	return g->tensors[n->in[1]].shape.dim[0];
}

const struct op_def op_pos_embed = {
	.name = "pos_embed",
	.min_in = 2,
	.max_in = 2,
	.gradient_in = 1 << 0 | 1 << 1,
	.context = context,
	.infer = infer,
	.cost = cost,
};
