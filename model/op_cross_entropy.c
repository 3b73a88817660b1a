#include "model/graph.h"

static const struct shape *logits_of(const struct graph *g, const struct node *n)
{
	return &g->tensors[n->in[0]].shape;
}

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	const struct shape *logits = logits_of(g, n);
	if (logits->rank < 2)
		return op_wrong_shape(g, n, 0, "[..,V]", why);
	struct shape rows = *logits;
	rows.dim[--rows.rank] = 1;
	if (!shape_equal(&rows, &g->tensors[n->in[1]].shape)) {
		char must[SHAPE_TEXT];
		shape_text(&rows, must);
		return op_wrong_shape(g, n, 1, must, why);
	}
	*y = shape_make(1, 1, 1, 1, 1);
	return ERR_OK;
}

static uint64_t saved(const struct graph *g, const struct node *n)
{
	return shape_rows(logits_of(g, n));
}

/* Forward: greatest, subtract, exp, sum; 4 a row.  Backward: subtract, exp, scale; 1 a row. */
static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	uint64_t all = shape_count(logits_of(g, n)), rows = shape_rows(logits_of(g, n));
	c->flops_forward = 4 * all + 4 * rows;
	c->flops_backward = 3 * all + rows;
	op_count_bytes(g, n, c);
}

static uint32_t token_limit(const struct graph *g, const struct node *n)
{
	return shape_last(logits_of(g, n));
}

const struct op_def op_cross_entropy = {
	.name = "cross_entropy",
	.min_in = 2,
	.max_in = 2,
	.token_in = 1 << 1,
	.gradient_in = 1 << 0,
	.backward_in = 1 << 0 | 1 << 1,
	.over_in = 1 << 0,
	.token_skip = true,
	.token_limit = token_limit,
	.infer = infer,
	.cost = cost,
	.saved = saved,
};
