/* The trainer: the same bits for any number of threads, micro-batches that add up to the batch,
 * states that come back exactly, and failures that leave everything as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "tests/help_peer.h"

static const enum params_part parts[] = {PARAMS_value, PARAMS_m, PARAMS_v};
#define N_PARTS (sizeof parts / sizeof *parts)

static struct why why;

static void fine(enum err e)
{
	help_peer_fine(e, &why);
}

static struct trainer *make(const struct help_peer *p, unsigned threads)
{
	struct trainer_config how = {.spec = p->spec,
		.corpus = p->data.corpus,
		.training = true,
		.backend = "cpu",
		.threads = threads};
	struct trainer *t = NULL;
	fine(trainer_new(&how, &t, &why));
	return t;
}

static double step(struct trainer *t, uint64_t number)
{
	const uint64_t first = 4 * number, sequences[] = {first, first + 1, first + 2, first + 3};
	double loss = -1;
	fine(trainer_step(t, sequences, 0.01, &loss, &why));
	return loss;
}

static float *part(struct trainer *t, uint32_t shard, enum params_part which)
{
	float *v = alloc_must_zero(trainer_count(t, shard), sizeof *v);
	trainer_read(t, shard, which, v);
	return v;
}

static void same(struct trainer *a, struct trainer *b)
{
	assert_int_equal(trainer_steps(a), trainer_steps(b));
	for (uint32_t s = 0; s < trainer_shards(a); s++) {
		for (size_t k = 0; k < N_PARTS; k++) {
			float *x = part(a, s, parts[k]), *y = part(b, s, parts[k]);
			assert_memory_equal(x, y, trainer_count(a, s) * sizeof *x);
			free(x);
			free(y);
		}
	}
}

static double distance(struct trainer *a, struct trainer *b)
{
	double sum = 0, norm = 0;
	for (uint32_t s = 0; s < trainer_shards(a); s++) {
		float *x = part(a, s, PARAMS_value), *y = part(b, s, PARAMS_value);
		for (size_t i = 0; i < trainer_count(a, s); i++) {
			sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
			norm += (double)y[i] * y[i];
		}
		free(x);
		free(y);
	}
	return sqrt(sum / norm);
}

/* ---- bits */

static void threads_do_not_matter(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, NULL);
	struct trainer *one = make(&p, 1);
	for (unsigned threads = 2; threads <= 5; threads += 3) {
		struct trainer *many = make(&p, threads);
		trainer_free(one);
		one = make(&p, 1);
		for (uint64_t i = 0; i < 4; i++)
			assert_true(step(one, i) == step(many, i));
		same(one, many);
		trainer_free(many);
	}
	trainer_free(one);
	help_peer_release(&p);
}

static void micro_batches_add_up_to_the_batch(void **state)
{
	(void)state;
	static const char *const sizes[] = {
		"train.micro_batch=4", "train.micro_batch=2", "train.micro_batch=1"};
	struct help_peer p[3];
	struct trainer *t[3];
	for (size_t i = 0; i < 3; i++) {
		const char *const changes[] = {sizes[i], NULL};
		help_peer_open(&p[i], changes);
		t[i] = make(&p[i], 1);
	}
	for (uint64_t n = 0; n < 5; n++) {
		double whole = step(t[0], n);
		for (size_t i = 1; i < 3; i++)
			assert_true(fabs(step(t[i], n) - whole) < 1e-5 * whole);
	}
	for (size_t i = 1; i < 3; i++)
		assert_true(distance(t[i], t[0]) < 1e-4);
	for (size_t i = 0; i < 3; i++) {
		trainer_free(t[i]);
		help_peer_release(&p[i]);
	}
}

static void training_lowers_the_loss(void **state)
{
	(void)state;
	struct help_peer p;
	struct trainer_validation before, after;
	help_peer_open(&p, NULL);
	struct trainer *t = make(&p, 1);
	fine(trainer_validate(t, 0, &before, &why));
	for (uint64_t i = 0; i < 60; i++)
		step(t, i);
	fine(trainer_validate(t, 0, &after, &why));
	assert_true(fabs(before.per_token - log(256)) < 0.1);
	assert_true(after.per_token < before.per_token - 1.5);
	assert_true(fabs(after.per_byte - after.per_token) < 1e-12); /* a token is a byte here */
	trainer_free(t);
	help_peer_release(&p);
}

/* ---- saving */

static struct statefile *save(struct trainer *t, const char *name, bool values)
{
	json_t *meta = json_object();
	const struct hash run = {{1}};
	struct statefile_head head = {.kind = "local", .run = run, .meta = meta};
	struct statefile_out *out;
	struct statefile *file;
	fine(statefile_create(help_peer_path(name), &head, &out, &why));
	fine(trainer_save(t, out, values, &why));
	fine(statefile_commit(out, &why));
	json_decref(meta);
	fine(statefile_open(help_peer_path(name), "local", &run, &file, &why));
	return file;
}

static void a_saved_state_goes_on_exactly(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, NULL);
	struct trainer *a = make(&p, 1), *b = make(&p, 1);
	for (uint64_t i = 0; i < 3; i++)
		step(a, i);
	struct statefile *file = save(a, "state", true);
	fine(trainer_load(b, file, true, trainer_steps(a), &why));
	same(a, b);
	for (uint64_t i = 3; i < 6; i++)
		assert_true(step(a, i) == step(b, i));
	same(a, b);
	/* parameters alone: the moments stay what they were, until they are forgotten */
	fine(trainer_load(b, file, false, 0, &why));
	float *m = part(b, 0, PARAMS_m), *kept = part(a, 0, PARAMS_m);
	assert_memory_equal(m, kept, trainer_count(a, 0) * sizeof *m);
	free(m);
	free(kept);
	trainer_forget_moments(b);
	assert_int_equal(trainer_steps(b), 0);
	for (uint32_t s = 0; s < trainer_shards(b); s++) {
		for (size_t k = 1; k < N_PARTS; k++) {
			float *v = part(b, s, parts[k]);
			for (size_t i = 0; i < trainer_count(b, s); i++)
				assert_true(v[i] == 0);
			free(v);
		}
	}
	statefile_close(file);
	trainer_free(a);
	trainer_free(b);
	help_peer_release(&p);
}

static void a_state_without_what_is_asked_for_is_refused(void **state)
{
	(void)state;
	struct help_peer p, q;
	static const char *const wider[] = {"model.width=32", NULL};
	help_peer_open(&p, NULL);
	help_peer_open(&q, wider);
	struct trainer *t = make(&p, 1), *other = make(&q, 1);
	struct statefile *moments = save(t, "moments", false), *large = save(other, "large", true);
	assert_int_equal(trainer_load(t, moments, true, 0, &why), ERR_missing);
	help_peer_told(&why, ERR_missing, "param.0");
	assert_int_equal(trainer_load(t, large, true, 0, &why), ERR_shape);
	statefile_close(moments);
	statefile_close(large);
	trainer_free(t);
	trainer_free(other);
	help_peer_release(&p);
	help_peer_release(&q);
}

/* ---- failures */

/* A gradient that is no number is dropped; nothing else has happened. */
static void what_is_not_finite_is_refused(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, NULL);
	struct trainer *t = make(&p, 1), *calm = make(&p, 1);
	const uint64_t sequences[] = {4, 5, 6, 7};
	double loss;
	step(t, 0);
	step(calm, 0);
	float *good = part(t, 1, PARAMS_value), *bad = part(t, 1, PARAMS_value);
	bad[trainer_count(t, 1) / 2] = INFINITY;
	trainer_write(t, 1, PARAMS_value, bad);
	assert_int_equal(trainer_step(t, sequences, 0.01, &loss, &why), ERR_not_finite);
	float *after = part(t, 1, PARAMS_value);
	assert_memory_equal(after, bad, trainer_count(t, 1) * sizeof *bad);
	trainer_write(t, 1, PARAMS_value, good);
	same(t, calm);
	step(t, 1);
	step(calm, 1);
	same(t, calm);
	free(good);
	free(bad);
	free(after);
	trainer_free(t);
	trainer_free(calm);
	help_peer_release(&p);
}

/* Lets so many micro-batches pass. */
static bool after_some(void *arg)
{
	return (*(unsigned *)arg)-- == 0;
}

static void a_step_that_is_broken_off_did_not_happen(void **state)
{
	(void)state;
	struct help_peer p;
	struct trainer_validation v;
	unsigned pass = 1;
	help_peer_open(&p, NULL);
	struct trainer_config how = {.spec = p.spec,
		.corpus = p.data.corpus,
		.training = true,
		.backend = "cpu",
		.threads = 1,
		.stop = after_some,
		.arg = &pass};
	struct trainer *t = NULL, *calm = make(&p, 1);
	fine(trainer_new(&how, &t, &why));
	const uint64_t sequences[] = {0, 1, 2, 3};
	double loss;
	assert_int_equal(trainer_step(t, sequences, 0.01, &loss, &why), ERR_interrupted);
	same(t, calm);
	pass = 3;
	assert_int_equal(trainer_validate(t, 0, &v, &why), ERR_interrupted);
	pass = 1000;
	assert_true(step(t, 0) == step(calm, 0));
	same(t, calm);
	trainer_free(t);
	trainer_free(calm);
	help_peer_release(&p);
}

/* Takes shard 1's gradient away, unless it is to fail. */
static enum err take_gradient(void *arg, struct params *params, struct why *w)
{
	if (*(bool *)arg)
		return err_why(w, ERR_closed, "nobody is there");
	float *zero = alloc_must_zero(params_count(params, 1), sizeof *zero);
	params_write(params, 1, PARAMS_grad, 0, params_count(params, 1), zero);
	free(zero);
	return ERR_OK;
}

static bool all_zero(struct trainer *t, uint32_t shard)
{
	float *m = part(t, shard, PARAMS_m), sum = 0;
	for (uint64_t i = 0; i < trainer_count(t, shard); i++)
		sum += fabsf(m[i]);
	free(m);
	return sum == 0;
}

static void gradients_may_be_changed_before_the_step(void **state)
{
	(void)state;
	struct help_peer p;
	bool fails = true;
	help_peer_open(&p, NULL);
	struct trainer_config how = {.spec = p.spec,
		.corpus = p.data.corpus,
		.training = true,
		.backend = "cpu",
		.threads = 1,
		.gradients = take_gradient,
		.arg = &fails};
	struct trainer *t = NULL, *calm = make(&p, 1);
	fine(trainer_new(&how, &t, &why));
	const uint64_t sequences[] = {0, 1, 2, 3};
	double loss;
	assert_int_equal(trainer_step(t, sequences, 0.01, &loss, &why), ERR_closed);
	same(t, calm);
	fails = false;
	assert_true(step(t, 0) == step(calm, 0));
	assert_true(all_zero(t, 1) && !all_zero(t, 0) && !all_zero(calm, 1));
	trainer_free(t);
	trainer_free(calm);
	help_peer_release(&p);
}

static void no_memory_is_said(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, NULL);
	struct trainer_config how = {.spec = p.spec,
		.corpus = p.data.corpus,
		.training = true,
		.backend = "cpu",
		.threads = 1};
	enum err e = ERR_nomem;
	long n = 1;
	for (; e; n++) {
		struct trainer *t = NULL;
		alloc_fail_at(n);
		e = trainer_new(&how, &t, &why);
		alloc_fail_at(0);
		if (e)
			help_peer_told(&why, ERR_nomem, "memory");
		trainer_free(t);
	}
	assert_true(n > 3);
	help_peer_release(&p);
}

/* ---- memory */

static uint64_t sum_of_losses(struct trainer *t, uint64_t steps)
{
	double sum = 0;
	uint64_t bits;
	for (uint64_t i = 0; i < steps; i++)
		sum += step(t, i);
	memcpy(&bits, &sum, sizeof bits);
	return bits;
}

/* Less memory than the spec's micro-batch takes: it trains as one with the smaller one does, and
 * so does one whose memory turns out not to be there. */
static void a_smaller_micro_batch_is_taken_for_lack_of_memory(void **state)
{
	(void)state;
	static const char *const two[] = {"train.micro_batch=2", NULL},
				 *const four[] = {"train.micro_batch=4", NULL};
	struct help_peer p[2];
	help_peer_open(&p[0], two);
	help_peer_open(&p[1], four);
	struct trainer *middle = make(&p[0], 1), *t = NULL;
	struct trainer_config how = {.spec = p[1].spec,
		.corpus = p[1].data.corpus,
		.training = true,
		.backend = "cpu",
		.threads = 1};
	how.memory = 1; /* the sentence tells what the least is */
	assert_int_equal(trainer_new(&how, &t, &why), ERR_nomem);
	help_peer_told(&why, ERR_nomem, "1 at a time, takes");
	how.memory = 0;
	fine(trainer_new(&how, &t, &why));
	alloc_fail_at(2); /* of making the executor */
	uint64_t got = sum_of_losses(t, 3);
	alloc_fail_at(0);
	assert_true(got == sum_of_losses(middle, 3));
	same(t, middle);
	trainer_free(t);
	trainer_free(middle);
	for (int i = 0; i < 2; i++)
		help_peer_release(&p[i]);
}

/* The same losses, and the same statistics of AdamW. */
static void recomputing_changes_no_bit(void **state)
{
	(void)state;
	static const char *const again[] = {"train.recompute=true", NULL};
	struct help_peer a, b;
	help_peer_open(&a, NULL);
	help_peer_open(&b, again);
	struct trainer *x = make(&a, 1), *y = make(&b, 1);
	assert_true(sum_of_losses(x, 3) == sum_of_losses(y, 3));
	same(x, y);
	trainer_free(x);
	trainer_free(y);
	help_peer_release(&a);
	help_peer_release(&b);
}

static void a_step_allocates_nothing(void **state)
{
	(void)state;
	struct help_peer p;
	struct trainer_validation v;
	help_peer_open(&p, NULL);
	struct trainer *t = make(&p, 2);
	step(t, 0);
	alloc_fail_at(1);
	step(t, 1);
	fine(trainer_validate(t, 0, &v, &why));
	alloc_fail_at(0);
	trainer_free(t);
	help_peer_release(&p);
}

static void a_device_that_is_not_there_is_named(void **state)
{
	(void)state;
	struct help_peer p;
	help_peer_open(&p, NULL);
	static const char *const names[] = {"abacus", "", "ref64"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct trainer_config how = {.spec = p.spec, .backend = names[i]};
		struct trainer *t = NULL;
		assert_int_equal(trainer_new(&how, &t, &why), ERR_unsupported);
		help_peer_told(&why, ERR_unsupported, "shoal-peer bench");
		assert_null(t);
	}
	help_peer_release(&p);
}

/* ---- validation */

/* However many windows a micro-batch holds, and also when the last one is not full. */
static void a_last_micro_batch_that_is_not_full_counts_what_it_has(void **state)
{
	(void)state;
	static const char *const sizes[] = {
		"train.micro_batch=1", "train.micro_batch=2", "train.micro_batch=4"};
	double loss[3][8];
	for (size_t i = 0; i < 3; i++) {
		const char *const changes[] = {sizes[i], NULL};
		struct help_peer p;
		help_peer_open(&p, changes);
		struct trainer *t = make(&p, 1);
		for (uint64_t n = 1; n < 8; n++) {
			struct trainer_validation v;
			fine(trainer_validate(t, n, &v, &why));
			assert_int_equal(v.tokens, n * p.spec->train.seq);
			loss[i][n] = v.per_token;
		}
		trainer_free(t);
		help_peer_release(&p);
	}
	for (size_t i = 1; i < 3; i++)
		for (uint64_t n = 1; n < 8; n++)
			assert_true(fabs(loss[i][n] - loss[0][n]) < 1e-6 * loss[0][n]);
	assert_true(loss[0][1] != loss[0][2]);
}

static void all_windows_are_all(void **state)
{
	(void)state;
	struct help_peer p;
	struct trainer_validation all, many;
	help_peer_open(&p, NULL);
	struct trainer *t = make(&p, 1);
	uint64_t windows = corpus_sequences(p.data.corpus, CORPUS_validation, p.spec->train.seq);
	fine(trainer_validate(t, 0, &all, &why));
	fine(trainer_validate(t, 1u << 30, &many, &why));
	assert_int_equal(all.tokens, windows * p.spec->train.seq);
	assert_true(all.per_token == many.per_token && all.tokens == many.tokens);
	trainer_free(t);
	help_peer_release(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(threads_do_not_matter),
		TEST(micro_batches_add_up_to_the_batch),
		TEST(training_lowers_the_loss),
		TEST(a_saved_state_goes_on_exactly),
		TEST(a_state_without_what_is_asked_for_is_refused),
		TEST(what_is_not_finite_is_refused),
		TEST(a_step_that_is_broken_off_did_not_happen),
		TEST(gradients_may_be_changed_before_the_step),
		TEST(no_memory_is_said),
		TEST(a_smaller_micro_batch_is_taken_for_lack_of_memory),
		TEST(recomputing_changes_no_bit),
		TEST(a_step_allocates_nothing),
		TEST(a_device_that_is_not_there_is_named),
		TEST(a_last_micro_batch_that_is_not_full_counts_what_it_has),
		TEST(all_windows_are_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
