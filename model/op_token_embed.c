#include "model/graph.h"

static const struct shape *shape_of(const struct graph *g, const struct node *n, uint32_t i)
{
	return &g->tensors[n->in[i]].shape;
}

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *tokens = shape_of(g, n, 0), *table = shape_of(g, n, 1);
	if (tokens->rank != 2)
		return op_wrong_shape(g, n, 0, "[B,T]", why);
	if (table->rank != 2)
		return op_wrong_shape(g, n, 1, "[V,C]", why);
	*y = shape_make(3, tokens->dim[0], tokens->dim[1], table->dim[1], 1);
	return ERR_OK;
}

static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t rows = shape_count(shape_of(g, n, 0));
	uint64_t moved = rows * shape_last(shape_of(g, n, 1));
	c->flops_forward = 0;
	c->flops_backward = moved; /* added to the rows of the table's gradient */
	/* Only the rows of the tokens are touched, not the whole table. */
	c->bytes_forward = 4 * (rows + 2 * moved);
	c->bytes_backward = 4 * (rows + 2 * moved);
}

static uint32_t token_limit(const struct graph *g, const struct node *n)
{
	return shape_of(g, n, 1)->dim[0];
}

const struct op_def op_token_embed = {
	.name = "token_embed",
	.min_in = 2,
	.max_in = 2,
	.token_in = 1 << 0,
	.gradient_in = 1 << 1,
	.backward_in = 1 << 0,
	.token_limit = token_limit,
	.infer = infer,
	.cost = cost,
};
