/*
 * The gradient of every op in the list against finite differences, in double.  With w fixed numbers
 * and L = sum of w y, backward with w as the gradient of y must give what central differences of L
 * give.
 */
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "tests/help_kernels.h"
#include "tests/help_ops.h"

#define STEP 1e-5
#define BOUND 1e-8 /* of the largest gradient of the tensor; STEP^2 and the rounding / STEP */

/* ---- a call and its tensors */

struct trial {
	struct help_kernels k;
	struct graph *g;
	struct kernel_call c;      /* forward */
	double *x[NODE_IN_MAX];    /* inputs of reals */
	double *grad[NODE_IN_MAX]; /* what backward gave */
	double *w;
};

static uint64_t count(const struct trial *t, uint32_t tensor)
{
	return shape_count(&t->g->tensors[tensor].shape);
}

static double *numbers(uint64_t seed, uint64_t n)
{
	double *x = alloc_must_zero(n, sizeof *x);
	for (uint64_t i = 0; i < n; i++)
		x[i] = 2 * rng_unit(seed, 3, i) - 1;
	return x;
}

/* The inputs of an op, away from where it has no slope. */
static double *smooth_numbers(enum op op, uint64_t seed, uint64_t n)
{
	enum { PRIME = 7919 };
	double *x = numbers(seed, n);
	assert_true(n < PRIME);
	for (uint64_t i = 0; i < n; i++) {
		if (op == OP_relu)
			x[i] += x[i] < 0 ? -0.1 : 0.1;
		if (op == OP_maxpool) /* no two alike */
			x[i] = 2 * (double)(i * PRIME % n) / (double)n - 1;
	}
	return x;
}

/* Tokens below the limit; every third one is not counted where the op allows that. */
static void place_tokens(struct trial *t, uint32_t i)
{
	const struct op_def *def = op_def(t->c.node->op);
	uint64_t n = count(t, t->c.node->in[i]);
	int32_t *x = alloc_must_zero(n, sizeof *x);
	for (uint64_t k = 0; k < n; k++) {
		x[k] = (int32_t)rng_below(5, 4, k, def->token_limit(t->g, t->c.node));
		if (def->token_skip && k % 3 == 1)
			x[k] = -1;
	}
	assert_int_equal(t->k.backend->alloc(t->k.device, n * sizeof *x, &t->c.in[i].mem), 0);
	t->k.backend->write(t->k.device, t->c.in[i].mem, 0, x, n * sizeof *x);
	free(x);
}

static struct trial trial_make(enum op op, const struct help_dims *d)
{
	struct trial t = {.k = help_kernels_open("ref64"), .g = help_ops_graph(op, d)};
	const uint32_t *in = t.g->nodes[0].in, y = t.g->nodes[0].out;
	const struct op_def *def = op_def(op);
	t.c = (struct kernel_call){.graph = t.g, .node = &t.g->nodes[0], .train = true};
	for (uint32_t i = 0; i < t.c.node->n_in; i++) {
		if (def->token_in >> i & 1) {
			place_tokens(&t, i);
			continue;
		}
		uint64_t size = count(&t, in[i]);
		t.x[i] = smooth_numbers(op, i + 1, size);
		t.c.in[i] = help_kernels_alloc(&t.k, size);
		help_kernels_write(&t.k, t.c.in[i], size, t.x[i]);
	}
	t.c.out = help_kernels_alloc(&t.k, count(&t, y));
	if (def->saved)
		t.c.saved = help_kernels_alloc(&t.k, def->saved(t.g, t.c.node));
	t.w = numbers(99, count(&t, y));
	return t;
}

static void trial_release(struct trial *t)
{
	for (uint32_t i = 0; i < NODE_IN_MAX; i++) {
		t->k.backend->free(t->k.device, t->c.in[i].mem);
		free(t->x[i]);
		free(t->grad[i]);
	}
	t->k.backend->free(t->k.device, t->c.out.mem);
	t->k.backend->free(t->k.device, t->c.saved.mem);
	free(t->w);
	graph_free(t->g);
	help_kernels_close(&t->k);
}

/* L at the inputs as they lie on the device. */
static double loss(const struct trial *t)
{
	uint64_t n = count(t, t->c.node->out);
	double *y = alloc_must_zero(n, sizeof *y), sum = 0;
	t->k.backend->run(t->k.device, &t->c);
	help_kernels_read(&t->k, t->c.out, n, y);
	for (uint64_t i = 0; i < n; i++)
		sum += t->w[i] * y[i];
	free(y);
	return sum;
}

/* Backward after forward; wanted and accumulate are bits of inputs.  The gradients start as 1, so
 * that both forgetting to add and forgetting not to add are seen. */
static void backward(struct trial *t, uint32_t wanted, uint32_t accumulate)
{
	const struct op_def *def = op_def(t->c.node->op);
	uint64_t n = count(t, t->c.node->out);
	struct kernel_call c = t->c;
	c.backward = true;
	c.accumulate = accumulate;
	c.grad_out = help_kernels_alloc(&t->k, n);
	help_kernels_write(&t->k, c.grad_out, n, t->w);
	if (!def->backward_out)
		c.out = (struct view){0};
	for (uint32_t i = 0; i < c.node->n_in; i++) {
		uint64_t size = count(t, c.node->in[i]);
		if (!(def->backward_in >> i & 1))
			c.in[i] = (struct view){0};
		free(t->grad[i]);
		t->grad[i] = NULL;
		if (!((def->gradient_in & wanted) >> i & 1))
			continue;
		t->grad[i] = alloc_must_zero(size, sizeof *t->grad[i]);
		for (uint64_t k = 0; k < size; k++)
			t->grad[i][k] = 1;
		c.grad_in[i] = help_kernels_alloc(&t->k, size);
		help_kernels_write(&t->k, c.grad_in[i], size, t->grad[i]);
	}
	t->k.backend->run(t->k.device, &c);
	for (uint32_t i = 0; i < c.node->n_in; i++)
		if (t->grad[i]) {
			help_kernels_read(&t->k, c.grad_in[i], count(t, c.node->in[i]), t->grad[i]);
			t->k.backend->free(t->k.device, c.grad_in[i].mem);
		}
	t->k.backend->free(t->k.device, c.grad_out.mem);
}

static double nudged(const struct trial *t, uint32_t i, uint64_t k, double by)
{
	struct view at = t->c.in[i];
	double x = t->x[i][k] + by;
	at.at += k;
	help_kernels_write(&t->k, at, 1, &x);
	double l = loss(t);
	help_kernels_write(&t->k, at, 1, &t->x[i][k]);
	return l;
}

static void check_input(const struct trial *t, uint32_t i)
{
	uint64_t n = count(t, t->c.node->in[i]);
	double most = 0;
	for (uint64_t k = 0; k < n; k++)
		most = fmax(most, fabs(t->grad[i][k]));
	assert_true(most > 0);
	for (uint64_t k = 0; k < n; k++) {
		double slope = (nudged(t, i, k, STEP) - nudged(t, i, k, -STEP)) / (2 * STEP);
		if (!(fabs(slope - t->grad[i][k]) <= BOUND * fmax(most, 0.1)))
			fail_msg("%s: gradient of input %u, element %llu is %.12g, must be %.12g",
				op_def(t->c.node->op)->name, i, (unsigned long long)k,
				t->grad[i][k], slope);
	}
}

static const struct help_dims odd[] = {
	{1, 1, 2, 1, 3, 3, 0, 2, 2, 2, 1, 1, 0}, {2, 5, 6, 3, 7, 7, 1, 3, 5, 7, 3, 2, 1},
	{3, 4, 9, 1, 4, 4, 1, 1, 6, 5, 2, 3, 0}, {1, 7, 8, 4, 11, 11, 2, 2, 7, 8, 3, 1, 2},
	{2, 4, 12, 6, 5, 2, 3, 2, 3, 9, 1, 2, 0}, /* a 1 x 1 window that skips */
	{2, 6, 8, 4, 5, 3, 1, 3, 4, 4, 4, 1, 2},
	{2, 2, 4, 2, 5, 1, 2, 1, 2, 1, 2, 2, 1}, /* a window as large as the picture */
};
#define N_ODD (sizeof odd / sizeof *odd)

static void gradients_are_slopes(void **state)
{
	(void)state;
	for (int op = 1; op < OP_COUNT; op++)
		for (size_t i = 0; i < N_ODD; i++) {
			struct trial t = trial_make((enum op)op, &odd[i]);
			(void)loss(&t);
			backward(&t, ~0u, 0);
			for (uint32_t in = 0; in < t.c.node->n_in; in++)
				if (t.grad[in])
					check_input(&t, in);
			trial_release(&t);
		}
}

/* Each wanted gradient is the same whatever else is wanted, and 1 more where it is added to 1. */
static void gradients_add_up_and_can_be_left_out(void **state)
{
	(void)state;
	for (int op = 1; op < OP_COUNT; op++) {
		struct trial t = trial_make((enum op)op, &odd[1]);
		(void)loss(&t);
		backward(&t, ~0u, 0);
		double *all[NODE_IN_MAX];
		for (uint32_t i = 0; i < NODE_IN_MAX; i++) {
			all[i] = t.grad[i];
			t.grad[i] = NULL;
		}
		for (uint32_t bits = 1; bits < 1u << t.c.node->n_in; bits++) {
			if (!(bits & op_def((enum op)op)->gradient_in))
				continue; /* backward is only called for something */
			backward(&t, bits, bits & 5);
			for (uint32_t i = 0; i < t.c.node->n_in; i++)
				for (uint64_t k = 0; t.grad[i] && k < count(&t, t.c.node->in[i]);
					k++) {
					double must = all[i][k] + (bits & 5 & 1u << i ? 1 : 0);
					assert_true(fabs(t.grad[i][k] - must) < 1e-12);
				}
		}
		for (uint32_t i = 0; i < NODE_IN_MAX; i++)
			free(all[i]);
		trial_release(&t);
	}
}

/* loss_rows says over how many rows the mean is taken. */
static void the_mean_can_be_over_more_rows(void **state)
{
	(void)state;
	struct trial t = trial_make(OP_cross_entropy, &odd[1]);
	uint64_t n = count(&t, t.c.node->in[0]);
	uint64_t counted = 7; /* of 10, every third is not */
	double mean = loss(&t);
	backward(&t, ~0u, 0);
	double *grad = t.grad[0];
	t.grad[0] = NULL;
	t.c.loss_rows = 21;
	assert_true(fabs(loss(&t) * 21 - mean * (double)counted) < 1e-12);
	backward(&t, ~0u, 0);
	for (uint64_t i = 0; i < n; i++)
		assert_true(fabs(t.grad[0][i] * 21 - grad[i] * (double)counted) < 1e-12);
	free(grad);
	trial_release(&t);
}

/* The whole model at once: the slope of the loss along random directions of the parameters. */
static void the_model_gradient_is_a_slope(void **state)
{
	(void)state;
	struct help_kernels k = help_kernels_open("ref64");
	const struct model_config m = {.builder = "gpt",
		.layers = 2,
		.width = 12,
		.heads = 3,
		.context = 8,
		.vocab = 17,
		.tied = true,
		.n_shards = 1};
	struct graph *g = NULL;
	assert_int_equal(graph_build(&m, 2, 7, &g, NULL), ERR_OK);
	struct params *p = help_kernels_params(&k, g, NULL, 0, 4);
	struct exec *x = help_kernels_exec(g, p, EXEC_train);
	int32_t *in = help_kernels_tokens(g, 1), *targets = help_kernels_tokens(g, 2);
	const struct exec_batch batch = {.tokens = in, .targets = targets};
	uint64_t n = params_count(p, 0);
	double *at = help_kernels_part(&k, p, 0, PARAMS_value), loss_at[2];
	struct view value = params_view(p, 0, PARAMS_value, 0);
	for (uint64_t i = 0; i < n; i++) /* away from the symmetric start */
		at[i] += 0.2 * (2 * rng_unit(1, 1, i) - 1);
	help_kernels_write(&k, value, n, at);
	assert_int_equal(exec_whole(x, &batch, NULL, NULL), ERR_OK);
	double *grad = help_kernels_part(&k, p, 0, PARAMS_grad);
	double *moved = alloc_must_zero(n, sizeof *moved);
	for (uint64_t way = 0; way < 8; way++) {
		double *to = numbers(1000 + way, n), slope = 0;
		for (uint64_t i = 0; i < n; i++)
			slope += grad[i] * to[i];
		for (int side = 0; side < 2; side++) {
			for (uint64_t i = 0; i < n; i++)
				moved[i] = at[i] + (side ? STEP : -STEP) * to[i];
			help_kernels_write(&k, value, n, moved);
			assert_int_equal(exec_whole(x, &batch, &loss_at[side], NULL), ERR_OK);
		}
		double measured = (loss_at[1] - loss_at[0]) / (2 * STEP);
		if (!(fabs(measured - slope) < 1e-6 * (fabs(slope) + 0.1)))
			fail_msg("slope %.12g, must be %.12g", slope, measured);
		free(to);
	}
	free(at);
	free(grad);
	free(moved);
	free(in);
	free(targets);
	exec_free(x);
	params_free(p);
	graph_free(g);
	help_kernels_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_are_slopes),
		cmocka_unit_test(gradients_add_up_and_can_be_left_out),
		cmocka_unit_test(the_mean_can_be_over_more_rows),
		cmocka_unit_test(the_model_gradient_is_a_slope),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
