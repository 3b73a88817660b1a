/*
 * Every backend against PyTorch: logits, loss, all gradients and ten AdamW steps of a tiny GPT-2
 * (tests/golden_gpt2.py made tests/data/gpt2_tiny.bin and says what is in it).
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

#define GOLDEN "tests/data/gpt2_tiny.bin"
#define MAGIC "SHOALG1\n"

static const struct model_config model = {.builder = "gpt",
	.layers = 2,
	.width = 32,
	.heads = 4,
	.context = 16,
	.vocab = 97,
	.tied = true,
	.n_shards = 1};

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
		char is[48];
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
	fail_msg("no %s in " GOLDEN, name);
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
	double forward, grad, stepped, losses; /* bounds */
};

static void load_start(struct rig *r)
{
	for (uint32_t i = 0; i < r->g->n_tensors; i++) {
		const struct tensor *t = &r->g->tensors[i];
		if (t->role != TENSOR_param)
			continue;
		char name[80];
		snprintf(name, sizeof name, "init.%s", t->name);
		uint64_t n = shape_count(&t->shape);
		double *x = entry(r->f, name, 0, n);
		help_kernels_write(
			&r->k, params_view(r->p, t->shard, PARAMS_value, t->offset), n, x);
		free(x);
	}
}

static struct rig rig_make(const struct golden *f, const char *backend, enum exec_mode mode)
{
	struct rig r = {.k = help_kernels_open(backend), .f = f};
	assert_int_equal(graph_build(&model, 2, 16, &r.g, NULL), ERR_OK);
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		if (bounds[i].real_size == r.k.backend->real_size) {
			r.forward = bounds[i].forward;
			r.grad = bounds[i].grad;
			r.stepped = bounds[i].stepped;
			r.losses = bounds[i].losses;
		}
	r.p = help_kernels_params(&r.k, r.g, NULL, 0, 1);
	r.x = help_kernels_exec(r.g, r.p, mode);
	r.tokens = entry(f, "tokens", 1, 32);
	r.targets = entry(f, "targets", 1, 32);
	r.batch = (struct exec_batch){.tokens = r.tokens, .targets = r.targets};
	load_start(&r);
	return r;
}

static void rig_release(struct rig *r)
{
	free(r->tokens);
	free(r->targets);
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
		fail_msg("%s: %s is off by %.3g, more than %.3g", r->k.backend->name, name, off,
			bound);
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

static void near_params(const struct rig *r, const char *kind, enum params_part part, double bound)
{
	double *is = help_kernels_part(&r->k, r->p, 0, part);
	for (uint32_t i = 0; i < r->g->n_tensors; i++) {
		const struct tensor *t = &r->g->tensors[i];
		char name[80];
		snprintf(name, sizeof name, "%s.%s", kind, t->name);
		if (t->role != TENSOR_param)
			continue;
		forget_key_bias(r, t, name, is + t->offset);
		near(r, name, is + t->offset, shape_count(&t->shape), bound);
	}
	free(is);
}

/* ---- the tests, each for every backend */

static void logits_and_loss(const struct golden *f, const char *backend)
{
	struct rig r = rig_make(f, backend, EXEC_loss);
	enum { N = 2 * 16 * 97 };
	size_t size = r.k.backend->real_size;
	double loss, logits[N];
	float narrow[N];
	assert_int_equal(exec_whole(r.x, &r.batch, &loss, NULL), ERR_OK);
	near(&r, "loss", &loss, 1, r.forward);
	exec_get(r.x, r.g->logits, 0, N, size == 8 ? (void *)logits : (void *)narrow);
	for (uint32_t i = 0; i < N && size == 4; i++)
		logits[i] = (double)narrow[i];
	near(&r, "logits", logits, N, r.forward);
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
	double losses[10], norms[10];
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
	char name[64];
	snprintf(name, sizeof name, "%s.losses", kind);
	near(&r, name, losses, 10, r.losses);
	snprintf(name, sizeof name, "%s.norms", kind);
	near(&r, name, norms, 10, r.losses * 10);
	snprintf(name, sizeof name, "%s.param", kind);
	near_params(&r, name, PARAMS_value, r.stepped);
	rig_release(&r);
}

static void for_every_backend(void **state, void (*test)(const struct golden *, const char *))
{
	for (size_t i = 0; backend_at(i); i++)
		test(*state, backend_at(i)->name);
}

static void logits_and_loss_are_pytorchs(void **state)
{
	for_every_backend(state, logits_and_loss);
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

static int load(void **state)
{
	static struct golden f;
	struct why why = {0};
	if (file_read(GOLDEN, 1 << 24, &f.bytes, &f.len, &why)) {
		fprintf(stderr, "%s\n", why.text);
		return -1;
	}
	*state = &f;
	return 0;
}

static int unload(void **state)
{
	struct golden *f = *state;
	free(f->bytes);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logits_and_loss_are_pytorchs),
		cmocka_unit_test(gradients_are_pytorchs),
		cmocka_unit_test(ten_adamw_steps_are_pytorchs),
		cmocka_unit_test(ten_clipped_steps_are_pytorchs),
	};
	return cmocka_run_group_tests(tests, load, unload);
}
