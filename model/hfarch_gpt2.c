#include <string.h>
#include "model/builder.h"
#include "model/hfarch.h"

static void read(struct json_in *in, struct model_config *m)
{
	/* One function under two names. */
	static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
	m->layers = hfarch_number(in, "n_layer", BUILDER_LAYERS_MAX, 0);
	m->width = hfarch_number(in, "n_embd", BUILDER_WIDTH_MAX, 0);
	m->heads = hfarch_number(in, "n_head", BUILDER_HEADS_MAX, 0);
	m->context = hfarch_number(in, "n_positions", BUILDER_TOKENS_MAX, 0);
	m->vocab = hfarch_number(in, "vocab_size", BUILDER_TOKENS_MAX, 0);
	m->tied = hfarch_flag(in, "tie_word_embeddings", true);
	m->norm_eps = hfarch_real(in, "layer_norm_epsilon", BUILDER_NORM_EPS);
	hfarch_must_be(in, "activation_function", gelu);
	uint32_t inner = hfarch_number(in, "n_inner", UINT32_MAX, 4 * m->width);
	if (inner != 4 * m->width)
		json_mistake(in, "n_inner", "must be null or four times n_embd (%u), is %u",
			4 * m->width, inner);
	if (!hfarch_flag(in, "scale_attn_weights", true))
		json_mistake(in, "scale_attn_weights", "must be true: scores are always scaled");
	hfarch_refuse(in, "scale_attn_by_inverse_layer_idx",
		"must be false: no layer scales its scores by its number");
	hfarch_refuse(in, "add_cross_attention", "must be false: there is no encoder");
}

static json_t *write(const struct model_config *m)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:n, s:n, s:f, s:f, s:f}",
		"activation_function", "gelu_new", "vocab_size", (json_int_t)m->vocab,
		"n_positions", (json_int_t)m->context, "n_embd", (json_int_t)m->width, "n_layer",
		(json_int_t)m->layers, "n_head", (json_int_t)m->heads, "layer_norm_epsilon",
		builder_norm_eps(m), "tie_word_embeddings", m->tied, "bos_token_id", "eos_token_id",
		"attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop", 0.0);
}

static bool is_in_block(const char *bare)
{
	return !strncmp(bare, "h.", 2);
}

/* transformers' Conv1D: every matrix inside a block. */
static bool is_turned(const char *bare)
{
	return is_in_block(bare);
}

/* The causal mask, and its fill value. */
static bool is_surplus(const char *bare)
{
	const char *dot = is_in_block(bare) ? strchr(bare + 2, '.') : NULL;
	return dot && (!strcmp(dot, ".attn.bias") || !strcmp(dot, ".attn.masked_bias"));
}

const struct hfarch hfarch_gpt2 = {.model_type = "gpt2",
	.class_name = "GPT2LMHeadModel",
	.builder = "gpt",
	.prefix = "transformer.",
	.read = read,
	.write = write,
	.is_turned = is_turned,
	.is_surplus = is_surplus};
