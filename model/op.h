/*
 * The op list.  A row here, a file model/op_NAME.c (shape rule, cost, what backward needs) and one
 * kernel file in each backend.  Ids are in files: append only.  R = B*T rows.  Every op has exactly
 * one output y.
 *
 * token_embed    in: tokens [B,T] token, table [V,C]
 *                y [B,T,C] = table[tokens]                      backward reads tokens
 * pos_embed      in: x [B,T,C], table [Tmax,C]
 *                y = x + table[past + t]
 * layernorm      in: x [..,C], gain [C], bias [C]; eps
 *                y = (x - mean) / sqrt(var + eps) * gain + bias, var over C (not C - 1)
 *                saved 2R: mean and 1 / sqrt(var + eps) of each row; backward reads x, gain
 * linear         in: x [..,I], weight [O,I] (row-major), bias [O] or none
 *                y [..,O] = x weight^T + bias                   backward reads x, weight
 * attention      in: q [B,T,heads D], k [B,T,kv_heads D], v like k; or one qkv with the three side
 *                by side in each row, heads of D side by side in each; kv_heads divides heads (0:
 *                equal to heads), and query head h reads key head h kv_heads / heads
 *                y [B,T,heads D] = causal softmax(q k^T / sqrt(D)) v
 *                saved B*heads*T: log of the sum of exponentials of each row of scaled scores;
 *                backward reads the inputs, y
 * gelu           in: x
 *                y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))   backward reads x
 * add            in: a, b of one shape
 *                y = a + b
 * cross_entropy  in: logits [..,V], targets [..] token; a target below 0 is not counted
 *                y [1] = mean over the counted rows of -log softmax(logits)[target]
 *                saved R: log of the sum of exponentials of each row; backward reads both inputs
 * rmsnorm        in: x [..,C], gain [C]; eps
 *                y = x / sqrt(mean of x^2 over C + eps) * gain
 *                saved R: 1 / sqrt(mean + eps) of each row; backward reads x, gain
 * rope           in: x [B,T,C]; heads, theta.  With D = C/heads, even, and i < D/2: the pair
 *                (i, i + D/2) of each head (Hugging Face's halves, not neighbours) is turned by
 *                the angle (past + t) theta^(-2i/D)             backward reads nothing
 * swiglu         in: gate, up of one shape
 *                y = gate / (1 + exp(-gate)) up                 backward reads gate, up
 * relu           in: x
 *                y = max(x, 0); its slope at 0 is 0             backward reads y
 * conv2d         in: x [N,C,H,W], weight [O,C,R,S], bias [O] or none; stride, pad (of zeros)
 *                y [N,O,(H + 2 pad - R)/stride + 1,(W + 2 pad - S)/stride + 1], the correlation
 *                                                               backward reads x, weight
 * batchnorm      in: x [N,C,H,W] or [N,C], gain [C], bias [C], buffers mean [C], var [C]; eps,
 *                momentum.  In training y = (x - m) / sqrt(v + eps) * gain + bias with m and v
 *                (divided by the count) of each channel over this call's N,H,W, and
 *                mean += momentum (m - mean), var likewise from v count / (count - 1), count > 1
 *                (else v); elsewhere with the buffers (a var below 0 counts as 0)
 *                saved 2C: m and 1 / sqrt(v + eps); backward reads x, gain
 * maxpool        in: x [N,C,H,W]; window, stride, pad < window (never the greatest)
 *                y [N,C,(H + 2 pad - window)/stride + 1,..]; the gradient goes to the first of
 *                equals in row-major order; NaN is the greatest  backward reads x, y
 * global_average in: x [N,C,H,W]
 *                y [N,C] = mean over H,W                        backward reads nothing
 *
 * saved is private to a backend (forward leaves it for the same backend's backward); only its size
 * is fixed here.
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
	X(8, cross_entropy) \
	X(9, rmsnorm) \
	X(10, rope) \
	X(11, swiglu) \
	X(12, relu) \
	X(13, conv2d) \
	X(14, batchnorm) \
	X(15, maxpool) \
	X(16, global_average)

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
	uint32_t token_in;    /* bit i: in[i] holds tokens, the others reals */
	uint32_t gradient_in; /* bit i: in[i] has a gradient */
	uint32_t backward_in; /* bit i: backward reads in[i] */
	bool backward_out;    /* backward reads y */
	uint32_t over_in;     /* bit i: in backward grad_in[i] may lie where in[i] does */
	uint32_t buffer_in;   /* bit i: in[i] is a buffer, which forward changes in training */
	bool token_skip;      /* a token below 0 means: not counted; else it is out of range */
	/* Tokens must be below this; NULL for ops without token inputs. */
	uint32_t (*token_limit)(const struct graph *g, const struct node *n);
	/* past + T may not exceed this; NULL: no bound. */
	uint32_t (*context)(const struct graph *g, const struct node *n);
	/* Checks the inputs' shapes and gives y's.  The sentence names op, input and shapes. */
	enum err (*infer)(
		const struct graph *g, const struct node *n, struct shape *y, struct why *why);
	void (*cost)(const struct graph *g, const struct node *n, struct op_cost *c);
	/* Real elements that forward leaves for backward beside y (row statistics); NULL: none. */
	uint64_t (*saved)(const struct graph *g, const struct node *n);
};

const struct op_def *op_def(enum op op); /* never NULL for a listed op */

/* ---- for the files of the ops
 * ERR_shape with "linear: input 1 (h.0.attn.c_attn.weight) is [96,32], must be [O,32]". */
enum err op_wrong_shape(const struct graph *g, const struct node *n, uint32_t input,
	const char *must, struct why *why);
/* The bias that a product with so many outputs may have as input 2: [O]. */
enum err op_check_bias(
	const struct graph *g, const struct node *n, uint32_t outputs, struct why *why);
/* Costs of a product of so many multiplications, and of its bias: there, and back to both factors.
 */
void op_count_product(
	const struct graph *g, const struct node *n, uint64_t multiplications, struct op_cost *c);
/* Fills in the bytes from the masks above: every input, y and saved once; in backward also each
 * gradient once. */
void op_count_bytes(const struct graph *g, const struct node *n, struct op_cost *c);

#endif
