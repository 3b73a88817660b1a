/* config.json: what changes the computation is honoured or refused by name, the rest is passed
 * over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "model/hfconfig.h"
#include "tests/help_model.h"

#define GPT2 \
	"\"model_type\":\"gpt2\",\"n_layer\":3,\"n_embd\":20,\"n_head\":4,\"n_positions\":8," \
	"\"vocab_size\":37"
#define LLAMA \
	"\"model_type\":\"llama\",\"num_hidden_layers\":3,\"hidden_size\":24," \
	"\"num_attention_heads\":6,\"intermediate_size\":40,\"vocab_size\":37"

static struct model_config read(const char *members, const char *more)
{
	char text[1000];
	struct model_config m;
	struct why why = {0};
	snprintf(text, sizeof text, "{%s%s}", members, more);
	if (hfconfig_parse("c", text, strlen(text), &m, &why))
		fail_msg("%s: %s", text, why.text);
	return m;
}

static void assert_real(double is, double must)
{
	assert_true(is >= must && is <= must);
}

static void usual_values_are_transformers_own(void **state)
{
	(void)state;
	struct model_config m = read(GPT2, "");
	assert_string_equal(m.builder, "gpt");
	assert_int_equal(m.layers, 3);
	assert_int_equal(m.width, 20);
	assert_int_equal(m.heads, 4);
	assert_int_equal(m.context, 8);
	assert_int_equal(m.vocab, 37);
	assert_int_equal(m.n_shards, 1);
	assert_true(m.tied);
	assert_real(m.norm_eps, 1e-5);
	m = read(LLAMA, "");
	assert_string_equal(m.builder, "llama");
	assert_int_equal(m.kv_heads, 6);
	assert_int_equal(m.hidden, 40);
	assert_int_equal(m.context, 2048);
	assert_false(m.tied);
	assert_real(m.norm_eps, 1e-6);
	assert_real(m.rope_theta, 10000);
}

static void what_is_said_is_honoured(void **state)
{
	(void)state;
	struct model_config m = read(GPT2,
		",\"layer_norm_epsilon\":1e-6,\"tie_word_embeddings\":false,\"n_inner\":80,"
		"\"activation_function\":\"gelu_pytorch_tanh\",\"resid_pdrop\":0.3,\"odd\":[{}]");
	assert_real(m.norm_eps, 1e-6);
	assert_false(m.tied);
	m = read(LLAMA, ",\"num_key_value_heads\":2,\"rope_theta\":500000,\"head_dim\":4,"
			"\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true,\"rope_scaling\":null,"
			"\"attention_bias\":false,\"sliding_window\":null,"
			"\"max_position_embeddings\":131072,\"hidden_act\":\"silu\"");
	assert_int_equal(m.kv_heads, 2);
	assert_int_equal(m.context, 131072);
	assert_true(m.tied);
	assert_real(m.rope_theta, 500000);
	assert_real(m.norm_eps, 1e-5);
	m = read(LLAMA, ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7e4}");
	assert_real(m.rope_theta, 7e4);
}

static void what_cannot_be_done_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum err code;
		const char *part;
	} rows[] = {
		{"", ERR_truncated, "c: "},
		{"[]", ERR_syntax, "no \"model_type\""},
		{"{}", ERR_syntax, "no \"model_type\""},
		{"{\"model_type\":3}", ERR_syntax, "no \"model_type\""},
		{"{\"model_type\":\"mistral\"}", ERR_unsupported, "only gpt2, llama"},
		{"{\"model_type\":\"gpt2\"}", ERR_syntax, "n_layer"},
#define ROW(members, more, part) {"{" members "," more "}", ERR_syntax, part}
		ROW(GPT2, "\"n_ayer\":1,\"n_inner\":90", "n_inner: must be null or four times"),
		ROW(GPT2, "\"n_inner\":\"x\"", "n_inner"),
		ROW(GPT2, "\"activation_function\":\"relu\"", "activation_function: must be"),
		ROW(GPT2, "\"activation_function\":\"gelu\"", "is \"gelu\""),
		ROW(GPT2, "\"activation_function\":1", "activation_function"),
		ROW(GPT2, "\"scale_attn_weights\":false", "scale_attn_weights"),
		ROW(GPT2, "\"scale_attn_by_inverse_layer_idx\":true", "inverse_layer_idx"),
		ROW(GPT2, "\"add_cross_attention\":true", "add_cross_attention"),
		ROW(GPT2, "\"layer_norm_epsilon\":0", "layer_norm_epsilon"),
		ROW(GPT2, "\"layer_norm_epsilon\":\"a\"", "layer_norm_epsilon"),
		ROW(GPT2, "\"tie_word_embeddings\":1", "tie_word_embeddings"),
		ROW(GPT2, "\"quantization_config\":{\"bits\":4}", "quantization_config"),
		ROW(LLAMA, "\"quantization_config\":{}", "quantization_config"),
		ROW(LLAMA, "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", "rope_scaling"),
		ROW(LLAMA, "\"rope_parameters\":{\"rope_type\":\"yarn\"}", "rope_parameters"),
		ROW(LLAMA, "\"rope_parameters\":{\"rope_theta\":-1}", "rope_parameters"),
		ROW(LLAMA, "\"rope_parameters\":7", "rope_parameters"),
		ROW(LLAMA, "\"attention_bias\":true", "attention_bias"),
		ROW(LLAMA, "\"mlp_bias\":true", "mlp_bias"),
		ROW(LLAMA, "\"sliding_window\":4096", "sliding_window"),
		ROW(LLAMA, "\"partial_rotary_factor\":0.5", "partial_rotary_factor"),
		ROW(LLAMA, "\"hidden_act\":\"gelu\"", "hidden_act"),
		ROW(LLAMA, "\"head_dim\":8", "head_dim: must be hidden_size"),
		ROW(LLAMA, "\"num_key_value_heads\":0", "num_key_value_heads"),
		ROW(LLAMA, "\"rope_theta\":1e99", "rope_theta"),
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct model_config m;
		struct why why = {0};
		const char *text = rows[i].text;
		assert_int_equal(hfconfig_parse("c", text, strlen(text), &m, &why), rows[i].code);
		help_model_told(&why, rows[i].code, rows[i].part);
	}
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	static const char *const members[] = {GPT2, LLAMA};
	for (size_t i = 0; i < 2; i++) {
		struct model_config m = read(members[i], ""), again;
		char *text = hfconfig_print(&m, SAFETENSORS_BF16);
		assert_int_equal(hfconfig_parse("c", text, strlen(text), &again, NULL), ERR_OK);
		assert_memory_equal(&m, &again, sizeof m);
		assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
		assert_non_null(strstr(text, i ? "LlamaForCausalLM" : "GPT2LMHeadModel"));
		assert_non_null(strstr(
			text, i ? "\"rms_norm_eps\": 1e-6" : "\"layer_norm_epsilon\": 1e-5"));
		free(text);
	}
}

/* Another type changes one member; the same type not a byte. */
static void other_members_stay(void **state)
{
	(void)state;
	static const char text[] = "{\"model_type\":\"gpt2\",\"torch_dtype\":\"float32\","
				   "\"bos_token_id\":50256,\"eps\":1e-05}",
			  new[] = "{\"dtype\":\"float32\"}";
	char *same = hfconfig_retype(text, strlen(text), SAFETENSORS_F32),
	     *other = hfconfig_retype(text, strlen(text), SAFETENSORS_F16),
	     *newer = hfconfig_retype(new, strlen(new), SAFETENSORS_F16);
	assert_string_equal(same, text);
	assert_string_equal(other, "{\n  \"bos_token_id\": 50256,\n  \"eps\": 1e-5,\n"
				   "  \"model_type\": \"gpt2\",\n"
				   "  \"torch_dtype\": \"float16\"\n}\n");
	assert_string_equal(newer, "{\n  \"dtype\": \"float16\"\n}\n");
	assert_null(hfconfig_retype("{", 1, SAFETENSORS_F16));
	free(same);
	free(other);
	free(newer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_values_are_transformers_own),
		cmocka_unit_test(what_is_said_is_honoured),
		cmocka_unit_test(what_cannot_be_done_is_refused),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(other_members_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
