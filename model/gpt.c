#include "model/gpt.h"
#include <math.h>
#include <stdio.h>

#define LAYERS_MAX (GRAPH_NODES_MAX / 16)
#define WIDTH_MAX (1u << 20)
#define NORM_EPS 1e-5f
#define INIT_STD 0.02

struct build {
	struct graph *g;
	const struct model_config *m;
	uint32_t layer, shard; /* where building stands */
};

static struct shape vector(uint32_t n)
{
	return shape_make(1, n, 1, 1, 1);
}

static struct shape matrix(uint32_t rows, uint32_t columns)
{
	return shape_make(2, rows, columns, 1, 1);
}

/* Parameters of a block are called as in Hugging Face's checkpoints: h.3.mlp.c_fc.weight. */
static uint32_t block_weight(
	struct build *b, const char *part, struct shape s, enum init_kind init, double std)
{
	char name[GRAPH_NAME];
	snprintf(name, sizeof name, "h.%u.%.24s.weight", b->layer, part);
	return graph_param(b->g, b->shard, name, &s, init, (float)std);
}

static uint32_t block_bias(struct build *b, const char *part, uint32_t n)
{
	char name[GRAPH_NAME];
	struct shape s = vector(n);
	snprintf(name, sizeof name, "h.%u.%.24s.bias", b->layer, part);
	return graph_param(b->g, b->shard, name, &s, INIT_zero, 0);
}

static uint32_t block_norm(struct build *b, const char *part, uint32_t x)
{
	uint32_t gain = block_weight(b, part, vector(b->m->width), INIT_one, 0);
	uint32_t bias = block_bias(b, part, b->m->width);
	const struct node attrs = {.eps = NORM_EPS};
	return graph_node(
		b->g, b->shard, OP_layernorm, (const uint32_t[]){x, gain, bias}, 3, &attrs);
}

static uint32_t block_linear(
	struct build *b, const char *part, uint32_t x, struct shape weight, double std)
{
	uint32_t w = block_weight(b, part, weight, INIT_normal, std);
	uint32_t bias = block_bias(b, part, weight.dim[0]);
	return graph_node(b->g, b->shard, OP_linear, (const uint32_t[]){x, w, bias}, 3, NULL);
}

static uint32_t block_add(struct build *b, uint32_t x, uint32_t y)
{
	return graph_node(b->g, b->shard, OP_add, (const uint32_t[]){x, y}, 2, NULL);
}

static uint32_t block(struct build *b, uint32_t x)
{
	uint32_t width = b->m->width;
	/* What is added to the residual stream starts smaller, so that its variance does not grow
	 * with depth (GPT-2). */
	double residual = INIT_STD / sqrt(2.0 * b->m->layers);
	uint32_t y = block_norm(b, "ln_1", x);
	y = block_linear(b, "attn.c_attn", y, matrix(3 * width, width), INIT_STD);
	const struct node attrs = {.heads = b->m->heads};
	y = graph_node(b->g, b->shard, OP_attention, &y, 1, &attrs);
	y = block_linear(b, "attn.c_proj", y, matrix(width, width), residual);
	x = block_add(b, x, y);
	y = block_norm(b, "ln_2", x);
	y = block_linear(b, "mlp.c_fc", y, matrix(4 * width, width), INIT_STD);
	y = graph_node(b->g, b->shard, OP_gelu, &y, 1, NULL);
	y = block_linear(b, "mlp.c_proj", y, matrix(width, 4 * width), residual);
	return block_add(b, x, y);
}

static uint32_t embed(struct build *b, uint32_t *table)
{
	const struct model_config *m = b->m;
	struct graph *g = b->g;
	struct shape tokens = matrix(g->batch, g->seq), wte = matrix(m->vocab, m->width),
		     wpe = matrix(m->context, m->width);
	g->tokens_in = graph_input(g, "tokens", &tokens, DTYPE_token);
	*table = graph_param(g, 0, "wte.weight", &wte, INIT_normal, (float)INIT_STD);
	uint32_t pos = graph_param(g, 0, "wpe.weight", &wpe, INIT_normal, (float)INIT_STD);
	uint32_t x =
		graph_node(g, 0, OP_token_embed, (const uint32_t[]){g->tokens_in, *table}, 2, NULL);
	return graph_node(g, 0, OP_pos_embed, (const uint32_t[]){x, pos}, 2, NULL);
}

static void head(struct build *b, uint32_t x, uint32_t table)
{
	const struct model_config *m = b->m;
	struct graph *g = b->g;
	struct shape norm = vector(m->width), weight = matrix(m->vocab, m->width),
		     targets = matrix(g->batch, g->seq);
	uint32_t gain = graph_param(g, b->shard, "ln_f.weight", &norm, INIT_one, 0);
	uint32_t bias = graph_param(g, b->shard, "ln_f.bias", &norm, INIT_zero, 0);
	const struct node attrs = {.eps = NORM_EPS};
	x = graph_node(g, b->shard, OP_layernorm, (const uint32_t[]){x, gain, bias}, 3, &attrs);
	if (!m->tied)
		table = graph_param(
			g, b->shard, "lm_head.weight", &weight, INIT_normal, (float)INIT_STD);
	g->logits = graph_node(g, b->shard, OP_linear, (const uint32_t[]){x, table}, 2, NULL);
	g->targets_in = graph_input(g, "targets", &targets, DTYPE_token);
	g->loss = graph_node(g, b->shard, OP_cross_entropy,
		(const uint32_t[]){g->logits, g->targets_in}, 2, NULL);
}

static enum err check_shards(const struct model_config *m, struct why *why)
{
	if (m->n_shards < 1 || m->n_shards > GRAPH_SHARDS_MAX || m->n_shards > m->layers)
		return err_why(why, ERR_range,
			"model.shards: %u shards of %u layers, must be from 1 to one per layer (at "
			"most %u)",
			m->n_shards, m->layers, GRAPH_SHARDS_MAX);
	if (m->shard_first[0] != 0)
		return err_why(why, ERR_range,
			"model.shards: the first shard starts at layer %u, must be 0",
			m->shard_first[0]);
	for (uint32_t i = 1; i < m->n_shards; i++)
		if (m->shard_first[i] <= m->shard_first[i - 1] || m->shard_first[i] >= m->layers)
			return err_why(why, ERR_range,
				"model.shards: shard %u starts at layer %u, must be after layer %u "
				"and below %u",
				i, m->shard_first[i], m->shard_first[i - 1], m->layers);
	return ERR_OK;
}

static enum err check(const struct model_config *m, uint32_t batch, uint32_t seq, struct why *why)
{
	if (m->layers < 1 || m->layers > LAYERS_MAX)
		return err_why(why, ERR_range, "model.layers: %u, must be from 1 to %u", m->layers,
			LAYERS_MAX);
	if (m->width < 1 || m->width > WIDTH_MAX)
		return err_why(why, ERR_range, "model.width: %u, must be from 1 to %u", m->width,
			WIDTH_MAX);
	if (m->heads < 1 || m->width % m->heads)
		return err_why(why, ERR_range, "model.heads: %u does not divide the width of %u",
			m->heads, m->width);
	if (m->vocab < 1 || m->vocab > INT32_MAX || m->context < 1)
		return err_why(why, ERR_range,
			"model.vocab is %u and model.context %u, both must be at least 1", m->vocab,
			m->context);
	if (batch < 1 || seq < 1 || seq > m->context)
		return err_why(why, ERR_range,
			"a batch of %u sequences of %u tokens: must be at least 1, and no sequence "
			"longer "
			"than model.context (%u)",
			batch, seq, m->context);
	return check_shards(m, why);
}

enum err gpt_build(const struct model_config *m, uint32_t batch, uint32_t seq, struct graph **out,
	struct why *why)
{
	enum err e = check(m, batch, seq, why);
	if (e)
		return e;
	struct build b = {.g = graph_new(batch, seq), .m = m};
	if (!b.g)
		return err_why(why, ERR_nomem, "out of memory for the model's graph");
	uint32_t table, x = embed(&b, &table);
	for (; b.layer < m->layers; b.layer++) {
		if (b.shard + 1 < m->n_shards && b.layer == m->shard_first[b.shard + 1])
			b.shard++;
		x = block(&b, x);
	}
	head(&b, x, table);
	e = graph_finish(b.g, why);
	if (e) {
		graph_free(b.g);
		return e;
	}
	*out = b.g;
	return ERR_OK;
}
