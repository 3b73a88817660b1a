/*
 * Every backend against ONNX's test data for single operators (Debian: libonnx-testdata), which
 * ONNX's own plain implementations made.  Left out is what our ops do not say: other axes of
 * gather, classes with weights or without reduction, pads that differ from side to side,
 * dilations, ceil mode, one and three dimensions, broadcasting, other types than float; batch
 * matrix products.  There is none for attention, rope, rmsnorm, swiglu and this GELU.
 */
#include <math.h>
#include <stdio.h>
#include "tests/help_kernels.h"
#include "tests/help_onnx.h"

#define FOLDER "/usr/share/libonnx-testdata/data/node"
#define BOUND 1e-5 /* of the largest value: the data are float32, and so were their sums */

enum { FILES = 5 };

struct onnx_case {
	const char *name;
	enum op op;
	struct node attrs;
	uint32_t axis;  /* layernorm: from here on it is one row */
	bool turn_a;    /* linear: a is the transpose of our x */
	bool turned_b;  /* linear: b is our weight, else its transpose */
	bool train;     /* batchnorm */
	int32_t ignore; /* cross_entropy: such a target is not counted */
	uint64_t rows;  /* cross_entropy: loss_rows */
};

#define NORM(which, from, e) \
	{ \
		.name = "layer_normalization_" which, .op = OP_layernorm, .axis = from, .attrs = { \
			.eps = e \
		} \
	}
#define BATCH(which, e, training) \
	{ \
		.name = "batchnorm_" which, .op = OP_batchnorm, .train = training, .attrs = { \
			.eps = e, \
			.momentum = 0.1f \
		} \
	}
#define CONV(which, s, p) \
	{ \
		.name = which, .op = OP_conv2d, .attrs = {.stride = s, .pad = p } \
	}
#define POOL(which, w, s, p) \
	{ \
		.name = "maxpool_" which, .op = OP_maxpool, .attrs = { \
			.window = w, \
			.stride = s, \
			.pad = p \
		} \
	}
#define LOSS(which, skip, over) \
	{ \
		.name = "sce_" which, .op = OP_cross_entropy, .ignore = skip, .rows = over \
	}
#define SAME_AS(which, our) \
	{ \
		.name = which, .op = OP_##our \
	}

static const struct onnx_case cases[] = {
	NORM("2d_axis0", 0, 1e-5f),
	NORM("2d_axis1", 1, 1e-5f),
	NORM("2d_axis_negative_1", 1, 1e-5f),
	NORM("2d_axis_negative_2", 0, 1e-5f),
	NORM("3d_axis0_epsilon", 0, 0.1f),
	NORM("3d_axis1_epsilon", 1, 0.1f),
	NORM("3d_axis2_epsilon", 2, 0.1f),
	NORM("3d_axis_negative_1_epsilon", 2, 0.1f),
	NORM("3d_axis_negative_2_epsilon", 1, 0.1f),
	NORM("3d_axis_negative_3_epsilon", 0, 0.1f),
	NORM("4d_axis0", 0, 1e-5f),
	NORM("4d_axis1", 1, 1e-5f),
	NORM("4d_axis2", 2, 1e-5f),
	NORM("4d_axis3", 3, 1e-5f),
	NORM("4d_axis_negative_1", 3, 1e-5f),
	NORM("4d_axis_negative_2", 2, 1e-5f),
	NORM("4d_axis_negative_3", 1, 1e-5f),
	NORM("4d_axis_negative_4", 0, 1e-5f),
	NORM("default_axis", 3, 1e-5f),
	BATCH("example", 1e-5f, false),
	BATCH("epsilon", 1e-2f, false),
	BATCH("example_training_mode", 1e-5f, true),
	BATCH("epsilon_training_mode", 1e-2f, true),
	CONV("basic_conv_with_padding", 1, 1),
	CONV("basic_conv_without_padding", 1, 0),
	CONV("conv_with_strides_no_padding", 2, 0),
	CONV("conv_with_strides_padding", 2, 1),
	CONV("conv_with_autopad_same", 2, 1),
	POOL("2d_default", 2, 1, 0),
	POOL("2d_pads", 3, 1, 2),
	POOL("2d_precomputed_pads", 5, 1, 2),
	POOL("2d_precomputed_strides", 2, 2, 0),
	POOL("2d_precomputed_same_upper", 3, 2, 1),
	POOL("2d_strides", 5, 3, 0),
	POOL("with_argmax_2d_precomputed_pads", 5, 1, 2),
	POOL("with_argmax_2d_precomputed_strides", 2, 2, 0),
	LOSS("mean", -1, 0),
	LOSS("mean_log_prob", -1, 0),
	LOSS("mean_3d", -1, 0),
	LOSS("mean_3d_log_prob", -1, 0),
	LOSS("mean_no_weight_ii", 2, 0),
	LOSS("mean_no_weight_ii_log_prob", 2, 0),
	LOSS("mean_no_weight_ii_3d", 2, 0),
	LOSS("mean_no_weight_ii_3d_log_prob", 2, 0),
	LOSS("mean_no_weight_ii_4d", 2, 0),
	LOSS("mean_no_weight_ii_4d_log_prob", 2, 0),
	LOSS("sum", -1, 1),
	LOSS("sum_log_prob", -1, 1),
	SAME_AS("globalaveragepool", global_average),
	SAME_AS("globalaveragepool_precomputed", global_average),
	SAME_AS("relu", relu),
	SAME_AS("add", add),
	SAME_AS("gather_0", token_embed),
	SAME_AS("matmul_2d", linear),
	SAME_AS("gemm_default_no_bias", linear),
	SAME_AS("gemm_default_vector_bias", linear),
	SAME_AS("gemm_default_zero_bias", linear),
	{.name = "gemm_transposeA", .op = OP_linear, .turn_a = true},
	{.name = "gemm_transposeB", .op = OP_linear, .turned_b = true},
};

/* ---- from ONNX's tensors to what our op takes */

struct trial {
	const struct onnx_case *c;
	struct onnx_tensor in[FILES], out[FILES];
};

static struct onnx_tensor load(const char *name, const char *kind, int i)
{
	char path[256];
	snprintf(path, sizeof path, FOLDER "/test_%s/test_data_set_0/%s_%d.pb", name, kind, i);
	return onnx_read(path);
}

static void reshape(struct onnx_tensor *t, uint32_t rank, uint64_t d0, uint64_t d1)
{
	assert_int_equal(d0 * d1, t->n);
	t->rank = rank;
	t->dim[0] = d0;
	t->dim[1] = d1;
}

/* [outer,a,b] to [outer,b,a]. */
static void transpose(struct onnx_tensor *t, uint64_t a, uint64_t b)
{
	double *x = alloc_must_zero(t->n + 1, sizeof *x);
	for (uint64_t i = 0; i < t->n; i++)
		x[i / (a * b) * a * b + i % b * a + i / b % a] = t->x[i];
	free(t->x);
	t->x = x;
}

static uint64_t product_of(const struct onnx_tensor *t, uint32_t first, uint32_t end)
{
	uint64_t n = 1;
	for (uint32_t i = first; i < end; i++)
		n *= t->dim[i];
	return n;
}

static void fit_linear(struct trial *t)
{
	if (t->c->turn_a) {
		transpose(&t->in[0], t->in[0].dim[0], t->in[0].dim[1]);
		reshape(&t->in[0], 2, t->in[0].dim[1], t->in[0].dim[0]);
	}
	if (!t->c->turned_b) {
		transpose(&t->in[1], t->in[1].dim[0], t->in[1].dim[1]);
		reshape(&t->in[1], 2, t->in[1].dim[1], t->in[1].dim[0]);
	}
	if (t->in[2].x)
		reshape(&t->in[2], 1, t->in[2].n, 1);
}

/* Classes last, one row for each target. */
static void fit_loss(struct trial *t)
{
	struct onnx_tensor *logits = &t->in[0], *targets = &t->in[1];
	uint64_t classes = logits->dim[1], area = product_of(logits, 2, logits->rank);
	transpose(logits, classes, area);
	reshape(logits, 2, targets->n, classes);
	reshape(targets, 1, targets->n, 1);
	for (uint64_t i = 0; i < targets->n; i++)
		if ((int32_t)targets->x[i] == t->c->ignore)
			targets->x[i] = -1;
}

/* Our var moves by the unbiased variance, ONNX's by the other. */
static void fit_batchnorm(struct trial *t)
{
	const struct onnx_tensor *x = &t->in[0];
	double count = (double)x->n / (double)x->dim[1];
	for (uint64_t i = 0; i < t->out[2].n; i++)
		t->out[2].x[i] += (t->out[2].x[i] - 0.9 * t->in[4].x[i]) / (count - 1);
}

static void fit(struct trial *t)
{
	struct onnx_tensor *x = &t->in[0];
	uint64_t rows;
	switch (t->c->op) {
	case OP_layernorm:
		rows = product_of(x, 0, t->c->axis);
		reshape(x, 2, rows, x->n / rows);
		reshape(&t->in[1], 1, t->in[1].n, 1);
		reshape(&t->in[2], 1, t->in[2].n, 1);
		break;
	case OP_token_embed: { /* ours has the tokens first */
		struct onnx_tensor table = *x;
		*x = t->in[1];
		reshape(x, 2, 1, x->n);
		t->in[1] = table;
		reshape(&t->in[1], 2, table.dim[0], table.n / table.dim[0]);
		break;
	}
	case OP_linear: fit_linear(t); break;
	case OP_cross_entropy: fit_loss(t); break;
	case OP_batchnorm: fit_batchnorm(t); break;
	default: break;
	}
}

/* ---- running */

static void compare(const struct help_kernels *k, const char *name, struct view at,
	const struct onnx_tensor *must)
{
	double *is = alloc_must_zero(must->n + 1, sizeof *is), most = 1e-3;
	help_kernels_read(k, at, must->n, is);
	for (uint64_t i = 0; i < must->n; i++)
		most = fmax(most, fabs(must->x[i]));
	for (uint64_t i = 0; i < must->n; i++)
		if (!(fabs(is[i] - must->x[i]) <= BOUND * most))
			fail_msg("%s: %s: element %llu is %.9g, must be %.9g", k->backend->name,
				name, (unsigned long long)i, is[i], must->x[i]);
	free(is);
}

static struct view place(const struct help_kernels *k, const struct onnx_tensor *t, bool tokens)
{
	struct view v = help_kernels_alloc(k, t->n);
	if (!tokens) {
		help_kernels_write(k, v, t->n, t->x);
		return v;
	}
	int32_t *x = alloc_must_zero(t->n + 1, sizeof *x);
	for (uint64_t i = 0; i < t->n; i++)
		x[i] = (int32_t)t->x[i];
	k->backend->write(k->device, v.mem, 0, x, t->n * sizeof *x);
	free(x);
	return v;
}

static void run_on(const struct help_kernels *k, const struct trial *t)
{
	const struct op_def *def = op_def(t->c->op);
	struct graph *g = graph_new(1, 1);
	struct kernel_call call = {.graph = g, .train = t->c->train, .loss_rows = t->c->rows};
	uint32_t in[FILES], n = 0;
	for (; n < FILES && t->in[n].x; n++) {
		const struct onnx_tensor *x = &t->in[n];
		struct shape s = {.rank = x->rank, .dim = {1, 1, 1, 1}};
		for (uint32_t i = 0; i < x->rank && i < SHAPE_RANK; i++)
			s.dim[i] = (uint32_t)x->dim[i];
		char name[] = {(char)('a' + n), 0};
		bool tokens = def->token_in >> n & 1;
		in[n] = graph_input(g, name, &s, tokens ? DTYPE_token : DTYPE_real);
		g->tensors[in[n]].buffer = def->buffer_in >> n & 1;
		call.in[n] = place(k, x, tokens);
	}
	uint32_t y = graph_node(g, 0, t->c->op, in, n, &t->c->attrs);
	if (y == GRAPH_NONE)
		fail_msg("%s: %s", t->c->name, g->mistake.text);
	call.node = &g->nodes[0];
	assert_int_equal(shape_count(&g->tensors[y].shape), t->out[0].n);
	call.out = help_kernels_alloc(k, t->out[0].n);
	k->backend->run(k->device, &call);
	compare(k, t->c->name, call.out, &t->out[0]);
	for (uint32_t i = 1; i < 3 && t->c->train; i++)
		compare(k, t->c->name, call.in[2 + i], &t->out[i]);
	k->backend->free(k->device, call.out.mem);
	for (uint32_t i = 0; i < n; i++)
		k->backend->free(k->device, call.in[i].mem);
	graph_free(g);
}

static void every_case(const char *backend)
{
	if (!file_exists(FOLDER))
		skip();
	struct help_kernels k = help_kernels_open(backend);
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct trial t = {.c = &cases[c]};
		for (int i = 0; i < FILES; i++) {
			t.in[i] = load(cases[c].name, "input", i);
			t.out[i] = load(cases[c].name, "output", i);
		}
		if (!t.in[0].x || !t.out[0].x)
			fail_msg("no data of %s", cases[c].name);
		fit(&t);
		run_on(&k, &t);
		for (int i = 0; i < FILES; i++) {
			free(t.in[i].x);
			free(t.out[i].x);
		}
	}
	help_kernels_close(&k);
}

static void ref_is_onnxs(void **state)
{
	(void)state;
	every_case("ref");
}

static void ref64_is_onnxs(void **state)
{
	(void)state;
	every_case("ref64");
}

static void cpu_is_onnxs(void **state)
{
	(void)state;
	every_case("cpu");
}

/* ---- AdamW */

/* ONNX's Adam at its step 0 leaves out the correction of the bias, as ours does after very many
 * steps; its weight decay is in the gradient, as ours is not. */
static void adam_is_onnxs(void **state)
{
	(void)state;
	if (!file_exists(FOLDER))
		skip();
	for (size_t b = 0; backend_at(b); b++) {
		struct help_kernels k = help_kernels_open(backend_at(b)->name);
		struct onnx_tensor in[6], out[3];
		for (int i = 0; i < 6; i++)
			in[i] = load("adam", "input", i); /* rate, step, x, gradient, m, v */
		for (int i = 0; i < 3; i++)
			out[i] = load("adam", "output", i);
		for (uint64_t i = 0; i < in[3].n; i++)
			in[3].x[i] += 0.001 * in[2].x[i];
		const struct adamw_call c = {.param = place(&k, &in[2], false),
			.grad = place(&k, &in[3], false),
			.m = place(&k, &in[4], false),
			.v = place(&k, &in[5], false),
			.n = in[2].n,
			.lr = in[0].x[0],
			.beta1 = 0.95,
			.beta2 = 0.1,
			.eps = 1e-7,
			.scale = 1,
			.step = 1000000};
		k.backend->adamw(k.device, &c);
		compare(&k, "adam's parameters", c.param, &out[0]);
		compare(&k, "adam's m", c.m, &out[1]);
		compare(&k, "adam's v", c.v, &out[2]);
		const struct view all[] = {c.param, c.grad, c.m, c.v};
		for (int i = 0; i < 4; i++)
			k.backend->free(k.device, all[i].mem);
		for (int i = 0; i < 6; i++)
			free(in[i].x);
		for (int i = 0; i < 3; i++)
			free(out[i].x);
		help_kernels_close(&k);
	}
}

int main(void)
{
	if (!file_exists(FOLDER))
		puts(FOLDER " is not there (Debian: libonnx-testdata): skipped");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ref_is_onnxs),
		cmocka_unit_test(ref64_is_onnxs),
		cmocka_unit_test(cpu_is_onnxs),
		cmocka_unit_test(adam_is_onnxs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
