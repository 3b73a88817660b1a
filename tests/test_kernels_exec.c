/* The executor on one peer: micro-batches add up, the cache stands for the past, and what is
 * refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "tests/help_graph.h"
#include "tests/help_kernels.h"
#include "tests/help_ops.h"

static void told(const struct why *why, enum err code, const char *part)
{
	assert_int_equal(why->code, code);
	if (!strstr(why->text, part))
		fail_msg("\"%s\" does not say \"%s\"", why->text, part);
}

enum { SEED = 3 };

struct rig {
	struct help_kernels k;
	struct model_config m;
	struct graph *g;
	struct params *p;
	int32_t *tokens, *targets;
	struct exec_batch batch;
};

static struct rig rig_make(const char *backend, uint32_t batch, uint32_t seq)
{
	struct rig r = {.k = help_kernels_open(backend), .m = help_graph_config(2, true)};
	r.g = help_graph_build(&r.m, batch, seq);
	r.p = help_kernels_params(&r.k, r.g, NULL, 0, SEED);
	r.tokens = help_kernels_tokens(r.g, 5);
	r.targets = help_kernels_tokens(r.g, 6);
	r.batch = (struct exec_batch){.tokens = r.tokens, .targets = r.targets};
	return r;
}

static void rig_release(struct rig *r)
{
	free(r->tokens);
	free(r->targets);
	params_free(r->p);
	graph_free(r->g);
	help_kernels_close(&r->k);
}

/* A batch of four sequences in pieces of one and two, each part of the mean over all rows. */
static void micro_batches_add_up_to_the_batch(void **state)
{
	(void)state;
	struct rig r = rig_make("ref64", 4, 7);
	r.targets[3] = r.targets[20] = -1;
	double loss, sum = 0;
	struct exec *x = help_kernels_exec(r.g, r.p, EXEC_train);
	assert_int_equal(exec_whole(x, &r.batch, &loss, NULL), ERR_OK);
	double *must[2], *is[2];
	for (uint32_t s = 0; s < 2; s++)
		must[s] = help_kernels_part(&r.k, r.p, s, PARAMS_grad);
	params_drop_grad(r.p);
	for (uint32_t at = 0, n; at < 4; at += n) {
		n = at == 2 ? 2 : 1;
		struct graph *g = help_graph_build(&r.m, n, 7);
		struct exec *part = help_kernels_exec(g, r.p, EXEC_train);
		const struct exec_batch batch = {.tokens = r.tokens + 7 * at,
			.targets = r.targets + 7 * at,
			.loss_rows = 26};
		double share;
		assert_int_equal(exec_whole(part, &batch, &share, NULL), ERR_OK);
		sum += share;
		exec_free(part);
		graph_free(g);
	}
	assert_true(fabs(sum - loss) < 1e-12);
	for (uint32_t s = 0; s < 2; s++) {
		is[s] = help_kernels_part(&r.k, r.p, s, PARAMS_grad);
		assert_true(help_kernels_distance(is[s], must[s], params_count(r.p, s)) < 1e-12);
		free(is[s]);
		free(must[s]);
	}
	exec_free(x);
	rig_release(&r);
}

/* Validation and generation share the parameters of training, and see what it sees. */
static void all_modes_agree(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct rig r = rig_make(backend_at(b)->name, 2, 6);
		size_t size = 2 * 6 * 23 * r.k.backend->real_size;
		void *here = alloc_must(size), *there = alloc_must(size);
		double trained, valued, untouched = 17;
		struct exec *train = help_kernels_exec(r.g, r.p, EXEC_train),
			    *loss = help_kernels_exec(r.g, r.p, EXEC_loss),
			    *logits = help_kernels_exec(r.g, r.p, EXEC_logits);
		assert_int_equal(exec_whole(train, &r.batch, &trained, NULL), ERR_OK);
		assert_int_equal(exec_whole(loss, &r.batch, &valued, NULL), ERR_OK);
		assert_memory_equal(&trained, &valued, sizeof valued);
		struct exec_batch looked_at = r.batch;
		looked_at.evaluate = true;
		assert_int_equal(exec_whole(train, &looked_at, &trained, NULL), ERR_OK);
		assert_memory_equal(&trained, &valued, sizeof valued);
		const struct exec_batch batch = {.tokens = r.tokens};
		assert_int_equal(exec_whole(logits, &batch, &untouched, NULL), ERR_OK);
		assert_true(untouched == 17);
		exec_get(loss, r.g->logits, 0, 2 * 6 * 23, here);
		exec_get(logits, r.g->logits, 0, 2 * 6 * 23, there);
		assert_memory_equal(here, there, size);
		assert_true(exec_bytes(logits) <= exec_bytes(loss));
		assert_true(exec_bytes(loss) < exec_bytes(train));
		for (int mode = EXEC_train; mode <= EXEC_logits; mode++) {
			struct exec *x = help_kernels_exec(r.g, r.p, (enum exec_mode)mode);
			uint64_t need = 0;
			assert_int_equal(
				exec_need(r.k.backend, r.g, (enum exec_mode)mode, &need, NULL),
				ERR_OK);
			assert_int_equal(need, exec_bytes(x));
			exec_free(x);
		}
		free(here);
		free(there);
		exec_free(train);
		exec_free(loss);
		exec_free(logits);
		rig_release(&r);
	}
}

/* Logits of the last rows, as doubles. */
static double *rows_of(const struct rig *r, struct exec *x, const struct graph *g, uint64_t first)
{
	uint64_t n = shape_count(&g->tensors[g->logits].shape) - first * 23;
	void *raw = alloc_must_zero(n, r->k.backend->real_size);
	double *wide = alloc_must_zero(n, sizeof *wide);
	exec_get(x, g->logits, first * 23, n, raw);
	for (uint64_t i = 0; i < n; i++) {
		float narrow;
		if (r->k.backend->real_size == sizeof *wide) {
			memcpy(&wide[i], (char *)raw + i * sizeof *wide, sizeof *wide);
			continue;
		}
		memcpy(&narrow, (char *)raw + i * sizeof narrow, sizeof narrow);
		wide[i] = (double)narrow;
	}
	free(raw);
	return wide;
}

/* A prompt of five tokens, then one at a time, against all twelve at once. */
static void the_cache_stands_for_the_past(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct rig r = rig_make(backend_at(b)->name, 1, 12);
		double bound = r.k.backend->real_size == sizeof(double) ? 1e-14 : 1e-6;
		struct graph *prompt = help_graph_build(&r.m, 1, 5),
			     *one = help_graph_build(&r.m, 1, 1);
		struct exec *all = help_kernels_exec(r.g, r.p, EXEC_logits),
			    *first = help_kernels_exec(prompt, r.p, EXEC_logits),
			    *next = help_kernels_exec(one, r.p, EXEC_logits);
		struct kvcache *cache = NULL;
		assert_int_equal(kvcache_new(r.k.backend, r.k.device, one, 14, &cache, NULL), 0);
		struct exec_batch batch = {.tokens = r.tokens};
		assert_int_equal(exec_whole(all, &batch, NULL, NULL), ERR_OK);
		double *must = rows_of(&r, all, r.g, 0);
		batch.cache = cache;
		assert_int_equal(exec_whole(first, &batch, NULL, NULL), ERR_OK);
		double *is = rows_of(&r, first, prompt, 4);
		assert_true(help_kernels_distance(is, must + 4 * 23, 23) < bound);
		free(is);
		for (uint32_t t = 5; t < 12; t++) {
			batch.tokens = r.tokens + t;
			batch.past = t;
			assert_int_equal(exec_whole(next, &batch, NULL, NULL), ERR_OK);
			is = rows_of(&r, next, one, 0);
			assert_true(help_kernels_distance(is, must + t * 23, 23) < bound);
			free(is);
		}
		free(must);
		kvcache_free(cache);
		exec_free(all);
		exec_free(first);
		exec_free(next);
		graph_free(prompt);
		graph_free(one);
		rig_release(&r);
	}
}

/* ---- gradients in the place of values */

/* One op's backward on made-up numbers, the gradients of over_in apart from the inputs or in their
 * place; they come out in grads, one after the other. */
static void backward_of(
	const struct help_kernels *k, const struct graph *g, bool over, double *grads)
{
	const struct node *n = &g->nodes[0];
	const struct op_def *def = op_def(n->op);
	struct kernel_call c = {.graph = g, .node = n};
	uint64_t size[NODE_IN_MAX];
	for (uint32_t i = 0; i < n->n_in; i++) {
		size[i] = shape_count(&g->tensors[n->in[i]].shape);
		c.in[i] = help_kernels_alloc(k, size[i]);
		double *x = alloc_must_zero(size[i], sizeof *x);
		for (uint64_t j = 0; j < size[i]; j++)
			x[j] = (double)rng_normal(i, 1, j);
		/* Tokens: zeros, but for one that is not counted. */
		if (def->token_in >> i & 1)
			k->backend->write(k->device, c.in[i].mem, 4, &(int32_t){-1}, 4);
		else
			help_kernels_write(k, c.in[i], size[i], x);
		free(x);
	}
	uint64_t count = shape_count(&g->tensors[n->out].shape);
	c.out = help_kernels_alloc(k, count);
	if (def->saved)
		c.saved = help_kernels_alloc(k, def->saved(g, n));
	k->backend->run(k->device, &c);
	c.backward = true;
	c.grad_out = c.out; /* as good numbers as any */
	for (uint32_t i = 0; i < n->n_in; i++)
		if (def->over_in >> i & 1)
			c.grad_in[i] = over ? c.in[i] : help_kernels_alloc(k, size[i]);
	k->backend->run(k->device, &c);
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (c.grad_in[i].mem) {
			help_kernels_read(k, c.grad_in[i], size[i], grads);
			grads += size[i];
		}
		if (!over)
			k->backend->free(k->device, c.grad_in[i].mem);
		k->backend->free(k->device, c.in[i].mem);
	}
	k->backend->free(k->device, c.out.mem);
	k->backend->free(k->device, c.saved.mem);
}

static void gradients_may_take_the_place_of_values(void **state)
{
	(void)state;
	const struct help_dims dims = {.batch = 3, .seq = 5, .width = 6, .heads = 1, .vocab = 37};
	uint32_t tried = 0;
	for (size_t b = 0; backend_at(b); b++) {
		struct help_kernels k = help_kernels_open(backend_at(b)->name);
		for (enum op op = OP_none + 1; op < OP_COUNT; op++) {
			if (!op_def(op)->over_in)
				continue;
			struct graph *g = help_ops_graph(op, &dims);
			double apart[1110] = {0}, over[1110] = {0}; /* 2 * 15 * 37 at most */
			backward_of(&k, g, false, apart);
			backward_of(&k, g, true, over);
			assert_memory_equal(apart, over, sizeof over);
			assert_true(over[0] != 0);
			graph_free(g);
			tried++;
		}
		help_kernels_close(&k);
	}
	assert_true(tried >= 9);
}

/* ---- values made again */

/* Both ways from the same start: loss, gradients and running statistics. */
static void same_when_recomputed(
	const struct help_kernels *k, const struct graph *g, const struct exec_batch *batch)
{
	double loss[2], *part[2][2];
	uint64_t bytes[2];
	for (int again = 0; again < 2; again++) {
		struct params *p = help_kernels_params(k, g, NULL, 0, SEED);
		struct exec *x = help_kernels_exec(g, p, again ? EXEC_recompute : EXEC_train);
		bytes[again] = exec_bytes(x);
		for (int step = 0; step < 2; step++)
			assert_int_equal(exec_whole(x, batch, &loss[again], NULL), ERR_OK);
		part[again][0] = help_kernels_part(k, p, g->n_shards - 1, PARAMS_grad);
		part[again][1] = help_kernels_part(k, p, g->n_shards - 1, PARAMS_value);
		if (again) {
			uint64_t n = params_count(p, g->n_shards - 1);
			assert_memory_equal(&loss[0], &loss[1], sizeof *loss);
			for (int i = 0; i < 2; i++)
				assert_memory_equal(part[0][i], part[1][i], n * sizeof(double));
			assert_true(bytes[1] <= bytes[0]);
		}
		exec_free(x);
		params_free(p);
	}
	for (int i = 0; i < 4; i++)
		free(part[i / 2][i % 2]);
}

static void recomputing_changes_no_bit(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct rig r = rig_make(backend_at(b)->name, 2, 6);
		same_when_recomputed(&r.k, r.g, &r.batch);
		for (uint64_t seed = 0; seed < 30; seed++) {
			struct graph *g = help_graph_random(seed, 4);
			int32_t *tokens = help_kernels_tokens(g, seed);
			same_when_recomputed(
				&r.k, g, &(struct exec_batch){.tokens = tokens, .targets = tokens});
			free(tokens);
			graph_free(g);
		}
		struct graph *g = help_graph_images(3);
		void *images = help_kernels_images(&r.k, g, 5);
		const int32_t targets[] = {0, 4, 2};
		same_when_recomputed(
			&r.k, g, &(struct exec_batch){.images = images, .targets = targets});
		free(images);
		graph_free(g);
		rig_release(&r);
	}
}

/* ---- images and running statistics */

/* The loss of four images; the targets of the last are counted or not. */
static double loss_of(const struct graph *g, struct params *p, enum exec_mode mode,
	const void *images, int32_t last)
{
	const int32_t targets[] = {1, 0, 4, last};
	/* A training executor evaluates as well. */
	const struct exec_batch batch = {
		.images = images, .targets = targets, .evaluate = mode == EXEC_recompute};
	double loss;
	struct exec *x = help_kernels_exec(g, p, mode);
	assert_int_equal(exec_whole(x, &batch, &loss, NULL), ERR_OK);
	exec_free(x);
	return loss;
}

/* In training an image that is not counted weighs in by the batch's statistics and moves the
 * running ones; in evaluation it does neither. */
static void images_are_trained_on_and_evaluated(void **state)
{
	(void)state;
	for (size_t b = 0; backend_at(b); b++) {
		struct help_kernels k = help_kernels_open(backend_at(b)->name);
		struct graph *g = help_graph_images(4);
		struct params *p = help_kernels_params(&k, g, NULL, 0, SEED);
		char *images = help_kernels_images(&k, g, 1),
		     *other = help_kernels_images(&k, g, 1);
		size_t each = 2 * 6 * 5 * k.backend->real_size;
		memcpy(other + 3 * each, images, each);
		double *before = help_kernels_part(&k, p, 1, PARAMS_value);
		double a = loss_of(g, p, EXEC_loss, images, -1);
		double c = loss_of(g, p, EXEC_loss, other, -1);
		assert_true(a == c);
		assert_true(a != loss_of(g, p, EXEC_loss, images, 3));
		assert_true(a == loss_of(g, p, EXEC_recompute, images, -1));
		double *after = help_kernels_part(&k, p, 1, PARAMS_value);
		uint64_t n = params_count(p, 1), trained = g->shard_trained[1];
		assert_memory_equal(before, after, n * sizeof *after);
		free(after);
		a = loss_of(g, p, EXEC_train, images, -1);
		c = loss_of(g, p, EXEC_train, other, -1);
		assert_true(a != c);
		after = help_kernels_part(&k, p, 1, PARAMS_value);
		assert_memory_equal(before, after, trained * sizeof *after);
		assert_memory_not_equal(
			before + trained, after + trained, (n - trained) * sizeof *after);
		free(before);
		free(after);
		free(images);
		free(other);
		params_free(p);
		graph_free(g);
		help_kernels_close(&k);
	}
}

/* ---- refusals */

static void wrong_batches_are_refused(void **state)
{
	(void)state;
	struct rig r = rig_make("ref", 1, 4);
	struct why why = {0};
	double loss;
	struct exec *x = help_kernels_exec(r.g, r.p, EXEC_train);
	r.tokens[2] = 23;
	assert_int_equal(exec_whole(x, &r.batch, &loss, &why), ERR_range);
	told(&why, ERR_range,
		"token 23 at place 2 of the batch: the vocabulary of this model ends at 22");
	r.tokens[2] = -1;
	assert_int_equal(exec_whole(x, &r.batch, &loss, &why), ERR_range);
	told(&why, ERR_range, "token -1 at place 2");
	r.tokens[2] = 22;
	r.targets[3] = 23;
	assert_int_equal(exec_whole(x, &r.batch, &loss, &why), ERR_range);
	told(&why, ERR_range, "token 23 at place 3");
	r.targets[3] = -5;
	assert_int_equal(exec_whole(x, &r.batch, &loss, &why), ERR_OK);
	exec_free(x);
	x = help_kernels_exec(r.g, r.p, EXEC_logits);
	struct kvcache *cache = NULL;
	assert_int_equal(kvcache_new(r.k.backend, r.k.device, r.g, 20, &cache, NULL), ERR_OK);
	struct exec_batch batch = {.tokens = r.tokens, .cache = cache, .past = 13};
	assert_int_equal(exec_whole(x, &batch, NULL, &why), ERR_range);
	told(&why, ERR_range, "4 tokens after 13: the model's context holds 16");
	batch.past = 17;
	assert_int_equal(exec_whole(x, &batch, NULL, &why), ERR_range);
	told(&why, ERR_range, "4 tokens after 17: the cache holds 20");
	batch.past = UINT32_MAX;
	assert_int_equal(exec_whole(x, &batch, NULL, &why), ERR_range);
	batch.past = 0;
	assert_int_equal(exec_whole(x, &batch, NULL, &why), ERR_OK);
	kvcache_free(cache);
	exec_free(x);
	rig_release(&r);
}

static void refuses(const struct graph *g, struct params *p, enum exec_mode mode, enum err code,
	const char *part)
{
	struct exec *x = NULL;
	struct why why = {0};
	assert_int_equal(exec_new(g, p, mode, &x, &why), code);
	told(&why, code, part);
	assert_null(x);
}

static bool no_gelu(const struct device *d, const struct graph *g, const struct node *n)
{
	(void)d;
	(void)g;
	return n->op != OP_gelu;
}

static void wrong_executors_are_refused(void **state)
{
	(void)state;
	struct rig r = rig_make("ref", 2, 4);
	struct params *tail = help_kernels_params(&r.k, r.g, (const uint32_t[]){1}, 1, SEED);
	refuses(r.g, tail, EXEC_train, ERR_refused, "shard 1 needs wte.weight of shard 0");
	params_free(tail);
	struct model_config untied = help_graph_config(2, false);
	struct graph *other = help_graph_build(&untied, 2, 4);
	refuses(other, r.p, EXEC_train, ERR_shape, "is not what the parameters were made for");
	graph_free(other);
	struct backend poor = *r.k.backend;
	poor.supports = no_gelu;
	struct params_config config = {.backend = &poor, .device = r.k.device, .graph = r.g};
	struct params *p = NULL;
	assert_int_equal(params_new(&config, &p, NULL), ERR_OK);
	refuses(r.g, p, EXEC_train, ERR_state, "made for inference");
	refuses(r.g, p, EXEC_loss, ERR_unsupported, "the backend ref does not do gelu.");
	params_free(p);
	rig_release(&r);
}

static enum err no_memory(struct device *d, size_t bytes, struct mem **out)
{
	(void)d;
	(void)bytes;
	(void)out;
	return ERR_nomem;
}

/* Sizes come from outside: what the device does not have is refused, and what no integer holds. */
static void too_much_is_refused(void **state)
{
	(void)state;
	struct rig r = rig_make("ref", 1, 1);
	struct graph *wide = help_graph_build(&r.m, UINT32_MAX, 1);
	struct kvcache *cache = NULL;
	struct why why = {0};
	assert_int_equal(
		kvcache_new(r.k.backend, r.k.device, wide, UINT32_MAX, &cache, &why), ERR_nomem);
	told(&why, ERR_nomem, "4294967295 sequences of 4294967295 tokens");
	graph_free(wide);
	struct backend full = *r.k.backend;
	full.alloc = no_memory;
	assert_int_equal(kvcache_new(&full, r.k.device, r.g, 16, &cache, &why), ERR_nomem);
	assert_null(cache);
	struct params_config config = {.backend = &full, .device = r.k.device, .graph = r.g};
	struct params *p = NULL;
	assert_int_equal(params_new(&config, &p, &why), ERR_nomem);
	told(&why, ERR_nomem, "MiB on the ref device; hold fewer shards or free memory");
	struct backend filling = *r.k.backend;
	config.backend = &filling;
	assert_int_equal(params_new(&config, &p, &why), ERR_OK);
	filling.alloc = no_memory;
	refuses(r.g, p, EXEC_loss, ERR_nomem, "take a smaller one (train.micro_batch)");
	params_free(p);
	rig_release(&r);
}

static void a_graph_with_other_inputs_is_refused(void **state)
{
	(void)state;
	struct help_kernels k = help_kernels_open("ref");
	struct graph *g = graph_new(1, 2);
	struct shape s = shape_make(3, 1, 2, 3, 1);
	uint32_t image = graph_input(g, "image", &s, DTYPE_real);
	g->logits = graph_node(g, 0, OP_gelu, &image, 1, NULL);
	assert_int_equal(graph_finish(g, NULL), ERR_OK);
	struct params *p = help_kernels_params(&k, g, NULL, 0, 1);
	refuses(g, p, EXEC_logits, ERR_unsupported, "input image of the graph");
	refuses(g, p, EXEC_loss, ERR_state, "no loss");
	params_free(p);
	graph_free(g);
	help_kernels_close(&k);
}

/* Every allocation failed in turn: a sentence, nothing leaked (the sanitizer sees), and the next
 * try works. */
static void making_survives_a_lack_of_memory(void **state)
{
	(void)state;
	struct rig r = rig_make("ref", 2, 4);
	const struct params_config config = {
		.backend = r.k.backend, .device = r.k.device, .graph = r.g, .training = true};
	long n = 1;
	for (enum err e = ERR_nomem; e; n++) {
		struct params *p = NULL;
		struct exec *x = NULL;
		struct kvcache *c = NULL;
		struct why why = {0};
		alloc_fail_at(n);
		e = params_new(&config, &p, &why);
		if (!e)
			e = exec_new(r.g, p, EXEC_train, &x, &why);
		if (!e)
			e = kvcache_new(r.k.backend, r.k.device, r.g, 9, &c, &why);
		alloc_fail_at(0);
		if (e)
			told(&why, ERR_nomem, "out of memory");
		kvcache_free(c);
		exec_free(x);
		params_free(p);
	}
	assert_true(n > 30);
	rig_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(micro_batches_add_up_to_the_batch),
		cmocka_unit_test(all_modes_agree),
		cmocka_unit_test(the_cache_stands_for_the_past),
		cmocka_unit_test(gradients_may_take_the_place_of_values),
		cmocka_unit_test(recomputing_changes_no_bit),
		cmocka_unit_test(images_are_trained_on_and_evaluated),
		cmocka_unit_test(wrong_batches_are_refused),
		cmocka_unit_test(wrong_executors_are_refused),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(a_graph_with_other_inputs_is_refused),
		cmocka_unit_test(making_survives_a_lack_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
