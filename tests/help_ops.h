/* Graphs of one node for every op of the list: an op without its inputs here does not compile. */
#ifndef TESTS_HELP_OPS_H
#define TESTS_HELP_OPS_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "model/graph.h"

struct help_dims {
	uint32_t batch, seq, width, heads; /* of sequences; batch also of images */
	uint32_t vocab, out;
	uint32_t kv_heads; /* 0: attention takes one tensor and shares no keys */
	/* Images; linear and conv2d have a bias when out is odd, batchnorm's x is [N,C] when wide
	 * is a multiple of 3. */
	uint32_t channels, high, wide, window, stride, pad;
};

static inline uint32_t help_ops_real(struct graph *g, const char *name, struct shape s)
{
	return graph_input(g, name, &s, DTYPE_real);
}

static inline uint32_t help_ops_vector(struct graph *g, const char *name, uint32_t n)
{
	return help_ops_real(g, name, shape_make(1, n, 1, 1, 1));
}

static inline uint32_t help_ops_rows(
	struct graph *g, const char *name, const struct help_dims *d, uint32_t width)
{
	return help_ops_real(g, name, shape_make(3, d->batch, d->seq, width, 1));
}

static inline uint32_t help_ops_tokens(struct graph *g, const struct help_dims *d)
{
	struct shape s = shape_make(2, d->batch, d->seq, 1, 1);
	return graph_input(g, "tokens", &s, DTYPE_token);
}

static inline uint32_t help_ops_images(struct graph *g, const struct help_dims *d)
{
	return help_ops_real(g, "x", shape_make(4, d->batch, d->channels, d->high, d->wide));
}

/* They give the number of inputs. */
#define HELP_OPS_INPUTS(op) \
	static inline uint32_t help_ops_##op( \
		struct graph *g, const struct help_dims *d, uint32_t *in)

HELP_OPS_INPUTS(token_embed)
{
	in[0] = help_ops_tokens(g, d);
	in[1] = help_ops_real(g, "table", shape_make(2, d->vocab, d->width, 1, 1));
	return 2;
}

HELP_OPS_INPUTS(pos_embed)
{
	in[0] = help_ops_rows(g, "x", d, d->width);
	in[1] = help_ops_real(g, "table", shape_make(2, d->seq + 3, d->width, 1, 1));
	return 2;
}

HELP_OPS_INPUTS(layernorm)
{
	in[0] = help_ops_rows(g, "x", d, d->width);
	in[1] = help_ops_vector(g, "gain", d->width);
	in[2] = help_ops_vector(g, "bias", d->width);
	return 3;
}

HELP_OPS_INPUTS(linear)
{
	in[0] = help_ops_rows(g, "x", d, d->width);
	in[1] = help_ops_real(g, "weight", shape_make(2, d->out, d->width, 1, 1));
	in[2] = help_ops_vector(g, "bias", d->out);
	return d->out % 2 ? 3 : 2;
}

HELP_OPS_INPUTS(attention)
{
	uint32_t kv_heads = d->kv_heads ? d->kv_heads : d->heads;
	uint32_t kv_width = d->width / d->heads * kv_heads;
	/* Both forms share keys or not. */
	if (!d->kv_heads || d->seq % 2) {
		in[0] = help_ops_rows(g, "qkv", d, d->width + 2 * kv_width);
		return 1;
	}
	in[0] = help_ops_rows(g, "q", d, d->width);
	in[1] = help_ops_rows(g, "k", d, kv_width);
	in[2] = help_ops_rows(g, "v", d, kv_width);
	return 3;
}

HELP_OPS_INPUTS(gelu)
{
	in[0] = help_ops_rows(g, "x", d, d->width);
	return 1;
}

HELP_OPS_INPUTS(add)
{
	in[0] = help_ops_rows(g, "a", d, d->width);
	in[1] = help_ops_rows(g, "b", d, d->width);
	return 2;
}

HELP_OPS_INPUTS(cross_entropy)
{
	in[0] = help_ops_rows(g, "logits", d, d->vocab);
	in[1] = help_ops_tokens(g, d);
	return 2;
}

HELP_OPS_INPUTS(rmsnorm)
{
	in[0] = help_ops_rows(g, "x", d, d->width);
	in[1] = help_ops_vector(g, "gain", d->width);
	return 2;
}

HELP_OPS_INPUTS(rope)
{
	in[0] = help_ops_rows(g, "x", d, 2 * d->width);
	return 1;
}

HELP_OPS_INPUTS(swiglu)
{
	return help_ops_add(g, d, in);
}

HELP_OPS_INPUTS(relu)
{
	return help_ops_gelu(g, d, in);
}

HELP_OPS_INPUTS(conv2d)
{
	/* Not square, where the pad leaves room for that. */
	uint32_t wide = d->window + 1 <= d->wide + 2 * d->pad ? d->window + 1 : d->window;
	in[0] = help_ops_images(g, d);
	in[1] = help_ops_real(g, "weight", shape_make(4, d->out, d->channels, d->window, wide));
	in[2] = help_ops_vector(g, "bias", d->out);
	return d->out % 2 ? 3 : 2;
}

HELP_OPS_INPUTS(batchnorm)
{
	uint32_t rank = d->wide % 3 ? 4 : 2;
	struct shape s = shape_make(rank, d->batch, d->channels, d->high, d->wide);
	in[0] = help_ops_real(g, "x", s);
	static const char *const names[] = {"gain", "bias", "mean", "var"};
	for (uint32_t i = 1; i < 5; i++)
		in[i] = help_ops_vector(g, names[i - 1], d->channels);
	g->tensors[in[3]].buffer = g->tensors[in[4]].buffer = true;
	return 5;
}

HELP_OPS_INPUTS(maxpool)
{
	in[0] = help_ops_images(g, d);
	return 1;
}

HELP_OPS_INPUTS(global_average)
{
	in[0] = help_ops_images(g, d);
	return 1;
}

typedef uint32_t help_ops_fn(struct graph *g, const struct help_dims *d, uint32_t *in);

static inline help_ops_fn *help_ops_of(enum op op)
{
	switch (op) {
#define X(id, name) \
	case OP_##name: return help_ops_##name;
		OP_LIST(X)
#undef X
	default: return NULL;
	}
}

static inline struct graph *help_ops_graph(enum op op, const struct help_dims *d)
{
	struct graph *g = graph_new(d->batch, d->seq);
	uint32_t in[NODE_IN_MAX];
	uint32_t n = help_ops_of(op)(g, d, in);
	const struct node attrs = {.heads = d->heads,
		.kv_heads = op == OP_attention ? d->kv_heads : 0,
		.window = d->window,
		.stride = d->stride,
		.pad = op == OP_maxpool && d->pad >= d->window ? d->window - 1 : d->pad,
		.eps = 1e-3f,
		.theta = 500,
		.momentum = 0.3f};
	graph_node(g, 0, op, in, n, &attrs);
	if (g->mistake.code)
		fail_msg("%s", g->mistake.text);
	return g;
}

#endif
