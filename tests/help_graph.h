/* Graphs for tests: GPTs of a few numbers, and random graphs whose tensors skip over shards. */
#ifndef TESTS_HELP_GRAPH_H
#define TESTS_HELP_GRAPH_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "model/graph.h"

/* A small GPT of one shard per layer. */
static inline struct model_config help_graph_config(uint32_t layers, bool tied)
{
	struct model_config m = {.builder = "gpt",
		.layers = layers,
		.width = 12,
		.heads = 3,
		.context = 16,
		.vocab = 23,
		.tied = tied,
		.n_shards = layers};
	for (uint32_t i = 0; i < layers; i++)
		m.shard_first[i] = i;
	return m;
}

static inline struct graph *help_graph_build(
	const struct model_config *m, uint32_t batch, uint32_t seq)
{
	struct why why = {0};
	struct graph *g = NULL;
	if (graph_build(m, batch, seq, &g, &why))
		fail_msg("%s", why.text);
	return g;
}

/* Each allocation fails once: never a crash, always the sentence.  Returns how many there are. */
static inline uint32_t help_graph_build_without_memory(const struct model_config *m)
{
	for (uint32_t n = 1;; n++) {
		struct graph *g = NULL;
		struct why why = {0};
		alloc_fail_at((long)n);
		enum err e = graph_build(m, 1, 4, &g, &why);
		alloc_fail_at(0);
		graph_free(g);
		if (!e)
			return n - 1;
		assert_int_equal(e, ERR_nomem);
		assert_non_null(strstr(why.text, "out of memory"));
	}
}

enum { HELP_GRAPH_VOCAB = 11, HELP_GRAPH_WIDTH = 6, HELP_GRAPH_OPEN = 8 };

/* A random graph being made: values that nobody reads yet, all of the shape [B,T,C]. */
struct help_graph {
	struct graph *g;
	uint64_t seed, draws;
	uint32_t shard;
	uint32_t open[HELP_GRAPH_OPEN], n_open, older;
};

static inline uint32_t help_graph_draw(struct help_graph *h, uint32_t n)
{
	return (uint32_t)rng_below(h->seed, 1, h->draws++, n);
}

static inline uint32_t help_graph_param(struct help_graph *h, struct shape s, enum init_kind init)
{
	char name[GRAPH_NAME];
	snprintf(name, sizeof name, "p.%u", h->g->n_tensors);
	return graph_param(h->g, h->shard, name, &s, init, 0.5f);
}

static inline uint32_t help_graph_unary(struct help_graph *h, uint32_t x)
{
	struct shape vector = shape_make(1, HELP_GRAPH_WIDTH, 1, 1, 1);
	struct shape matrix = shape_make(2, HELP_GRAPH_WIDTH, HELP_GRAPH_WIDTH, 1, 1);
	struct shape wide = shape_make(2, 3 * HELP_GRAPH_WIDTH, HELP_GRAPH_WIDTH, 1, 1);
	const struct node attrs = {.eps = 1e-5f, .heads = 2};
	uint32_t a, b;
	switch (help_graph_draw(h, 4)) {
	case 0: return graph_node(h->g, h->shard, OP_gelu, &x, 1, NULL);
	case 1:
		a = help_graph_param(h, vector, INIT_one);
		b = help_graph_param(h, vector, INIT_normal);
		return graph_node(
			h->g, h->shard, OP_layernorm, (const uint32_t[]){x, a, b}, 3, &attrs);
	case 2:
		a = help_graph_param(h, wide, INIT_normal);
		b = graph_node(h->g, h->shard, OP_linear, (const uint32_t[]){x, a}, 2, NULL);
		return graph_node(h->g, h->shard, OP_attention, &b, 1, &attrs);
	default:
		a = help_graph_param(h, matrix, INIT_normal);
		return graph_node(h->g, h->shard, OP_linear, (const uint32_t[]){x, a}, 2, NULL);
	}
}

/* One more node: it reads an open value, which may stay open for another reader far away. */
static inline void help_graph_grow(struct help_graph *h)
{
	uint32_t i = help_graph_draw(h, h->n_open), x = h->open[i], y;
	bool again = help_graph_draw(h, 3) == 0;
	if (help_graph_draw(h, 3) == 0 && h->older != x)
		y = graph_node(h->g, h->shard, OP_add, (const uint32_t[]){x, h->older}, 2, NULL);
	else
		y = help_graph_unary(h, x);
	if (help_graph_draw(h, 4) == 0)
		h->older = x;
	if (again && h->n_open < HELP_GRAPH_OPEN)
		h->open[h->n_open++] = y;
	else
		h->open[i] = y;
}

/* Some 10 to 40 nodes in up to n_shards shards, the same for the same seed. */
static inline struct graph *help_graph_random(uint64_t seed, uint32_t n_shards)
{
	struct help_graph h = {.g = graph_new(2, 3), .seed = seed};
	struct why why = {0};
	struct shape tokens = shape_make(2, 2, 3, 1, 1);
	struct shape table = shape_make(2, HELP_GRAPH_VOCAB, HELP_GRAPH_WIDTH, 1, 1);
	h.g->tokens_in = graph_input(h.g, "tokens", &tokens, DTYPE_token);
	h.g->targets_in = graph_input(h.g, "targets", &tokens, DTYPE_token);
	uint32_t wte = help_graph_param(&h, table, INIT_normal);
	h.open[h.n_open++] = h.older = graph_node(
		h.g, 0, OP_token_embed, (const uint32_t[]){h.g->tokens_in, wte}, 2, NULL);
	uint32_t nodes = 8 + help_graph_draw(&h, 24);
	for (uint32_t i = 0; i < nodes; i++) {
		if (h.shard + 1 < n_shards && help_graph_draw(&h, nodes) < 2 * n_shards)
			h.shard++;
		if (help_graph_draw(&h, 4) == 0)
			graph_block(h.g);
		help_graph_grow(&h);
	}
	uint32_t x = h.open[0];
	for (uint32_t i = 1; i < h.n_open; i++)
		x = graph_node(h.g, h.shard, OP_add, (const uint32_t[]){x, h.open[i]}, 2, NULL);
	uint32_t head = help_graph_param(&h, table, INIT_normal);
	h.g->logits = graph_node(h.g, h.shard, OP_linear, (const uint32_t[]){x, head}, 2, NULL);
	h.g->loss = graph_node(h.g, h.shard, OP_cross_entropy,
		(const uint32_t[]){h.g->logits, h.g->targets_in}, 2, NULL);
	if (graph_finish(h.g, &why))
		fail_msg("seed %llu: %s", (unsigned long long)seed, why.text);
	return h.g;
}

/* ---- a small residual network on images, with running statistics in both of its shards */

enum { HELP_GRAPH_CLASSES = 5 };

static inline uint32_t help_graph_norm(struct help_graph *h, uint32_t x, uint32_t channels)
{
	struct shape vector = shape_make(1, channels, 1, 1, 1);
	const struct node attrs = {.eps = 1e-5f, .momentum = 0.1f};
	char mean[GRAPH_NAME], var[GRAPH_NAME];
	snprintf(mean, sizeof mean, "mean.%u", h->g->n_tensors);
	snprintf(var, sizeof var, "var.%u", h->g->n_tensors);
	const uint32_t in[] = {x, help_graph_param(h, vector, INIT_one),
		help_graph_param(h, vector, INIT_normal),
		graph_buffer(h->g, h->shard, mean, &vector, INIT_zero),
		graph_buffer(h->g, h->shard, var, &vector, INIT_one)};
	return graph_node(h->g, h->shard, OP_batchnorm, in, 5, &attrs);
}

static inline uint32_t help_graph_conv(
	struct help_graph *h, uint32_t x, uint32_t channels, uint32_t stride)
{
	uint32_t from = h->g->tensors[x].shape.dim[1];
	const struct node attrs = {.stride = stride, .pad = 1};
	const uint32_t in[] = {
		x, help_graph_param(h, shape_make(4, channels, from, 3, 3), INIT_normal)};
	uint32_t y = graph_node(h->g, h->shard, OP_conv2d, in, 2, &attrs);
	y = help_graph_norm(h, y, channels);
	return graph_node(h->g, h->shard, OP_relu, &y, 1, NULL);
}

static inline struct graph *help_graph_images(uint32_t batch)
{
	struct help_graph h = {.g = graph_new(batch, 1)};
	struct why why = {0};
	struct shape images = shape_make(4, batch, 2, 6, 5),
		     targets = shape_make(1, batch, 1, 1, 1);
	h.g->images_in = graph_input(h.g, "images", &images, DTYPE_real);
	h.g->targets_in = graph_input(h.g, "targets", &targets, DTYPE_token);
	uint32_t x = help_graph_conv(&h, h.g->images_in, 4, 1);
	h.shard = 1;
	graph_block(h.g);
	uint32_t y = help_graph_conv(&h, x, 4, 1);
	y = graph_node(h.g, 1, OP_add, (const uint32_t[]){x, y}, 2, NULL);
	graph_block(h.g);
	y = help_graph_conv(&h, y, 3, 2);
	graph_block(h.g);
	y = graph_node(h.g, 1, OP_global_average, &y, 1, NULL);
	uint32_t head =
		help_graph_param(&h, shape_make(2, HELP_GRAPH_CLASSES, 3, 1, 1), INIT_normal);
	h.g->logits = graph_node(h.g, 1, OP_linear, (const uint32_t[]){y, head}, 2, NULL);
	h.g->loss = graph_node(h.g, 1, OP_cross_entropy,
		(const uint32_t[]){h.g->logits, h.g->targets_in}, 2, NULL);
	if (graph_finish(h.g, &why))
		fail_msg("%s", why.text);
	return h.g;
}

#endif
