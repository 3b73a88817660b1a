/* Parameters on a device: values in and out, AdamW with clipping per shard, bad gradients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "tests/help_graph.h"
#include "tests/help_kernels.h"

static const struct params_step adamw = {
	.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .step = 1};

/* Two shards on a device, with a gradient from one batch. */
struct rig {
	struct help_kernels k;
	struct graph *g;
	struct params *p;
	struct exec *x;
	int32_t *tokens, *targets;
};

static struct rig rig_make(const char *backend)
{
	struct rig r = {.k = help_kernels_open(backend)};
	struct model_config m = help_graph_config(2, true);
	r.g = help_graph_build(&m, 2, 6);
	r.p = help_kernels_params(&r.k, r.g, NULL, 0, 11);
	r.x = help_kernels_exec(r.g, r.p, EXEC_train);
	r.tokens = help_kernels_tokens(r.g, 1);
	r.targets = help_kernels_tokens(r.g, 2);
	return r;
}

static void train(struct rig *r)
{
	const struct exec_batch batch = {.tokens = r->tokens, .targets = r->targets};
	assert_int_equal(exec_whole(r->x, &batch, NULL, NULL), ERR_OK);
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

static double norm_of(const double *x, uint64_t n)
{
	double sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sqrt(sum);
}

/* ---- in and out */

static void what_is_written_is_read(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct rig r = rig_make(backend_at(b)->name);
		uint64_t n = params_count(r.p, 1);
		assert_true(n > 1500); /* more than a doubles' backend converts at once, twice */
		float *x = alloc_must_zero(n, sizeof *x), *y = alloc_must_zero(n, sizeof *y);
		for (uint64_t i = 0; i < n; i++)
			x[i] = (float)i + 0.25f;
		for (int part = PARAMS_value; part <= PARAMS_v; part++) {
			params_write(r.p, 1, (enum params_part)part, 0, n, x);
			params_read(r.p, 1, (enum params_part)part, 0, n, y);
			assert_memory_equal(x, y, n * sizeof *x);
		}
		params_write(r.p, 1, PARAMS_m, 700, 3, (const float[]){-1, -2, -3});
		params_read(r.p, 1, PARAMS_m, 699, 5, y);
		assert_memory_equal(y, ((float[]){699.25f, -1, -2, -3, 703.25f}), 5 * sizeof *y);
		params_read(r.p, 1, PARAMS_v, 699, 5, y);
		assert_true(y[1] == 700.25f);
		assert_int_equal(params_count(r.p, 2), 0);
		free(x);
		free(y);
		rig_release(&r);
	}
}

static void initial_values_are_the_graphs(void **state)
{
	(void)state;
	struct rig r = rig_make("ref");
	for (uint32_t s = 0; s < 2; s++) {
		uint64_t n = params_count(r.p, s);
		assert_int_equal(n, r.g->shard_params[s]);
		float *x = alloc_must_zero(n, sizeof *x), *y = alloc_must_zero(n, sizeof *y);
		graph_init_shard(r.g, s, 11, x);
		params_read(r.p, s, PARAMS_value, 0, n, y);
		assert_memory_equal(x, y, n * sizeof *x);
		memset(x, 0, n * sizeof *x);
		params_read(r.p, s, PARAMS_m, 0, n, y);
		assert_memory_equal(x, y, n * sizeof *x);
		free(x);
		free(y);
	}
	rig_release(&r);
}

/* ---- steps */

/* What AdamW must make of one element, by the formula. */
static double stepped(double p, double g, const struct params_step *s, bool decay)
{
	double m = (1 - s->beta1) * g, v = (1 - s->beta2) * g * g;
	double mean = m / (1 - s->beta1), size = sqrt(v / (1 - s->beta2));
	return p - (decay ? s->lr * s->weight_decay * p : 0) - s->lr * mean / (size + s->eps);
}

static void check_step(double clip)
{
	struct rig r = rig_make("ref64");
	struct params_step how = adamw;
	how.clip = clip;
	double *before[2], *grad[2], norms[2];
	train(&r);
	for (uint32_t s = 0; s < 2; s++) {
		before[s] = help_kernels_part(&r.k, r.p, s, PARAMS_value);
		grad[s] = help_kernels_part(&r.k, r.p, s, PARAMS_grad);
	}
	assert_int_equal(params_adamw(r.p, &how, norms, NULL), ERR_OK);
	for (uint32_t s = 0; s < 2; s++) {
		uint64_t n = params_count(r.p, s);
		double norm = norm_of(grad[s], n),
		       scale = clip > 0 && norm > clip ? clip / norm : 1;
		double *after = help_kernels_part(&r.k, r.p, s, PARAMS_value);
		double *m = help_kernels_part(&r.k, r.p, s, PARAMS_m);
		assert_true(fabs(norms[s] / norm - 1) < 1e-12);
		for (uint64_t i = 0; i < n; i++) {
			bool decay = i < r.g->shard_decay[s];
			double g = scale * grad[s][i];
			assert_true(fabs(after[i] - stepped(before[s][i], g, &how, decay)) < 1e-12);
			assert_true(fabs(m[i] - 0.1 * g) < 1e-15);
		}
		free(after);
		free(m);
		free(before[s]);
		free(grad[s]);
	}
	rig_release(&r);
}

static void a_step_is_adamw(void **state)
{
	(void)state;
	check_step(0);
}

/* Each shard by its own norm: no peer needs to know another's. */
static void each_shard_is_clipped_by_its_own_norm(void **state)
{
	(void)state;
	check_step(0.05);
	check_step(1e6);
}

/* After a step the gradient starts anew; where nothing is added it is zero, not the last one. */
static void a_step_without_gradient_only_decays(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct rig r = rig_make(backend_at(b)->name);
		double norms[2];
		train(&r);
		params_drop_grad(r.p);
		double *before = help_kernels_part(&r.k, r.p, 0, PARAMS_value);
		assert_int_equal(params_adamw(r.p, &adamw, norms, NULL), ERR_OK);
		assert_true(norms[0] == 0 && norms[1] == 0);
		double *after = help_kernels_part(&r.k, r.p, 0, PARAMS_value);
		for (uint64_t i = 0; i < params_count(r.p, 0); i++) {
			bool decay = i < r.g->shard_decay[0];
			double must = before[i] * (decay ? 1 - 1e-3 : 1);
			assert_true(fabs(after[i] - must) <= 1e-7 * fabs(must));
		}
		free(before);
		free(after);
		rig_release(&r);
	}
}

static void gradients_add_up_until_the_step(void **state)
{
	(void)state;
	struct rig r = rig_make("ref64");
	uint64_t n = params_count(r.p, 0);
	train(&r);
	double *once = help_kernels_part(&r.k, r.p, 0, PARAMS_grad);
	train(&r);
	double *twice = help_kernels_part(&r.k, r.p, 0, PARAMS_grad);
	for (uint64_t i = 0; i < n; i++)
		once[i] *= 2;
	assert_true(help_kernels_distance(twice, once, n) < 1e-14);
	struct params_step still = adamw;
	still.lr = 0;
	assert_int_equal(params_adamw(r.p, &still, NULL, NULL), ERR_OK);
	train(&r);
	double *again = help_kernels_part(&r.k, r.p, 0, PARAMS_grad);
	for (uint64_t i = 0; i < n; i++)
		again[i] *= 2;
	assert_true(help_kernels_distance(again, once, n) < 1e-14);
	free(once);
	free(twice);
	free(again);
	rig_release(&r);
}

static void a_bad_gradient_changes_nothing(void **state)
{
	(void)state;
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	for (size_t b = 0; backend_at(b); b++)
		for (size_t i = 0; i < 3; i++) {
			struct rig r = rig_make(backend_at(b)->name);
			struct why why = {0};
			double norms[2];
			train(&r);
			params_write(r.p, 1, PARAMS_grad, 7, 1, &bad[i]);
			double *before = help_kernels_part(&r.k, r.p, 0, PARAMS_value);
			assert_int_equal(params_adamw(r.p, &adamw, norms, &why), ERR_not_finite);
			assert_non_null(
				strstr(why.text, "gradient of shard 1 is not finite at step 1"));
			assert_true(isfinite(norms[0]) && !isfinite(norms[1]));
			double *after = help_kernels_part(&r.k, r.p, 0, PARAMS_value);
			assert_memory_equal(before, after, params_count(r.p, 0) * sizeof *after);
			train(&r);
			assert_int_equal(params_adamw(r.p, &adamw, norms, &why), ERR_OK);
			free(before);
			free(after);
			rig_release(&r);
		}
}

/* ---- refusals */

/* A step that is broken off leaves the running statistics alone; nothing but them is put back. */
static void buffers_are_put_back(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct help_kernels k = help_kernels_open(backend_at(b)->name);
		struct graph *g = help_graph_images(3);
		struct params *p = help_kernels_params(&k, g, NULL, 0, 4);
		struct exec *x = help_kernels_exec(g, p, EXEC_train);
		void *images = help_kernels_images(&k, g, 5);
		const int32_t targets[] = {0, 4, 2};
		const struct exec_batch batch = {.images = images, .targets = targets};
		for (uint32_t s = 0; s < 2; s++)
			assert_true(g->shard_params[s] > g->shard_trained[s]);
		for (uint32_t s = 0; s < 2; s++) {
			uint64_t n = params_count(p, s), trained = g->shard_trained[s];
			double *before = help_kernels_part(&k, p, s, PARAMS_value);
			params_keep_buffers(p);
			assert_int_equal(exec_whole(x, &batch, NULL, NULL), ERR_OK);
			double *moved = help_kernels_part(&k, p, s, PARAMS_value);
			assert_memory_equal(before, moved, trained * sizeof *before);
			assert_memory_not_equal(
				before + trained, moved + trained, (n - trained) * sizeof *before);
			assert_int_equal(params_adamw(p, &adamw, NULL, NULL), ERR_OK);
			params_restore_buffers(p);
			double *after = help_kernels_part(&k, p, s, PARAMS_value);
			assert_memory_equal(
				before + trained, after + trained, (n - trained) * sizeof *before);
			assert_memory_not_equal(before, after, trained * sizeof *before);
			free(before);
			free(moved);
			free(after);
		}
		free(images);
		exec_free(x);
		params_free(p);
		graph_free(g);
		help_kernels_close(&k);
	}
}

static void wrong_lists_are_refused(void **state)
{
	(void)state;
	struct rig r = rig_make("ref");
	static const uint32_t lists[][2] = {{0, 2}, {1, 0}, {1, 1}};
	for (size_t i = 0; i < 3; i++) {
		const struct params_config config = {.backend = r.k.backend,
			.device = r.k.device,
			.graph = r.g,
			.shards = lists[i],
			.n_shards = 2};
		struct params *p = NULL;
		struct why why = {0};
		assert_int_equal(params_new(&config, &p, &why), ERR_range);
		assert_non_null(strstr(why.text, "must be ascending and below 2"));
		assert_null(p);
	}
	rig_release(&r);
}

static void backends_are_found_by_name(void **state)
{
	(void)state;
	size_t n = 0;
	for (; backend_at(n); n++)
		assert_ptr_equal(backend_find(backend_at(n)->name), backend_at(n));
	assert_true(n >= 3);
	assert_null(backend_find("abacus"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(initial_values_are_the_graphs),
		cmocka_unit_test(a_step_is_adamw),
		cmocka_unit_test(each_shard_is_clipped_by_its_own_norm),
		cmocka_unit_test(a_step_without_gradient_only_decays),
		cmocka_unit_test(gradients_add_up_until_the_step),
		cmocka_unit_test(a_bad_gradient_changes_nothing),
		cmocka_unit_test(buffers_are_put_back),
		cmocka_unit_test(wrong_lists_are_refused),
		cmocka_unit_test(backends_are_found_by_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
