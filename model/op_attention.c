#include <stdio.h>
#include "model/attention_form.h"
#include "model/graph.h"

static enum err check_heads(const struct graph *g, const struct node *n, struct why *why)
{
	if (n->heads && (!n->kv_heads || n->heads % n->kv_heads == 0))
		return ERR_OK;
	return err_why(why, ERR_range,
		"attention.%u: %u query heads over %u key heads: must be a multiple", g->n_nodes,
		n->heads, n->kv_heads);
}

static enum err infer(const struct graph *g, const struct node *n, struct shape *y, struct why *why)
{
	enum err e = check_heads(g, n, why);
	if (e)
		return e;
	const struct shape *q = &g->tensors[n->in[0]].shape;
	uint64_t kv_heads = n->kv_heads ? n->kv_heads : n->heads;
	uint64_t unit = n->n_in == 1 ? n->heads + 2 * kv_heads : n->heads;
	char must[64];
	if (q->rank != 3 || q->dim[2] % unit) {
		snprintf(must, sizeof must, "[B,T,%llu D]", (unsigned long long)unit);
		return op_wrong_shape(g, n, 0, must, why);
	}
	*y = shape_make(3, q->dim[0], q->dim[1], (uint32_t)(q->dim[2] / unit * n->heads), 1);
	if (n->n_in == 2)
		return err_why(why, ERR_shape,
			"attention.%u: takes q, k and v, or one tensor with all three, not two",
			g->n_nodes);
	for (uint32_t i = 1; i < n->n_in; i++) {
		struct shape kv = *q;
		kv.dim[2] = (uint32_t)(q->dim[2] / unit * kv_heads);
		if (shape_equal(&g->tensors[n->in[i]].shape, &kv))
			continue;
		shape_text(&kv, must);
		return op_wrong_shape(g, n, i, must, why);
	}
	return ERR_OK;
}

static uint64_t saved(const struct graph *g, const struct node *n)
{
	struct attention_form f = attention_form(g, n);
	return (uint64_t)f.batch * f.heads * f.seq;
}

/* Counted over the causal half only.  A pair of query and key costs forward: the score and what it
 * takes of v (2 size each), scaling, subtracting, exp, sum; backward: the score again (2 size + 3),
 * four products (2 size each) and 3. */
static void cost(const struct graph *g, const struct node *n, struct op_cost *c)
{
	struct attention_form f = attention_form(g, n);
	uint64_t pairs = (uint64_t)f.batch * f.heads * ((uint64_t)f.seq * (f.seq + 1) / 2);
	uint64_t out = shape_count(&g->tensors[n->out].shape);
	c->flops_forward = pairs * (4 * (uint64_t)f.size + 4) + out;
	c->flops_backward = pairs * (10 * (uint64_t)f.size + 6) + 2 * out;
	op_count_bytes(g, n, c);
}

const struct op_def op_attention = {
	.name = "attention",
	.min_in = 1,
	.max_in = 3,
	.gradient_in = 1 << 0 | 1 << 1 | 1 << 2,
	.backward_in = 1 << 0 | 1 << 1 | 1 << 2,
	.backward_out = true,
	.infer = infer,
	.cost = cost,
	.saved = saved,
};
