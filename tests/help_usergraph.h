/* A finished graph written down as a user would: what builder "graph" then has to build again. */
#ifndef TESTS_HELP_USERGRAPH_H
#define TESTS_HELP_USERGRAPH_H
#include <jansson.h>
#include "model/graph.h"

static inline json_t *help_usergraph_params(const struct graph *g)
{
	static const char *const inits[] = {
		[INIT_zero] = "zero", [INIT_one] = "one", [INIT_normal] = "normal"};
	json_t *list = json_array();
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		json_t *p = json_pack(
			"{s:s, s:[], s:s}", "name", t->name, "shape", "init", inits[t->init]);
		for (uint32_t d = 0; d < t->shape.rank; d++)
			json_array_append_new(
				json_object_get(p, "shape"), json_integer(t->shape.dim[d]));
		if (t->init == INIT_normal)
			json_object_set_new(p, "std", json_real((double)t->init_std));
		if (t->buffer)
			json_object_set_new(p, "buffer", json_true());
		json_array_append_new(list, p);
	}
	return list;
}

static inline void help_usergraph_attributes(const struct node *n, json_t *to)
{
	const struct {
		const char *name;
		double is;
		bool has;
	} rows[] = {
		{"heads", n->heads, n->op == OP_attention || n->op == OP_rope},
		{"kv_heads", n->kv_heads, n->op == OP_attention && n->kv_heads},
		{"window", n->window, n->op == OP_maxpool},
		{"stride", n->stride, n->op == OP_maxpool || n->op == OP_conv2d},
		{"pad", n->pad, n->op == OP_maxpool || n->op == OP_conv2d},
		{"shard", n->shard, true},
		{"theta", (double)n->theta, n->op == OP_rope},
		{"eps", (double)n->eps,
			n->op == OP_layernorm || n->op == OP_rmsnorm || n->op == OP_batchnorm},
		{"momentum", (double)n->momentum, n->op == OP_batchnorm},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].has)
			json_object_set_new(to, rows[i].name,
				i < 6 ? json_integer((json_int_t)rows[i].is)
				      : json_real(rows[i].is));
}

/* The caller's. */
static inline json_t *help_usergraph_of(const struct graph *g)
{
	json_t *nodes = json_array();
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		json_t *node = json_pack("{s:s, s:s, s:[]}", "name", g->tensors[n->out].name, "op",
			op_def(n->op)->name, "in");
		for (uint32_t j = 0; j < n->n_in; j++)
			json_array_append_new(json_object_get(node, "in"),
				json_string(g->tensors[n->in[j]].name));
		help_usergraph_attributes(n, node);
		json_array_append_new(nodes, node);
	}
	return json_pack("{s:o, s:o, s:s, s:s}", "params", help_usergraph_params(g), "nodes", nodes,
		"logits", g->tensors[g->logits].name, "loss", g->tensors[g->loss].name);
}

#endif
