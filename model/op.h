/*
 * The op list.  A row here, a file model/op_NAME.c (shape rule, cost, what backward needs) and one
 * kernel file in each backend.  Ids are in files: append only.  R = rows = B*T.  Every op has
 * exactly one output y.
 *
 *   token_embed   in: tokens [B,T] token, table [V,C]                     y [B,T,C] = table[tokens]
 *   pos_embed     in: x [B,T,C], table [Tmax,C]                           y = x + table[past + t]
 *   layernorm     in: x [..,C], gain [C], bias [C]; eps                   y = (x - mean) / sqrt(var
 * + eps) * gain + bias linear        in: x [..,I], weight [O,I] (row-major), bias [O]?       y
 * [..,O] = x weight^T + bias attention     in: qkv [B,T,3C] (q, k, v side by side, heads inside);
 * y [B,T,C], causal softmax(q k^T / sqrt(C/heads)) v gelu          in: x y = 0.5 x (1 +
 * tanh(sqrt(2/pi) (x + 0.044715 x^3))) add           in: a, b of one shape y = a + b cross_entropy
 * in: logits [B,T,V], targets [B,T] token                  y [1] = mean over B*T of -log
 * softmax(logits)[target]; a target below 0 is not counted
 */
#ifndef MODEL_OP_H
#define MODEL_OP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define OP_LIST(X) \
	X(1, token_embed) \
	X(2, pos_embed) \
	X(3, layernorm) \
	X(4, linear) \
	X(5, attention) \
	X(6, gelu) \
	X(7, add) \
	X(8, cross_entropy)

enum op {
	OP_none = 0,
#define X(id, name) OP_##name = id,
	OP_LIST(X)
#undef X
		OP_COUNT
};

struct graph;
struct node;
struct shape;

struct op_cost {
	uint64_t flops_forward, flops_backward; /* multiply and add count as two */
	uint64_t bytes_forward, bytes_backward; /* moved at least, at 4 bytes an element */
};

struct op_def {
	const char *name;
	uint32_t min_in, max_in;
	uint32_t gradient_in; /* bit i: in[i] has a gradient */
	uint32_t backward_in; /* bit i: backward reads in[i] */
	bool backward_out;    /* backward reads y */
	/* Checks the inputs' shapes and gives y's.  The sentence names op, input and shapes. */
	enum err (*infer)(
		const struct graph *g, const struct node *n, struct shape *y, struct why *why);
	void (*cost)(const struct graph *g, const struct node *n, struct op_cost *c);
	/* Real elements that forward leaves for backward beside y (row statistics); NULL: none. */
	uint64_t (*saved)(const struct graph *g, const struct node *n);
};

const struct op_def *op_def(enum op op); /* never NULL for a listed op */
enum op op_find(const char *name);       /* OP_none when unknown */

#endif
