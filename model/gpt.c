#include "model/gpt.h"
#include <stdio.h>
#include "model/builder.h"

/* Parameters of a block are called as in Hugging Face's checkpoints: h.3.mlp.c_fc.weight. */
static uint32_t part_param(struct builder *b, const char *part, const char *kind, struct shape s,
	enum init_kind init, double std)
{
	char name[32];
	snprintf(name, sizeof name, "%.20s.%.10s", part, kind);
	return builder_param(b, name, s, init, std);
}

static uint32_t norm(struct builder *b, const char *part, uint32_t x)
{
	struct shape s = builder_vector(b->m->width);
	uint32_t gain = part_param(b, part, "weight", s, INIT_one, 0);
	uint32_t bias = part_param(b, part, "bias", s, INIT_zero, 0);
	const struct node attrs = {.eps = (float)builder_norm_eps(b->m)};
	return graph_node(
		b->g, b->shard, OP_layernorm, (const uint32_t[]){x, gain, bias}, 3, &attrs);
}

static uint32_t linear(
	struct builder *b, const char *part, uint32_t x, struct shape weight, double std)
{
	uint32_t w = part_param(b, part, "weight", weight, INIT_normal, std);
	uint32_t bias = part_param(b, part, "bias", builder_vector(weight.dim[0]), INIT_zero, 0);
	return graph_node(b->g, b->shard, OP_linear, (const uint32_t[]){x, w, bias}, 3, NULL);
}

static uint32_t block(struct builder *b, uint32_t x)
{
	uint32_t width = b->m->width;
	double residual = builder_residual_std(b->m);
	uint32_t y = norm(b, "ln_1", x);
	y = linear(b, "attn.c_attn", y, builder_matrix(3 * width, width), BUILDER_INIT_STD);
	const struct node attrs = {.heads = b->m->heads};
	y = graph_node(b->g, b->shard, OP_attention, &y, 1, &attrs);
	y = linear(b, "attn.c_proj", y, builder_matrix(width, width), residual);
	x = builder_add(b, x, y);
	y = norm(b, "ln_2", x);
	y = linear(b, "mlp.c_fc", y, builder_matrix(4 * width, width), BUILDER_INIT_STD);
	y = graph_node(b->g, b->shard, OP_gelu, &y, 1, NULL);
	y = linear(b, "mlp.c_proj", y, builder_matrix(width, 4 * width), residual);
	return builder_add(b, x, y);
}

static uint32_t embed(struct builder *b, uint32_t *table)
{
	struct shape wpe = builder_matrix(b->m->context, b->m->width);
	uint32_t x = builder_embed(b, "wte.weight", table);
	uint32_t pos = builder_param(b, "wpe.weight", wpe, INIT_normal, BUILDER_INIT_STD);
	return graph_node(b->g, 0, OP_pos_embed, (const uint32_t[]){x, pos}, 2, NULL);
}

enum err gpt_build(const struct model_config *m, uint32_t batch, uint32_t seq, struct graph **out,
	struct why *why)
{
	struct builder b;
	enum err e = builder_check_language(m, batch, seq, why);
	if (!e)
		e = builder_open(&b, m, batch, seq, why);
	if (e)
		return e;
	uint32_t table, x = embed(&b, &table);
	for (uint32_t i = 0; i < m->layers; i++) {
		builder_block(&b, "h.", i);
		x = block(&b, x);
	}
	builder_after_blocks(&b);
	builder_head(&b, norm(&b, "ln_f", x), table);
	return builder_close(&b, out, why);
}
