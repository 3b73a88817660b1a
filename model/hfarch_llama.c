#include <string.h>
#include "model/builder.h"
#include "model/hfarch.h"

#define CONTEXT 2048u
#define NORM_EPS 1e-6 /* transformers' default; a spec's is BUILDER_NORM_EPS */
#define THETA_MAX 1e12

/* Newer versions keep theta inside "rope_parameters". */
static double read_theta(struct json_in *in)
{
	double theta = hfarch_real(in, "rope_theta", BUILDER_ROPE_THETA);
	hfarch_refuse(in, "rope_scaling", "must be null: positions are not scaled");
	if (!hfarch_given(in, "rope_parameters"))
		return theta;
	const json_t *rope = json_object_get(in->object, "rope_parameters");
	const json_t *type = json_object_get(rope, "rope_type");
	if (!json_is_object(rope) ||
		(type && (!json_is_string(type) || strcmp(json_string_value(type), "default"))))
		json_mistake(in, "rope_parameters",
			"must have the rope_type \"default\": positions are not scaled");
	const json_t *inner = json_object_get(rope, "rope_theta");
	double given = json_is_number(inner) ? json_number_value(inner) : theta;
	if (given >= 1 && given <= THETA_MAX)
		return given;
	json_mistake(in, "rope_parameters", "the rope_theta must be from 1 to %g", THETA_MAX);
	return theta;
}

static void refuse_others(struct json_in *in)
{
	hfarch_refuse(in, "attention_bias", "must be false: its projections have no biases");
	hfarch_refuse(in, "mlp_bias", "must be false: its projections have no biases");
	hfarch_refuse(in, "sliding_window", "must be null: attention sees the whole context");
	if (hfarch_real(in, "partial_rotary_factor", 1) != 1)
		json_mistake(in, "partial_rotary_factor", "must be 1: whole heads are turned");
}

static void read(struct json_in *in, struct model_config *m)
{
	static const char *const silu[] = {"silu", "swish", NULL};
	m->layers = hfarch_number(in, "num_hidden_layers", BUILDER_LAYERS_MAX, 0);
	m->width = hfarch_number(in, "hidden_size", BUILDER_WIDTH_MAX, 0);
	m->heads = hfarch_number(in, "num_attention_heads", BUILDER_HEADS_MAX, 0);
	m->kv_heads = hfarch_number(in, "num_key_value_heads", BUILDER_HEADS_MAX, m->heads);
	m->hidden = hfarch_number(in, "intermediate_size", BUILDER_HIDDEN_MAX, 0);
	m->context = hfarch_number(in, "max_position_embeddings", BUILDER_TOKENS_MAX, CONTEXT);
	m->vocab = hfarch_number(in, "vocab_size", BUILDER_TOKENS_MAX, 0);
	m->tied = hfarch_flag(in, "tie_word_embeddings", false);
	m->norm_eps = hfarch_real(in, "rms_norm_eps", NORM_EPS);
	m->rope_theta = read_theta(in);
	hfarch_must_be(in, "hidden_act", silu);
	uint32_t size = m->width / m->heads;
	uint32_t head_dim = hfarch_number(in, "head_dim", BUILDER_WIDTH_MAX, size ? size : 1);
	if (head_dim != size)
		json_mistake(in, "head_dim",
			"must be hidden_size / num_attention_heads (%u), is %u", size, head_dim);
	refuse_others(in);
}

static json_t *write(const struct model_config *m)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:b, s:b, s:n, "
			 "s:n}",
		"hidden_act", "silu", "vocab_size", (json_int_t)m->vocab, "max_position_embeddings",
		(json_int_t)m->context, "hidden_size", (json_int_t)m->width, "intermediate_size",
		(json_int_t)m->hidden, "num_hidden_layers", (json_int_t)m->layers,
		"num_attention_heads", (json_int_t)m->heads, "num_key_value_heads",
		(json_int_t)builder_kv_heads(m), "rms_norm_eps", builder_norm_eps(m), "rope_theta",
		builder_rope_theta(m), "tie_word_embeddings", m->tied, "attention_bias", 0,
		"mlp_bias", 0, "bos_token_id", "eos_token_id");
}

static bool is_turned(const char *bare)
{
	(void)bare;
	return false; /* torch's Linear is [out, in], as the graph's */
}

static bool is_surplus(const char *bare)
{
	static const char end[] = ".rotary_emb.inv_freq";
	size_t n = strlen(bare);
	return !strncmp(bare, "layers.", 7) && n > strlen(end) &&
	       !strcmp(bare + n - strlen(end), end);
}

const struct hfarch hfarch_llama = {.model_type = "llama",
	.class_name = "LlamaForCausalLM",
	.builder = "llama",
	.prefix = "model.",
	.read = read,
	.write = write,
	.is_turned = is_turned,
	.is_surplus = is_surplus};
