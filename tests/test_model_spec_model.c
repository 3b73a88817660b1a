/* The members of each builder in a run spec: defaults, and what belongs to another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/spec.h"

#define REST \
	"\"train\":{\"batch\":6,\"lr\":1,\"total_tokens\":100},\"round\":{\"mode\":\"timed\"," \
	"\"seconds\":60},\"outer\":{\"rule\":\"diloco\"},\"codec\":{\"select\":\"all\"," \
	"\"values\":\"int8\"}}"

/* A spec with this model; mistakes (may be NULL) get the line of each. */
static struct spec *with_model(const char *model, struct buf *mistakes)
{
	char *text = alloc_must_printf(
		"{\"shoal\":1,\"name\":\"x\",\"seed\":7,\"model\":{%s}," REST, model);
	struct spec *s = NULL;
	struct why why = {0};
	enum err err = spec_parse(text, strlen(text), &s, mistakes, &why);
	if (err && !mistakes)
		fail_msg("%s", why.text);
	free(text);
	return s;
}

#define LLAMA \
	"\"builder\":\"llama\",\"layers\":4,\"width\":32,\"hidden\":40,\"context\":16,\"vocab\":9"
#define RESNET "\"builder\":\"resnet\",\"image\":[3,32,24],\"classes\":10"

static void read_other_builders(void **state)
{
	(void)state;
	struct spec *s = with_model(LLAMA ",\"heads\":4", NULL);
	assert_int_equal(s->model.kv_heads, 4);
	assert_false(s->model.tied);
	assert_true(s->model.rope_theta == 10000 && s->model.norm_eps == 1e-5);
	assert_int_equal(s->train.seq, 16);
	spec_free(s);
	s = with_model(LLAMA ",\"heads\":4,\"kv_heads\":2,\"rope_theta\":500000,\"norm_eps\":1e-6,"
			     "\"tied\":true,\"shards\":[0,3]",
		NULL);
	assert_int_equal(s->model.kv_heads, 2);
	assert_int_equal(s->model.hidden, 40);
	assert_int_equal(s->model.shard_first[1], 3);
	assert_true(s->model.tied && s->model.rope_theta == 500000 && s->model.norm_eps == 1e-6);
	spec_free(s);
	s = with_model(RESNET, NULL);
	assert_int_equal(s->model.layers, 8);
	assert_int_equal(s->model.width, 64);
	assert_int_equal(s->model.blocks[3], 2);
	assert_int_equal(s->model.vocab, 10);
	assert_int_equal(s->model.image[2], 24);
	assert_int_equal(s->train.seq, 1);
	assert_false(s->model.bottleneck || s->model.small_stem);
	spec_free(s);
	s = with_model(RESNET
		",\"blocks\":[1,3],\"bottleneck\":true,\"stem\":\"small\",\"shards\":2",
		NULL);
	assert_int_equal(s->model.layers, 4);
	assert_int_equal(s->model.blocks[2], 0);
	assert_int_equal(s->model.shard_first[1], 2);
	assert_true(s->model.bottleneck && s->model.small_stem);
	spec_free(s);
}

static void refuse_what_is_anothers(void **state)
{
	(void)state;
	static const struct {
		const char *model, *says;
	} rows[] = {
		{LLAMA ",\"heads\":4,\"kv_heads\":3", "kv_heads: must divide heads (4), is 3"},
		{LLAMA ",\"heads\":32", "multiple of twice the heads: 32 is not one of 64"},
		{LLAMA ",\"heads\":4,\"blocks\":[1]", "model.blocks: is not known here"},
		{LLAMA ",\"heads\":4,\"rope_theta\":1", "model.rope_theta: "},
		{RESNET ",\"layers\":8", "model.layers: is not known here"},
		{RESNET ",\"context\":8", "model.context: is not known here"},
		{RESNET ",\"blocks\":[]", "from 1 to 4 stages"},
		{RESNET ",\"blocks\":[1,0]", "model.blocks: must be the number of blocks"},
		{RESNET ",\"blocks\":[1,1,1,1,1]", "model.blocks: must have at most 4"},
		{RESNET ",\"blocks\":7", "model.blocks: must be an array"},
		{RESNET ",\"shards\":9", "model.shards: "},
		{RESNET ",\"stem\":\"wide\"", "model.stem: must be one of large, small"},
		{"\"builder\":\"resnet\",\"classes\":10,\"image\":[1,2]", "model.image: must be"},
		{"\"builder\":\"resnet\",\"classes\":10", "model.image: is missing"},
		{"\"builder\":\"graph\",\"context\":4,\"vocab\":9", "model.graph: is missing"},
		{"\"builder\":\"graph\",\"context\":4,\"vocab\":9,\"width\":4,\"graph\":{}",
			"model.width: is not known here"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buf mistakes;
		buf_init(&mistakes, SPEC_MISTAKES_MAX);
		assert_null(with_model(rows[i].model, &mistakes));
		buf_put_u8(&mistakes, 0);
		if (!strstr((const char *)mistakes.data, rows[i].says))
			fail_msg("\"%s\" is not said, but: %s", rows[i].says,
				(const char *)mistakes.data);
		buf_release(&mistakes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_other_builders),
		cmocka_unit_test(refuse_what_is_anothers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
