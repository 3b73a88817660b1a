/* The builder of residual networks: published sizes, torchvision's names and strides, running
 * statistics behind what is trained, and what is refused. */
#include <math.h>
#include <string.h>
#include "model/segment.h"
#include "tests/help_graph.h"

static struct model_config resnet(uint32_t a, uint32_t b, uint32_t c, uint32_t d, bool bottleneck)
{
	struct model_config m = {.builder = "resnet",
		.layers = a + b + c + d,
		.width = 64,
		.vocab = 1000,
		.blocks = {a, b, c, d},
		.bottleneck = bottleneck,
		.image = {3, 224, 224},
		.n_shards = 1};
	return m;
}

static uint64_t trained(const struct graph *g)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < g->n_shards; i++)
		n += g->shard_trained[i];
	return n;
}

/* torchvision's counts of resnet18, 34, 50 and 101. */
static void published_sizes_come_out(void **state)
{
	(void)state;
	const struct {
		struct model_config m;
		uint64_t trained, buffers;
	} rows[] = {
		{resnet(2, 2, 2, 2, false), 11689512, 9600},
		{resnet(3, 4, 6, 3, false), 21797672, 17024},
		{resnet(3, 4, 6, 3, true), 25557032, 53120},
		{resnet(3, 4, 23, 3, true), 44549160, 105344},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct graph *g = help_graph_build(&rows[i].m, 2, 1);
		assert_int_equal(trained(g), rows[i].trained);
		assert_int_equal(graph_params(g) - trained(g), rows[i].buffers);
		struct shape logits = shape_make(2, 2, 1000, 1, 1);
		assert_true(shape_equal(&g->tensors[g->logits].shape, &logits));
		assert_int_equal(g->tokens_in, GRAPH_NONE);
		struct shape images = shape_make(4, 2, 3, 224, 224);
		assert_true(shape_equal(&g->tensors[g->images_in].shape, &images));
		graph_free(g);
	}
}

static const struct tensor *named(const struct graph *g, const char *name)
{
	uint32_t at = graph_find(g, name);
	if (at == GRAPH_NONE)
		fail_msg("no %s", name);
	return &g->tensors[at];
}

static void parameters_have_their_names(void **state)
{
	(void)state;
	struct model_config m = resnet(1, 2, 0, 0, true);
	m.n_shards = 2;
	m.shard_first[1] = 1;
	struct graph *g = help_graph_build(&m, 2, 1);
	static const struct {
		const char *name;
		uint32_t shard, d[4];
	} kernels[] = {
		{"conv1.weight", 0, {64, 3, 7, 7}},
		{"layer1.0.conv1.weight", 0, {64, 64, 1, 1}},
		{"layer1.0.conv2.weight", 0, {64, 64, 3, 3}},
		{"layer1.0.conv3.weight", 0, {256, 64, 1, 1}},
		{"layer1.0.downsample.0.weight", 0, {256, 64, 1, 1}},
		{"layer2.0.conv2.weight", 1, {128, 128, 3, 3}},
		{"layer2.0.downsample.0.weight", 1, {512, 256, 1, 1}},
		{"layer2.1.conv1.weight", 1, {128, 512, 1, 1}},
	};
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
		const struct tensor *t = named(g, kernels[i].name);
		const uint32_t *d = kernels[i].d;
		struct shape s = shape_make(4, d[0], d[1], d[2], d[3]);
		assert_true(shape_equal(&t->shape, &s));
		assert_int_equal(t->shard, kernels[i].shard);
		assert_true(t->decay && !t->buffer);
		double he = sqrt(2.0 / (d[0] * d[2] * d[3]));
		assert_true(fabs((double)t->init_std / he - 1) < 1e-6);
	}
	assert_int_equal(graph_find(g, "layer2.1.downsample.0.weight"), GRAPH_NONE);
	assert_int_equal(named(g, "layer2.0.downsample.1.running_var")->init, INIT_one);
	assert_int_equal(named(g, "bn1.running_mean")->init, INIT_zero);
	assert_int_equal(named(g, "fc.weight")->shard, 1);
	assert_false(named(g, "fc.bias")->decay);
	/* Kernels and matrices, then vectors, then running statistics. */
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		assert_int_equal(t->offset<g->shard_decay[t->shard], t->shape.rank> 1);
		assert_int_equal(t->offset >= g->shard_trained[t->shard],
			strstr(t->name, "running_") != NULL);
	}
	graph_free(g);
}

/* Where the size halves: stem, pool, and the first 3x3 of each later stage. */
static void sizes_halve_where_they_should(void **state)
{
	(void)state;
	struct model_config m = resnet(2, 2, 2, 2, true);
	struct graph *g = help_graph_build(&m, 1, 1);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		if (n->op != OP_conv2d && n->op != OP_maxpool)
			continue;
		const char *name = g->tensors[n->in[n->n_in - 1]].name;
		bool halves = n->op == OP_maxpool || !strcmp(name, "conv1.weight") ||
			      (name[5] > '1' && name[7] == '0' &&
				      (strstr(name, "conv2") || strstr(name, "downsample")));
		assert_int_equal(n->stride, halves ? 2 : 1);
		const struct shape *kernel = &g->tensors[n->in[n->n_in - 1]].shape;
		assert_int_equal(n->pad, n->op == OP_maxpool ? 1 : kernel->dim[3] / 2);
	}
	const struct tensor *x = &g->tensors[g->nodes[g->n_nodes - 4].out];
	struct shape last = shape_make(4, 1, 2048, 7, 7);
	assert_true(shape_equal(&x->shape, &last));
	graph_free(g);
	m.small_stem = true;
	m.image[0] = 1;
	m.image[1] = m.image[2] = 28;
	g = help_graph_build(&m, 1, 1);
	x = &g->tensors[g->nodes[0].out];
	struct shape first = shape_make(4, 1, 64, 28, 28);
	assert_true(shape_equal(&x->shape, &first));
	graph_free(g);
}

static void blocks_can_be_cut_apart(void **state)
{
	(void)state;
	struct model_config m = resnet(1, 1, 1, 1, false);
	m.n_shards = 4;
	for (uint32_t i = 0; i < 4; i++)
		m.shard_first[i] = i;
	struct graph *g = help_graph_build(&m, 2, 1);
	struct segments s;
	struct why why = {0};
	assert_int_equal(segment_cut(g, (const uint32_t[]){1, 2}, 2, &s, &why), ERR_OK);
	assert_int_equal(s.at[0].n_in, 1);
	assert_int_equal(s.at[0].n_out, 1);
	segment_release(&s);
	graph_free(g);
}

static void wrong_models_are_refused(void **state)
{
	(void)state;
	static const struct {
		size_t field;
		uint32_t value, seq;
		const char *must;
	} wrong[] = {
		{offsetof(struct model_config, layers), 9, 1, "model.layers (9)"},
		{offsetof(struct model_config, blocks[0]), 0, 1, "stage 2 has blocks"},
		{offsetof(struct model_config, width), 0, 1, "model.width: 0"},
		{offsetof(struct model_config, width), 1u << 30, 1, "model.width: 1073741824"},
		{offsetof(struct model_config, vocab), 0, 1, "model.classes: 0"},
		{offsetof(struct model_config, image[1]), 0, 1, "model.image: 3 x 0 x 224"},
		{offsetof(struct model_config, image[2]), UINT32_MAX, 1, "model.image: 3 x 224"},
		{offsetof(struct model_config, n_shards), 9, 1, "9 shards of 8 layers"},
		{offsetof(struct model_config, n_shards), 1, 2, "of length 1"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct model_config m = resnet(2, 2, 2, 2, false);
		memcpy((char *)&m + wrong[i].field, &wrong[i].value, sizeof wrong[i].value);
		struct graph *g = NULL;
		struct why why = {0};
		assert_int_equal(graph_build(&m, 2, wrong[i].seq, &g, &why), ERR_range);
		if (!strstr(why.text, wrong[i].must))
			fail_msg("\"%s\" does not say \"%s\"", why.text, wrong[i].must);
		assert_null(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_sizes_come_out),
		cmocka_unit_test(parameters_have_their_names),
		cmocka_unit_test(sizes_halve_where_they_should),
		cmocka_unit_test(blocks_can_be_cut_apart),
		cmocka_unit_test(wrong_models_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
