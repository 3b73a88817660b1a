/* Error feedback: nothing that was trained is lost or counted twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "compress/floats.h"
#include "round/feedback.h"
#include "tests/help_round.h"

#define N 2000u
static const struct codec_params topk = {SELECT_topk, VALUES_two, false, 256, 16, 0, 0},
				 int8 = {SELECT_all, VALUES_int8, false, 2000, 2000, 0, 0},
				 randk = {SELECT_randk, VALUES_mean4, false, 256, 64, 0, 0},
				 raw = {SELECT_all, VALUES_f32, false, 256, 256, 0, 0};
static uint64_t draw = 77; /* of the next cut's places */

static struct feedback_config config(
	const struct codec_params *codec, const char *rule, double beta)
{
	struct rule_params p;
	assert_int_equal(rule_find(rule, 1, 0, &p, NULL), ERR_OK);
	return (struct feedback_config){
		.codec = *codec, .rule = p.row, .decay = beta, .shard = 3, .n = N};
}

static struct feedback *feedback(const struct feedback_config *c, const float *g)
{
	struct feedback *f;
	assert_int_equal(feedback_new(c, g, &f), ERR_OK);
	return f;
}

/* Cuts, and gives what went out. */
static void cut(struct feedback *f, const struct codec_params *codec, const float *w,
	struct codec_vector *out)
{
	struct planes planes;
	struct why why = {0};
	planes_init(&planes, codec_bound(codec, N));
	if (feedback_cut(f, draw, w, &planes, &why) ||
		codec_open(codec, N, &planes.bytes, out, &why))
		fail_msg("%s", why.text);
	assert_int_equal(out->params.seed, codec == &randk ? draw : 0);
	assert_true(feedback_in_flight(f));
	planes_release(&planes);
}

/* What training does to W. */
static void train(float *w, uint64_t seed)
{
	float *step = help_round_vector(seed, N);
	for (size_t i = 0; i < N; i++)
		w[i] += step[i] * 0.01f;
	free(step);
}

static float *copy(const float *v)
{
	float *c = alloc_must(N * sizeof *c);
	memcpy(c, v, N * sizeof *c);
	return c;
}

static void add(double *sum, const struct codec_vector *d, double sign)
{
	float *v = alloc_must(N * sizeof *v);
	assert_int_equal(codec_expand(d, v), ERR_OK);
	for (size_t i = 0; i < N; i++)
		sum[i] += sign * (double)v[i];
	free(v);
}

/*
 * With beta 1, all that training did (G and W both stand still otherwise, so that it is the sum of
 * base - c over the cuts) is what the ledger listed plus what one more cut would find.
 */
static void what_was_trained_is_sent_or_kept(void **state)
{
	(void)state;
	const struct codec_params *codecs[] = {&topk, &int8, &randk, &raw};
	for (size_t k = 0; k < 4; k++) {
		struct feedback_config c = config(codecs[k], "mean_R", 1);
		float *g = help_round_vector(1, N), *w = copy(g);
		double *trained = alloc_must_zero(N, sizeof *trained);
		double *listed = alloc_must_zero(N, sizeof *listed);
		struct feedback *f = feedback(&c, g);
		for (uint64_t round = 0; round < 40; round++) {
			struct codec_vector sent;
			float *before = copy(w);
			train(w, 10 + round);
			for (size_t i = 0; i < N; i++)
				trained[i] += (double)before[i] - (double)w[i];
			draw = round;
			cut(f, codecs[k], w, &sent);
			/* Every third one is late.  The update moves G anywhere. */
			bool accepted = round % 3 != 2;
			if (accepted)
				add(listed, &sent, 1);
			train(g, 1000 + round);
			assert_int_equal(feedback_join(f, accepted, g, w), ERR_OK);
			assert_memory_equal(w, g, N * sizeof *w);
			codec_release(&sent);
			free(before);
		}
		double worst = 0, norm = 0;
		/* e itself: what a last cut without any training sends and leaves. */
		for (int last = 0; last < 60; last++) {
			struct codec_vector sent;
			draw++;
			cut(f, codecs[k], w, &sent);
			add(listed, &sent, 1);
			codec_release(&sent);
			assert_int_equal(feedback_join(f, true, g, w), ERR_OK);
		}
		for (size_t i = 0; i < N; i++) {
			worst = fmax(worst, fabs(trained[i] - listed[i]));
			norm = fmax(norm, fabs(trained[i]));
		}
		assert_true(norm > 0.01);
		assert_true(worst <= norm * 1e-2); // what two magnitudes leave after 60 rounds
		assert_true(feedback_error_norm(f) < 0.1);
		feedback_free(f);
		free(trained);
		free(listed);
		free(g);
		free(w);
	}
}

/* To the rounding of single floats: e + accepted(C) = beta e + (base - c), however much a cut
 * keeps. */
static void the_error_is_what_was_not_listed(void **state)
{
	(void)state;
	struct feedback_config c = config(&topk, "sparseloco", 0.95);
	float *g = help_round_vector(1, N), *w = copy(g);
	struct feedback *f = feedback(&c, g);
	double *e = alloc_must_zero(N, sizeof *e);
	for (uint64_t round = 0; round < 20; round++) {
		struct codec_vector sent;
		double norm = 0;
		train(w, round);
		for (size_t i = 0; i < N; i++)
			e[i] = 0.95 * e[i] + ((double)g[i] - (double)w[i]);
		feedback_keep(f, round % 3 ? topk.k : 5);
		cut(f, &topk, w, &sent);
		assert_int_equal(sent.params.k, round % 3 ? topk.k : 5);
		if (round % 4 != 1)
			add(e, &sent, -1);
		assert_int_equal(feedback_join(f, round % 4 != 1, g, w), ERR_OK);
		for (size_t i = 0; i < N; i++)
			norm += e[i] * e[i];
		assert_true(fabs(sqrt(norm) - feedback_error_norm(f)) < 1e-5 * sqrt(norm));
		codec_release(&sent);
	}
	free(e);
	feedback_free(f);
	free(g);
	free(w);
}

/* Steps made while the round is closed are kept, and go into the next cut once. */
static void training_goes_on_while_in_flight(void **state)
{
	(void)state;
	struct feedback_config c = config(&int8, "mean_R", 1);
	float *g = help_round_vector(1, N), *w = copy(g);
	struct feedback *f = feedback(&c, g);
	struct codec_vector sent;
	train(w, 1);
	cut(f, &int8, w, &sent);
	codec_release(&sent);
	float *at_cut = copy(w);
	train(w, 2); /* meanwhile */
	float *own = copy(w);
	train(g, 3); /* what the others did */
	assert_int_equal(feedback_join(f, true, g, w), ERR_OK);
	for (size_t i = 0; i < N; i++)
		assert_true(fabsf(w[i] - (g[i] + own[i] - at_cut[i])) < 1e-6f);
	cut(f, &int8, w, &sent);
	float *v = alloc_must(N * sizeof *v);
	assert_int_equal(codec_expand(&sent, v), ERR_OK);
	for (size_t i = 0; i < N; i++) /* only the steps made meanwhile, and what int8 lost */
		assert_true(fabsf(v[i] - (at_cut[i] - own[i])) < 2e-4f);
	codec_release(&sent);
	free(v);
	free(own);
	free(at_cut);
	feedback_free(f);
	free(g);
	free(w);
}

static void a_round_without_a_cut_keeps_what_was_trained(void **state)
{
	(void)state;
	struct feedback_config c = config(&int8, "mean_R", 1);
	float *g = help_round_vector(1, N), *w = copy(g);
	struct feedback *f = feedback(&c, g);
	train(w, 1);
	float *own = copy(w), *old = copy(g);
	train(g, 3);
	assert_int_equal(feedback_join(f, false, g, w), ERR_OK);
	for (size_t i = 0; i < N; i++)
		assert_true(fabsf(w[i] - (g[i] + own[i] - old[i])) < 1e-6f);
	feedback_reset(f, g, w);
	assert_memory_equal(w, g, N * sizeof *w);
	assert_true(feedback_error_norm(f) == 0);
	free(own);
	free(old);
	feedback_free(f);
	free(g);
	free(w);
}

/* Rule average, codec raw: what goes out is W, and W comes back as it was, -0.0 too. */
static void average_alone_changes_no_bit(void **state)
{
	(void)state;
	struct feedback_config c = config(&raw, "average", 0);
	struct rule_params p;
	assert_int_equal(rule_find("average", 1, 0, &p, NULL), ERR_OK);
	float *g = help_round_vector(1, N), *w = copy(g), *local = copy(g);
	struct feedback *f = feedback(&c, g);
	for (uint64_t round = 0; round < 10; round++) {
		struct codec_vector sent;
		train(w, round);
		train(local, round);
		w[round] = local[round] = -0.0f;
		w[round + 50] = local[round + 50] = 0x1p-149f;
		cut(f, &raw, w, &sent);
		struct rule_input in = {7, 12345, &sent};
		struct rule_state to = {g, NULL, N};
		assert_int_equal(rule_apply(&p, &in, 1, &to, NULL), ERR_OK);
		assert_int_equal(feedback_join(f, true, g, w), ERR_OK);
		assert_memory_equal(w, local, N * sizeof *w);
		assert_memory_equal(g, local, N * sizeof *w);
		assert_true(feedback_error_norm(f) == 0);
		codec_release(&sent);
	}
	feedback_free(f);
	free(g);
	free(w);
	free(local);
}

/* Without memory to take off what was listed, nothing has happened yet. */
static void a_join_without_memory_can_be_tried_again(void **state)
{
	(void)state;
	struct feedback_config c = config(&topk, "mean_R", 1);
	float *g = help_round_vector(1, N), *w = copy(g), *own;
	struct feedback *f = feedback(&c, g), *r = feedback(&c, g);
	struct codec_vector sent;
	train(w, 1);
	cut(f, &topk, w, &sent);
	codec_release(&sent);
	cut(r, &topk, w, &sent);
	codec_release(&sent);
	train(w, 2);
	own = copy(w);
	train(g, 3);
	long at = 1;
	for (;; at++) {
		alloc_fail_at(at);
		enum err err = feedback_join(f, true, g, w);
		alloc_fail_at(0);
		if (!err)
			break;
		assert_int_equal(err, ERR_nomem);
		assert_true(feedback_in_flight(f));
		assert_memory_equal(w, own, N * sizeof *w);
	}
	assert_true(at > 1);
	assert_int_equal(feedback_join(r, true, g, own), ERR_OK);
	assert_memory_equal(w, own, N * sizeof *w);
	assert_true(feedback_error_norm(f) == feedback_error_norm(r));
	feedback_free(f);
	feedback_free(r);
	free(g);
	free(w);
	free(own);
}

static void one_at_a_time_and_finite(void **state)
{
	(void)state;
	struct feedback_config c = config(&topk, "sparseloco", 1);
	float *g = help_round_vector(1, N), *w = copy(g);
	struct feedback *f = feedback(&c, g);
	struct planes planes;
	struct why why = {0};
	planes_init(&planes, codec_bound(&topk, N));
	train(w, 1);
	assert_int_equal(feedback_cut(f, draw, w, &planes, &why), ERR_OK);
	assert_int_equal(feedback_cut(f, draw, w, &planes, &why), ERR_state);
	help_round_told(&why, ERR_state, "shard 3 has a contribution in flight");
	assert_int_equal(feedback_join(f, true, g, w), ERR_OK);
	double before = feedback_error_norm(f);
	w[7] = INFINITY;
	assert_int_equal(feedback_cut(f, draw, w, &planes, &why), ERR_not_finite);
	assert_false(feedback_in_flight(f));
	assert_true(feedback_error_norm(f) == before);
	memcpy(w, g, N * sizeof *w);
	for (long at = 1;; at++) {
		struct planes anew;
		planes_init(&anew, codec_bound(&topk, N));
		alloc_fail_at(at);
		enum err err = feedback_cut(f, draw, w, &anew, &why);
		alloc_fail_at(0);
		planes_release(&anew);
		if (!err)
			break;
		assert_int_equal(err, ERR_nomem);
		assert_false(feedback_in_flight(f));
		assert_true(feedback_error_norm(f) == before);
	}
	planes_release(&planes);
	feedback_free(f);
	for (long at = 1; at <= 3; at++) {
		alloc_fail_at(at);
		assert_int_equal(feedback_new(&c, g, &f), ERR_nomem);
		alloc_fail_at(0);
	}
	free(g);
	free(w);
}

/* ---- saved and restored */

static void save(const struct feedback *f, const char *path)
{
	json_t *meta = json_object();
	struct statefile_head head = {"local", help_round_hash(1), meta};
	struct statefile_out *out;
	struct why why = {0};
	if (statefile_create(path, &head, &out, &why) || feedback_save(f, out, &why) ||
		statefile_commit(out, &why))
		fail_msg("%s", why.text);
	json_decref(meta);
}

static enum err load(struct feedback *f, const char *path, struct why *why)
{
	struct statefile *file;
	if (statefile_open(path, "local", NULL, &file, why))
		fail_msg("%s", why->text);
	enum err err = feedback_load(f, file, why);
	statefile_close(file);
	return err;
}

/* At whatever moment it is saved, what follows is the same to the bit. */
static void a_restored_one_goes_on_the_same(void **state)
{
	(void)state;
	static const struct {
		const struct codec_params *codec;
		const char *rule;
	} kinds[] = {{&topk, "sparseloco"}, {&int8, "diloco"}, {&randk, "mean_R"}, {&raw, "diloco"},
		{&raw, "average"}};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (int in_flight = 0; in_flight < 2; in_flight++) {
			struct feedback_config c = config(kinds[k].codec, kinds[k].rule, 0.9);
			float *g = help_round_vector(1, N), *w = copy(g);
			struct feedback *f = feedback(&c, g);
			struct codec_vector sent, again;
			struct why why = {0};
			train(w, 1);
			cut(f, kinds[k].codec, w, &sent);
			codec_release(&sent);
			train(w, 2);
			if (!in_flight)
				assert_int_equal(feedback_join(f, true, g, w), ERR_OK);
			save(f, help_round_path("f.state"));
			struct feedback *r = feedback(&c, w); /* anything: it is replaced */
			if (load(r, help_round_path("f.state"), &why))
				fail_msg("%s", why.text);
			assert_int_equal(feedback_in_flight(r), in_flight);
			float *w2 = copy(w);
			train(g, 3);
			if (in_flight) {
				assert_int_equal(feedback_join(f, true, g, w), ERR_OK);
				assert_int_equal(feedback_join(r, true, g, w2), ERR_OK);
			}
			assert_memory_equal(w, w2, N * sizeof *w);
			assert_true(feedback_error_norm(f) == feedback_error_norm(r));
			cut(f, kinds[k].codec, w, &sent);
			cut(r, kinds[k].codec, w2, &again);
			assert_int_equal(sent.planes.len, again.planes.len);
			assert_memory_equal(sent.planes.data, again.planes.data, sent.planes.len);
			codec_release(&sent);
			codec_release(&again);
			feedback_free(f);
			feedback_free(r);
			free(g);
			free(w);
			free(w2);
		}
}

static void a_state_that_does_not_fit_is_refused(void **state)
{
	(void)state;
	struct feedback_config c = config(&topk, "sparseloco", 0.9);
	float *g = help_round_vector(1, N), *w = copy(g);
	struct feedback *f = feedback(&c, g);
	struct codec_vector sent;
	struct why why = {0};
	const char *path = help_round_path("f.state");
	train(w, 1);
	cut(f, &topk, w, &sent);
	codec_release(&sent);
	save(f, path);
	feedback_free(f);

	struct feedback_config other = c;
	other.shard = 4;
	f = feedback(&other, g);
	assert_int_equal(load(f, path, &why), ERR_missing);
	feedback_free(f);
	other = c;
	other.n = N - 1;
	f = feedback(&other, g);
	assert_int_equal(load(f, path, &why), ERR_shape);
	feedback_free(f);
	other = c;
	other.codec.k = 15; /* planes of another shape are in flight */
	f = feedback(&other, g);
	assert_int_equal(load(f, path, &why), ERR_shape);
	assert_false(feedback_in_flight(f));
	feedback_free(f);
	free(g);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_trained_is_sent_or_kept),
		cmocka_unit_test(the_error_is_what_was_not_listed),
		cmocka_unit_test(training_goes_on_while_in_flight),
		cmocka_unit_test(a_round_without_a_cut_keeps_what_was_trained),
		cmocka_unit_test(average_alone_changes_no_bit),
		cmocka_unit_test(a_join_without_memory_can_be_tried_again),
		cmocka_unit_test(one_at_a_time_and_finite),
		cmocka_unit_test_setup_teardown(
			a_restored_one_goes_on_the_same, help_round_setup, help_round_teardown),
		cmocka_unit_test_setup_teardown(a_state_that_does_not_fit_is_refused,
			help_round_setup, help_round_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
