#include <stdio.h>
#include "model/graph.h"

static const struct shape *qkv_of(const struct graph *g, const struct node *n)
{
	return &g->tensors[n->in[0]].shape;
}

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *qkv = qkv_of(g, n);
	uint64_t unit = 3 * (uint64_t)n->heads;
	if (qkv->rank != 3 || !unit || qkv->dim[2] % unit) {
		char must[64];
		snprintf(must, sizeof must, "[B,T,3C] with C a multiple of %u heads", n->heads);
		return op_wrong_shape(g, n, 0, must, why);
	}
	*y = shape_make(3, qkv->dim[0], qkv->dim[1], qkv->dim[2] / 3, 1);
	return ERR_OK;
}

static uint64_t saved(const struct graph *g, const struct node *n)
{
	const struct shape *qkv = qkv_of(g, n);
	return (uint64_t)qkv->dim[0] * n->heads * qkv->dim[1];
}

/* Counted over the causal half only.  A pair of query and key costs forward: the score and what it
 * takes of v (2 size each), scaling, subtracting, exp, sum; backward: the score again (2 size + 3),
 * four products (2 size each) and 3. */
static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	const struct shape *qkv = qkv_of(g, n);
	uint64_t t = qkv->dim[1], size = qkv->dim[2] / 3 / n->heads;
	uint64_t pairs = (uint64_t)qkv->dim[0] * n->heads * (t * (t + 1) / 2);
	uint64_t out = shape_count(&g->tensors[n->out].shape);
	c->flops_forward = pairs * (4 * size + 4) + out;
	c->flops_backward = pairs * (10 * size + 6) + 2 * out;
	op_count_bytes(g, n, c);
}

const struct op_def op_attention = {
	.name = "attention",
	.min_in = 1,
	.max_in = 1,
	.gradient_in = 1 << 0,
	.backward_in = 1 << 0,
	.backward_out = true,
	.infer = infer,
	.cost = cost,
	.saved = saved,
};
