#include "model/op.h"
#include <stdio.h>
#include "model/graph.h"

#define X(id, name) extern const struct op_def op_##name;
OP_LIST(X)
#undef X

static const struct op_def *const table[OP_COUNT] = {
#define X(id, name) [OP_##name] = &op_##name,
	OP_LIST(X)
#undef X
};

const struct op_def *op_def(enum op op)
{
	return (unsigned)op < OP_COUNT ? table[op] : NULL;
}

enum err op_wrong_shape(const struct graph *g, const struct node *n, uint32_t input,
	const char *must, struct why *why)
{
	const struct tensor *t = &g->tensors[n->in[input]];
	char is[SHAPE_TEXT];
	shape_text(&t->shape, is);
	return err_why(why, ERR_shape, "%s.%u: input %u (%s) is %s, must be %s",
		op_def(n->op)->name, g->n_nodes, input, t->name, is, must);
}

enum err op_check_bias(
	const struct graph *g, const struct node *n, uint32_t outputs, struct why *why)
{
	char must[32];
	const struct shape *bias = n->n_in == 3 ? &g->tensors[n->in[2]].shape : NULL;
	if (!bias || (bias->rank == 1 && bias->dim[0] == outputs))
		return ERR_OK;
	snprintf(must, sizeof must, "[%u]", outputs);
	return op_wrong_shape(g, n, 2, must, why);
}

void op_count_product(
	const struct graph *g, const struct node *n, uint64_t multiplications, struct op_cost *c)
{
	uint64_t bias = n->n_in == 3 ? shape_count(&g->tensors[n->out].shape) : 0;
	c->flops_forward = 2 * multiplications + bias;
	c->flops_backward = 4 * multiplications + bias;
	op_count_bytes(g, n, c);
}

static uint64_t bytes_of(const struct graph *g, uint32_t tensor)
{
	return 4 * shape_count(&g->tensors[tensor].shape);
}

void op_count_bytes(const struct graph *g, const struct node *n, struct op_cost *c)
{
	const struct op_def *def = op_def(n->op);
	uint64_t out = bytes_of(g, n->out);
	uint64_t saved = def->saved ? 4 * def->saved(g, n) : 0;
	c->bytes_forward = out + saved;
	c->bytes_backward = out + saved; /* the gradient of y */
	if (def->backward_out)
		c->bytes_backward += out;
	for (uint32_t i = 0; i < n->n_in; i++) {
		uint64_t in = bytes_of(g, n->in[i]);
		c->bytes_forward += in;
		if (def->backward_in >> i & 1)
			c->bytes_backward += in;
		if (def->gradient_in >> i & 1)
			c->bytes_backward += in;
	}
}
