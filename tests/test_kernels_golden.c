/*
 * Every backend against PyTorch: logits, loss, all gradients, ten AdamW steps and the loss in
 * evaluation after them, of a tiny GPT-2, a Llama and two ResNets (tests/golden_*.py made
 * tests/data/ *_tiny.bin and _wide.bin; golden_file.py says what is in them).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "tests/help_kernels.h"

#define MAGIC "SHOALG2\n"
#define NAME_SIZE 80

/* What the golden_*.py say of their models. */
static const struct golden_case {
	const char *file;
	uint32_t batch, seq;
	struct model_config model;
} cases[] = {
	{"tests/data/gpt2_tiny.bin", 2, 16,
		{.builder = "gpt",
			.layers = 2,
			.width = 32,
			.heads = 4,
			.context = 16,
			.vocab = 97,
			.tied = true,
			.n_shards = 1}},
	{"tests/data/llama_tiny.bin", 2, 12,
		{.builder = "llama",
			.layers = 2,
			.width = 32,
			.heads = 4,
			.kv_heads = 2,
			.hidden = 48,
			.context = 16,
			.vocab = 61,
			.rope_theta = 500,
			.norm_eps = 1e-6,
			.n_shards = 1}},
	{"tests/data/resnet_tiny.bin", 4, 1,
		{.builder = "resnet",
			.layers = 3,
			.width = 8,
			.vocab = 7,
			.blocks = {2, 1},
			.image = {3, 24, 20},
			.n_shards = 1}},
	{"tests/data/resnet_wide.bin", 4, 1,
		{.builder = "resnet",
			.layers = 3,
			.width = 4,
			.vocab = 7,
			.blocks = {1, 2},
			.bottleneck = true,
			.small_stem = true,
			.image = {3, 8, 10},
			.n_shards = 1}},
};

/* Relative to the norm of each tensor. */
static const struct {
	size_t real_size;
	double forward, grad, stepped, losses;
} bounds[] = {
	{8, 1e-13, 1e-13, 1e-11, 1e-13},
	{4, 1e-6, 5e-6, 2e-6, 1e-6},
};

/* ---- the file */

struct golden {
	const struct golden_case *of;
	uint8_t *bytes;
	size_t len;
};

/* The values of an entry, which must have so many; caller frees. */
static void *entry(const struct golden *f, const char *name, uint32_t type, uint64_t count)
{
	struct rd r;
	rd_init(&r, f->bytes, f->len);
	assert_memory_equal(rd_bytes(&r, 8), MAGIC, 8);
	size_t each = type ? sizeof(int32_t) : sizeof(double);
	for (uint32_t i = rd_u32(&r); i > 0; i--) {
		char is[NAME_SIZE];
		rd_copy(&r, is, sizeof is);
		uint32_t kind = rd_u32(&r), n = rd_u32(&r);
		const uint8_t *at = rd_bytes(&r, n * (kind ? sizeof(int32_t) : sizeof(double)));
		assert_true(rd_ok(&r));
		if (strncmp(is, name, sizeof is))
			continue;
		assert_int_equal(kind, type);
		assert_int_equal(n, count);
		void *values = alloc_must(n * each);
		memcpy(values, at, n * each);
		return values;
	}
	fail_msg("no %s in %s", name, f->of->file);
	return NULL;
}

/* ---- a backend at the golden start */

struct rig {
	struct help_kernels k;
	const struct golden *f;
	struct graph *g;
	struct params *p;
	struct exec *x;
	struct exec_batch batch;
	int32_t *tokens, *targets;
	void *images;
	double forward, grad, stepped, losses; /* bounds */
};

static void load_start(struct rig *r)
{
	for (uint32_t i = 0; i < r->g->n_tensors; i++) {
		const struct tensor *t = &r->g->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		char name[NAME_SIZE];
		snprintf(name, sizeof name, "init.%s", t->name);
		uint64_t n = shape_count(&t->shape);
		double *x = entry(r->f, name, 0, n);
		help_kernels_write(
			&r->k, params_view(r->p, t->shard, PARAMS_value, t->offset), n, x);
		free(x);
	}
}

/* In the backend's reals. */
static void *load_images(const struct rig *r)
{
	uint64_t n = shape_count(&r->g->tensors[r->g->images_in].shape);
	double *x = entry(r->f, "images", 0, n);
	float *narrow = (float *)x;
	for (uint64_t i = 0; i < n && r->k.backend->real_size == sizeof *narrow; i++) {
		float is = (float)x[i];
		memcpy(&narrow[i], &is, sizeof is);
	}
	return x;
}

static struct rig rig_make(const struct golden *f, const char *backend, enum exec_mode mode)
{
	struct rig r = {.k = help_kernels_open(backend), .f = f};
	struct why why = {0};
	if (graph_build(&f->of->model, f->of->batch, f->of->seq, &r.g, &why))
		fail_msg("%s", why.text);
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		if (bounds[i].real_size == r.k.backend->real_size) {
			r.forward = bounds[i].forward;
			r.grad = bounds[i].grad;
			r.stepped = bounds[i].stepped;
			r.losses = bounds[i].losses;
		}
	r.p = help_kernels_params(&r.k, r.g, NULL, 0, 1);
	r.x = help_kernels_exec(r.g, r.p, mode);
	uint64_t rows = (uint64_t)f->of->batch * f->of->seq;
	r.targets = entry(f, "targets", 1, rows);
	if (r.g->images_in != GRAPH_NONE)
		r.images = load_images(&r);
	else
		r.tokens = entry(f, "tokens", 1, rows);
	r.batch = (struct exec_batch){.tokens = r.tokens, .targets = r.targets, .images = r.images};
	load_start(&r);
	return r;
}

static void rig_release(struct rig *r)
{
	free(r->tokens);
	free(r->targets);
	free(r->images);
	exec_free(r->x);
	params_free(r->p);
	graph_free(r->g);
	help_kernels_close(&r->k);
}

static void near(const struct rig *r, const char *name, const double *is, uint64_t n, double bound)
{
	double *must = entry(r->f, name, 0, n);
	double off = help_kernels_distance(is, must, n);
	free(must);
	if (!(off <= bound))
		fail_msg("%s: %s of %s is off by %.3g, more than %.3g", r->k.backend->name, name,
			r->f->of->file, off, bound);
}

/* A bias of the keys changes no softmax, so its gradient is rounding and nothing else.  AdamW
 * divides a gradient by its own size and makes steps of the learning rate out of that: not
 * compared. */
static void forget_key_bias(
	const struct rig *r, const struct tensor *t, const char *name, double *is)
{
	if (!strstr(name, "param") || !strstr(name, "attn.c_attn.bias"))
		return;
	uint64_t n = shape_count(&t->shape), third = n / 3;
	double *must = entry(r->f, name, 0, n);
	memcpy(is + third, must + third, third * sizeof *is);
	free(must);
}

/* Running statistics have no gradient, but change with the steps as parameters do. */
static void near_params(const struct rig *r, const char *kind, enum params_part part, double bound)
{
	double *is = help_kernels_part(&r->k, r->p, 0, part);
	for (uint32_t i = 0; i < r->g->n_tensors; i++) {
		const struct tensor *t = &r->g->tensors[i];
		char name[NAME_SIZE];
		snprintf(name, sizeof name, "%s.%s", kind, t->name);
		if (t->role != TENSOR_param || (part == PARAMS_grad && t->buffer))
			continue;
		forget_key_bias(r, t, name, is + t->offset);
		near(r, name, is + t->offset, shape_count(&t->shape), bound);
	}
	free(is);
}

/* ---- the tests, each for every backend */

static void evaluation(const struct golden *f, const char *backend)
{
	struct rig r = rig_make(f, backend, EXEC_loss);
	uint64_t n = shape_count(&r.g->tensors[r.g->logits].shape);
	size_t size = r.k.backend->real_size;
	double loss, *wide = alloc_must(n * sizeof *wide);
	float *narrow = alloc_must(n * sizeof *narrow);
	assert_int_equal(exec_whole(r.x, &r.batch, &loss, NULL), ERR_OK);
	near(&r, "eval", &loss, 1, r.forward);
	exec_get(r.x, r.g->logits, 0, n, size == sizeof *wide ? (void *)wide : (void *)narrow);
	for (uint64_t i = 0; i < n && size == sizeof *narrow; i++)
		wide[i] = (double)narrow[i];
	near(&r, "logits", wide, n, r.forward);
	free(wide);
	free(narrow);
	rig_release(&r);
}

static void gradients(const struct golden *f, const char *backend)
{
	struct rig r = rig_make(f, backend, EXEC_train);
	double loss;
	assert_int_equal(exec_whole(r.x, &r.batch, &loss, NULL), ERR_OK);
	near(&r, "loss", &loss, 1, r.forward);
	near_params(&r, "grad", PARAMS_grad, r.grad);
	rig_release(&r);
}

static void ten_steps(const struct golden *f, const char *backend, const char *kind, double clip)
{
	struct rig r = rig_make(f, backend, EXEC_train);
	double losses[10], norms[10], eval;
	struct params_step how = {.lr = 1e-3,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.weight_decay = 0.1,
		.clip = clip};
	for (int i = 0; i < 10; i++) {
		how.step = (uint64_t)i + 1;
		assert_int_equal(exec_whole(r.x, &r.batch, &losses[i], NULL), ERR_OK);
		assert_int_equal(params_adamw(r.p, &how, &norms[i], NULL), ERR_OK);
	}
	char name[NAME_SIZE];
	snprintf(name, sizeof name, "%s.losses", kind);
	near(&r, name, losses, 10, r.losses);
	snprintf(name, sizeof name, "%s.norms", kind);
	near(&r, name, norms, 10, r.losses * 10);
	snprintf(name, sizeof name, "%s.param", kind);
	near_params(&r, name, PARAMS_value, r.stepped);
	exec_free(r.x);
	r.x = help_kernels_exec(r.g, r.p, EXEC_loss);
	assert_int_equal(exec_whole(r.x, &r.batch, &eval, NULL), ERR_OK);
	snprintf(name, sizeof name, "%s.eval", kind);
	near(&r, name, &eval, 1, r.losses);
	rig_release(&r);
}

static void for_every_backend(void **state, void (*test)(const struct golden *, const char *))
{
	struct golden f = {.of = *state};
	struct why why = {0};
	if (file_read(f.of->file, 1 << 24, &f.bytes, &f.len, &why))
		fail_msg("%s", why.text);
	for (size_t i = 0; backend_at(i); i++)
		test(&f, backend_at(i)->name);
	free(f.bytes);
}

static void evaluation_is_pytorchs(void **state)
{
	for_every_backend(state, evaluation);
}

static void gradients_are_pytorchs(void **state)
{
	for_every_backend(state, gradients);
}

static void plain(const struct golden *f, const char *backend)
{
	ten_steps(f, backend, "plain", 0);
}

static void ten_adamw_steps_are_pytorchs(void **state)
{
	for_every_backend(state, plain);
}

static void clipped(const struct golden *f, const char *backend)
{
	ten_steps(f, backend, "clip", 1.0);
}

static void ten_clipped_steps_are_pytorchs(void **state)
{
	for_every_backend(state, clipped);
}

#define CASE(name, test, i) \
	{ \
		name ": " #test, test, NULL, NULL, (void *)&cases[i] \
	}
#define CASES(name, i) \
	CASE(name, evaluation_is_pytorchs, i), CASE(name, gradients_are_pytorchs, i), \
		CASE(name, ten_adamw_steps_are_pytorchs, i), \
		CASE(name, ten_clipped_steps_are_pytorchs, i)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASES("gpt2", 0),
		CASES("llama", 1),
		CASES("resnet, basic blocks", 2),
		CASES("resnet, bottlenecks", 3),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
