#include "model/builder.h"
#include <math.h>
#include <stdio.h>

/* ---- defaults */

double builder_norm_eps(const struct model_config *m)
{
	return m->norm_eps > 0 ? m->norm_eps : BUILDER_NORM_EPS;
}

double builder_rope_theta(const struct model_config *m)
{
	return m->rope_theta > 0 ? m->rope_theta : BUILDER_ROPE_THETA;
}

uint32_t builder_kv_heads(const struct model_config *m)
{
	return m->kv_heads ? m->kv_heads : m->heads;
}

/* ---- shapes */

struct shape builder_vector(uint32_t n)
{
	return shape_make(1, n, 1, 1, 1);
}

struct shape builder_matrix(uint32_t rows, uint32_t columns)
{
	return shape_make(2, rows, columns, 1, 1);
}

/* ---- checks */

enum err builder_check_shards(const struct model_config *m, struct why *why)
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

enum err builder_check_language(
	const struct model_config *m, uint32_t batch, uint32_t seq, struct why *why)
{
	if (m->layers < 1 || m->layers > BUILDER_LAYERS_MAX)
		return err_why(why, ERR_range, "model.layers: %u, must be from 1 to %u", m->layers,
			BUILDER_LAYERS_MAX);
	if (m->width < 1 || m->width > BUILDER_WIDTH_MAX)
		return err_why(why, ERR_range, "model.width: %u, must be from 1 to %u", m->width,
			BUILDER_WIDTH_MAX);
	if (m->heads < 1 || m->heads > BUILDER_HEADS_MAX || m->width % m->heads)
		return err_why(why, ERR_range,
			"model.heads: %u does not divide the width of %u, or is above %u", m->heads,
			m->width, BUILDER_HEADS_MAX);
	if (m->vocab < 1 || m->vocab > BUILDER_TOKENS_MAX || m->context < 1 ||
		m->context > BUILDER_TOKENS_MAX)
		return err_why(why, ERR_range,
			"model.vocab is %u and model.context %u, both must be from 1 to %u",
			m->vocab, m->context, BUILDER_TOKENS_MAX);
	if (batch < 1 || seq < 1 || seq > m->context)
		return err_why(why, ERR_range,
			"a batch of %u sequences of %u tokens: must be at least 1, and no sequence "
			"longer "
			"than model.context (%u)",
			batch, seq, m->context);
	return builder_check_shards(m, why);
}

/* ---- building */

enum err builder_open(struct builder *b, const struct model_config *m, uint32_t batch, uint32_t seq,
	struct why *why)
{
	*b = (struct builder){.g = graph_new(batch, seq), .m = m};
	return b->g ? ERR_OK : err_why(why, ERR_nomem, "out of memory for the model's graph");
}

void builder_block(struct builder *b, const char *prefix, uint32_t number)
{
	if (b->shard + 1 < b->m->n_shards && b->layer == b->m->shard_first[b->shard + 1])
		b->shard++;
	b->layer++;
	graph_block(b->g);
	snprintf(b->block, sizeof b->block, "%.30s%u.", prefix, number);
}

void builder_after_blocks(struct builder *b)
{
	graph_block(b->g);
	b->block[0] = 0;
}

uint32_t builder_param(
	struct builder *b, const char *part, struct shape s, enum init_kind init, double std)
{
	char name[GRAPH_NAME];
	snprintf(name, sizeof name, "%.30s%.32s", b->block, part);
	return graph_param(b->g, b->shard, name, &s, init, (float)std);
}

uint32_t builder_add(struct builder *b, uint32_t x, uint32_t y)
{
	return graph_node(b->g, b->shard, OP_add, (const uint32_t[]){x, y}, 2, NULL);
}

double builder_residual_std(const struct model_config *m)
{
	return BUILDER_INIT_STD / sqrt(2.0 * m->layers);
}

uint32_t builder_embed(struct builder *b, const char *name, uint32_t *table)
{
	struct graph *g = b->g;
	struct shape tokens = builder_matrix(g->batch, g->seq);
	struct shape rows = builder_matrix(b->m->vocab, b->m->width);
	g->tokens_in = graph_input(g, "tokens", &tokens, DTYPE_token);
	*table = graph_param(g, 0, name, &rows, INIT_normal, (float)BUILDER_INIT_STD);
	return graph_node(g, 0, OP_token_embed, (const uint32_t[]){g->tokens_in, *table}, 2, NULL);
}

void builder_head(struct builder *b, uint32_t x, uint32_t table)
{
	struct graph *g = b->g;
	struct shape weight = builder_matrix(b->m->vocab, b->m->width);
	struct shape targets = builder_matrix(g->batch, g->seq);
	if (!b->m->tied)
		table = graph_param(g, b->shard, "lm_head.weight", &weight, INIT_normal,
			(float)BUILDER_INIT_STD);
	g->logits = graph_node(g, b->shard, OP_linear, (const uint32_t[]){x, table}, 2, NULL);
	g->targets_in = graph_input(g, "targets", &targets, DTYPE_token);
	g->loss = graph_node(g, b->shard, OP_cross_entropy,
		(const uint32_t[]){g->logits, g->targets_in}, 2, NULL);
}

enum err builder_close(struct builder *b, struct graph **out, struct why *why)
{
	enum err e = graph_finish(b->g, why);
	if (e)
		graph_free(b->g);
	else
		*out = b->g;
	b->g = NULL;
	return e;
}
