#include "model/llama.h"
#include "model/builder.h"

static uint32_t norm(struct builder *b, const char *part, uint32_t x)
{
	uint32_t gain = builder_param(b, part, builder_vector(b->m->width), INIT_one, 0);
	const struct node attrs = {.eps = (float)builder_norm_eps(b->m)};
	return graph_node(b->g, b->shard, OP_rmsnorm, (const uint32_t[]){x, gain}, 2, &attrs);
}

static uint32_t linear(
	struct builder *b, const char *part, uint32_t x, struct shape weight, double std)
{
	uint32_t w = builder_param(b, part, weight, INIT_normal, std);
	return graph_node(b->g, b->shard, OP_linear, (const uint32_t[]){x, w}, 2, NULL);
}

static uint32_t rope(struct builder *b, uint32_t x, uint32_t heads)
{
	const struct node attrs = {.heads = heads, .theta = (float)builder_rope_theta(b->m)};
	return graph_node(b->g, b->shard, OP_rope, &x, 1, &attrs);
}

static uint32_t attention(struct builder *b, uint32_t x)
{
	const struct model_config *m = b->m;
	struct shape q_weight = builder_matrix(m->width, m->width);
	struct shape kv_weight =
		builder_matrix(m->width / m->heads * builder_kv_heads(m), m->width);
	uint32_t q = linear(b, "self_attn.q_proj.weight", x, q_weight, BUILDER_INIT_STD);
	uint32_t k = linear(b, "self_attn.k_proj.weight", x, kv_weight, BUILDER_INIT_STD);
	uint32_t v = linear(b, "self_attn.v_proj.weight", x, kv_weight, BUILDER_INIT_STD);
	q = rope(b, q, m->heads);
	k = rope(b, k, builder_kv_heads(m));
	const struct node attrs = {.heads = m->heads, .kv_heads = builder_kv_heads(m)};
	uint32_t y =
		graph_node(b->g, b->shard, OP_attention, (const uint32_t[]){q, k, v}, 3, &attrs);
	return linear(b, "self_attn.o_proj.weight", y, q_weight, builder_residual_std(m));
}

static uint32_t feed_forward(struct builder *b, uint32_t x)
{
	const struct model_config *m = b->m;
	struct shape up_weight = builder_matrix(m->hidden, m->width);
	struct shape down_weight = builder_matrix(m->width, m->hidden);
	uint32_t gate = linear(b, "mlp.gate_proj.weight", x, up_weight, BUILDER_INIT_STD);
	uint32_t up = linear(b, "mlp.up_proj.weight", x, up_weight, BUILDER_INIT_STD);
	uint32_t y = graph_node(b->g, b->shard, OP_swiglu, (const uint32_t[]){gate, up}, 2, NULL);
	return linear(b, "mlp.down_proj.weight", y, down_weight, builder_residual_std(m));
}

static uint32_t block(struct builder *b, uint32_t x)
{
	x = builder_add(b, x, attention(b, norm(b, "input_layernorm.weight", x)));
	return builder_add(b, x, feed_forward(b, norm(b, "post_attention_layernorm.weight", x)));
}

static enum err check(const struct model_config *m, uint32_t batch, uint32_t seq, struct why *why)
{
	enum err e = builder_check_language(m, batch, seq, why);
	if (e)
		return e;
	if (m->heads % builder_kv_heads(m))
		return err_why(why, ERR_range, "model.kv_heads: %u does not divide the %u heads",
			builder_kv_heads(m), m->heads);
	if (m->width / m->heads % 2)
		return err_why(why, ERR_range,
			"model.heads: a head has %u numbers, must be even: positions turn pairs",
			m->width / m->heads);
	if (m->hidden < 1 || m->hidden > BUILDER_HIDDEN_MAX)
		return err_why(why, ERR_range, "model.hidden: %u, must be from 1 to %u", m->hidden,
			BUILDER_HIDDEN_MAX);
	return ERR_OK;
}

enum err llama_build(const struct model_config *m, uint32_t batch, uint32_t seq, struct graph **out,
	struct why *why)
{
	struct builder b;
	enum err e = check(m, batch, seq, why);
	if (!e)
		e = builder_open(&b, m, batch, seq, why);
	if (e)
		return e;
	uint32_t table, x = builder_embed(&b, "model.embed_tokens.weight", &table);
	for (uint32_t i = 0; i < m->layers; i++) {
		builder_block(&b, "model.layers.", i);
		x = block(&b, x);
	}
	builder_after_blocks(&b);
	builder_head(&b, norm(&b, "model.norm.weight", x), table);
	return builder_close(&b, out, why);
}
