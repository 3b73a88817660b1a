/* The rules: what they compute, and what they cannot be made to depend on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "compress/dct.h"
#include "compress/floats.h"
#include "round/rule.h"
#include "tests/help_round.h"

#define N 10100u /* no whole number of chunks, nor of squares that a DCT transforms */

static const char *const names[] = {
#define X(name) #name,
	RULE_LIST(X)
#undef X
};
#define N_RULES (sizeof names / sizeof names[0])

static struct rule_params rule(const char *name)
{
	struct rule_params p;
	assert_int_equal(rule_find(name, 0.7, 0.9, &p, NULL), ERR_OK);
	return p;
}

#define CHUNK 500u
static const struct codec_params dense = {SELECT_all, VALUES_f32, false, CHUNK, CHUNK, 0, 0},
				 sparse = {SELECT_topk, VALUES_f32, false, CHUNK, 60, 0, 0};

struct inputs {
	struct codec_vector v[HELP_ROUND_PEERS];
	struct rule_input in[HELP_ROUND_PEERS];
	size_t count;
};

/* Random vectors of n values, times[i] (NULL: 1). */
static void make_times(struct inputs *to, size_t count, size_t n, const struct codec_params *codec,
	const float *times)
{
	to->count = count;
	for (size_t i = 0; i < count; i++) {
		float *v = help_round_vector(i + 1, n);
		for (size_t j = 0; j < n && times; j++)
			v[j] *= times[i];
		to->v[i] = help_round_encode(codec, v, n);
		to->in[i] = (struct rule_input){(uint32_t)(10 + i), 100 + 50 * i, &to->v[i]};
		free(v);
	}
}

static void make(struct inputs *to, size_t count, size_t n, const struct codec_params *codec)
{
	make_times(to, count, n, codec, NULL);
}

static void drop(struct inputs *i)
{
	for (size_t j = 0; j < i->count; j++)
		codec_release(&i->v[j]);
}

static const struct codec_params *usual(const struct rule_params *p)
{
	return p->row->parameters ? &dense : &sparse;
}

struct state {
	float *g, *m;
};

static struct state state(uint64_t seed, size_t n)
{
	return (struct state){help_round_vector(seed, n), help_round_vector(seed + 1000, n)};
}

static void apply(const struct rule_params *p, const struct inputs *in, struct state *s, size_t n)
{
	struct why why = {0};
	struct rule_state to = {s->g, p->row->momentum ? s->m : NULL, n};
	if (rule_apply(p, in->in, in->count, &to, &why))
		fail_msg("%s: %s", p->row->name, why.text);
}

static void state_free(struct state *s)
{
	free(s->g);
	free(s->m);
}

static void equal(const struct state *a, const struct state *b, size_t n)
{
	assert_memory_equal(a->g, b->g, n * sizeof *a->g);
	assert_memory_equal(a->m, b->m, n * sizeof *a->m);
}

/* ---- for every rule of the list */

static void order_of_arrival_does_not_matter(void **unused)
{
	(void)unused;
	for (size_t r = 0; r < N_RULES; r++) {
		struct rule_params p = rule(names[r]);
		struct inputs in;
		make(&in, 7, N, usual(&p));
		struct state first = state(50, N);
		apply(&p, &in, &first, N);
		for (uint64_t seed = 0; seed < 10; seed++) {
			for (size_t i = 6; i > 0; i--) {
				size_t j = rng_below(seed, 3, i, i + 1);
				struct rule_input t = in.in[i];
				in.in[i] = in.in[j];
				in.in[j] = t;
			}
			struct state again = state(50, N);
			apply(&p, &in, &again, N);
			equal(&first, &again, N);
			state_free(&again);
		}
		state_free(&first);
		drop(&in);
	}
}

static void nobody_leaves_everything(void **unused)
{
	(void)unused;
	for (size_t r = 0; r < N_RULES; r++) {
		struct rule_params p = rule(names[r]);
		struct inputs none = {.count = 0};
		struct state a = state(50, N), b = state(50, N);
		apply(&p, &none, &a, N);
		equal(&a, &b, N);
		state_free(&a);
		state_free(&b);
	}
}

/* Weights count by their ratio only: twice the tokens for all is the same to rounding. */
static void only_the_ratio_of_tokens_matters(void **unused)
{
	(void)unused;
	for (size_t r = 0; r < N_RULES; r++) {
		struct rule_params p = rule(names[r]);
		struct inputs in;
		make(&in, 5, N, usual(&p));
		struct state a = state(50, N), b = state(50, N);
		apply(&p, &in, &a, N);
		for (size_t i = 0; i < 5; i++)
			in.in[i].tokens *= 8; // a power of two: not even rounding differs
		apply(&p, &in, &b, N);
		equal(&a, &b, N);
		state_free(&a);
		state_free(&b);
		drop(&in);
	}
}

/* Coordinates do not see each other: a shard cut in two gives the two halves.  (Not so where the
 * norm of the whole counts.) */
static void a_part_is_as_in_the_whole(void **unused)
{
	(void)unused;
	enum { CUT = 4097 };
	for (size_t r = 0; r < N_RULES; r++) {
		struct rule_params p = rule(names[r]);
		if (p.row->scale)
			continue;
		struct inputs whole, half;
		make(&whole, 4, N, &dense);
		make(&half, 4, CUT, &dense);
		struct state a = state(50, N), b = state(50, N);
		apply(&p, &whole, &a, N);
		apply(&p, &half, &b, CUT);
		equal(&a, &b, CUT);
		state_free(&a);
		state_free(&b);
		drop(&whole);
		drop(&half);
	}
}

static void what_cannot_be_is_refused(void **unused)
{
	(void)unused;
	for (size_t r = 0; r < N_RULES; r++) {
		struct rule_params p = rule(names[r]);
		struct inputs in;
		struct why why = {0};
		make(&in, 3, 100, &dense);
		struct state s = state(50, 100);
		struct rule_state to = {s.g, p.row->momentum ? s.m : NULL, 100};
		in.in[2].peer = 10;
		assert_int_equal(rule_apply(&p, in.in, 3, &to, &why), ERR_duplicate);
		help_round_told(&why, ERR_duplicate, "peer 10 contributed twice");
		in.in[2].peer = 12;
		in.in[1].tokens = 0;
		assert_int_equal(rule_apply(&p, in.in, 3, &to, &why), ERR_tokens);
		in.in[1].tokens = RULE_TOKENS_MAX;
		assert_int_equal(rule_apply(&p, in.in, 3, &to, &why), ERR_tokens);
		in.in[1].tokens = UINT64_MAX;
		assert_int_equal(rule_apply(&p, in.in, 3, &to, &why), ERR_tokens);
		in.in[1].tokens = 1;
		to.n = 99;
		assert_int_equal(rule_apply(&p, in.in, 3, &to, &why), ERR_shape);
		to.n = 100;
		assert_int_equal(
			rule_apply(&p, in.in, (size_t)RULE_PEERS_MAX + 1, &to, &why), ERR_range);
		for (long at = 1;; at++) {
			alloc_fail_at(at);
			enum err err = rule_apply(&p, in.in, 3, &to, &why);
			alloc_fail_at(0);
			if (!err)
				break;
			assert_int_equal(err, ERR_nomem);
		}
		state_free(&s);
		drop(&in);
	}
}

static void an_outcome_beyond_floats_is_refused(void **unused)
{
	(void)unused;
	static const char *const moving[] = {"sparseloco", "mean_R", "diloco"};
	for (size_t r = 0; r < 3; r++) {
		struct rule_params p = rule(moving[r]);
		float huge[1] = {-FLT_MAX}, g[1] = {FLT_MAX}, m[1] = {0};
		struct codec_vector v = help_round_encode(&dense, huge, 1);
		struct rule_input in = {1, 5, &v};
		struct rule_state to = {g, p.row->momentum ? m : NULL, 1};
		struct why why = {0};
		assert_int_equal(rule_apply(&p, &in, 1, &to, &why), ERR_not_finite);
		help_round_told(&why, ERR_not_finite, "value 0 of the outcome");
		codec_release(&v);
	}
}

/* ---- each one */

static void average_of_one_is_that_one(void **unused)
{
	(void)unused;
	struct rule_params p = rule("average");
	static const uint64_t tokens[] = {1, 3, 7, 1000003, 9007199254740991ull};
	float *v = help_round_vector(1, N);
	for (uint32_t i = 0; i < N; i += 2) { // every kind of float
		float any = floats_from(rng_u32(1, 5, i));
		v[i] = floats_finite(any) ? any : -0.0f;
	}
	v[1] = -0.0f;
	v[3] = 0.0f;
	v[5] = FLT_MAX;
	v[7] = 0x1p-149f;
	struct codec_vector c = help_round_encode(&dense, v, N);
	for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
		struct rule_input in = {4, tokens[i], &c};
		float *g = help_round_vector(9, N);
		struct rule_state to = {g, NULL, N};
		assert_int_equal(rule_apply(&p, &in, 1, &to, NULL), ERR_OK);
		assert_memory_equal(g, v, N * sizeof *v);
		free(g);
	}
	codec_release(&c);
	free(v);
}

static void average_weighs_by_tokens(void **unused)
{
	(void)unused;
	struct rule_params p = rule("average");
	float a[2] = {1, -2}, b[2] = {4, 2}, g[2] = {9, 9};
	struct codec_vector ca = help_round_encode(&dense, a, 2);
	struct codec_vector cb = help_round_encode(&dense, b, 2);
	struct rule_input in[2] = {{1, 300, &ca}, {2, 100, &cb}};
	struct rule_state to = {g, NULL, 2};
	assert_int_equal(rule_apply(&p, in, 2, &to, NULL), ERR_OK);
	assert_true(g[0] == 1.75f && g[1] == -1.0f);
	codec_release(&ca);
	codec_release(&cb);
}

/* Two senders at one place, one at another, none at a third. */
static void senders_and_all_divide_differently(void **unused)
{
	(void)unused;
	float va[3] = {1, 1, 0}, vb[3] = {1.4142135f, 0, 0}, g[3], m[3];
	const struct codec_params codec = {SELECT_topk, VALUES_f32, false, 3, 2, 0, 0};
	struct codec_vector ca = help_round_encode(&codec, va, 3);
	struct codec_vector cb = help_round_encode(&codec, vb, 3);
	assert_true(ca.count == 2 && cb.count == 1);
	struct rule_input in[2] = {{1, 100, &ca}, {2, 300, &cb}};
	struct rule_params p = rule("mean_R");
	for (int i = 0; i < 3; i++)
		g[i] = 1;
	struct rule_state to = {g, NULL, 3};
	assert_int_equal(rule_apply(&p, in, 2, &to, NULL), ERR_OK);
	assert_true(fabs((double)g[0] - (1 - 0.7 * (0.25 + 0.75 * 1.4142135))) < 1e-6);
	assert_true(fabs((double)g[1] - (1 - 0.7 * 0.25)) < 1e-6);
	assert_true(g[2] == 1);

	p = rule("sparseloco"); // both norms are sqrt 2, or all but: no clipping to speak of
	for (int i = 0; i < 3; i++)
		g[i] = 1;
	assert_int_equal(rule_apply(&p, in, 2, &to, NULL), ERR_OK);
	assert_true(fabs((double)g[0] - (1 - 0.7 * (0.25 + 0.75 * 1.4142135))) < 1e-6);
	assert_true(fabs((double)g[1] - (1 - 0.7 * 1)) < 1e-6); // its one sender's value, whole
	assert_true(g[2] == 1);

	p = rule("diloco");
	for (int i = 0; i < 3; i++) {
		g[i] = 1;
		m[i] = 2;
	}
	to.momentum = m;
	assert_int_equal(rule_apply(&p, in, 2, &to, NULL), ERR_OK);
	assert_true(fabs((double)m[1] - (0.9 * 2 + 0.25)) < 1e-6);
	assert_true(fabs((double)g[1] - (1 - 0.7 * (0.9 * 2.05 + 0.25))) < 1e-6);
	assert_true(fabs((double)m[2] - 1.8) < 1e-6);
	assert_true(fabs((double)g[2] - (1 - 0.7 * 0.9 * 1.8)) < 1e-6);
	codec_release(&ca);
	codec_release(&cb);
}

/* Nesterov as SGD has it, step by step in double precision. */
static void diloco_is_outer_nesterov(void **unused)
{
	(void)unused;
	struct rule_params p = rule("diloco");
	struct state s = {help_round_vector(3, N), alloc_must_zero(N, sizeof(float))};
	double *g = alloc_must_zero(N, sizeof *g), *m = alloc_must_zero(N, sizeof *m);
	for (size_t i = 0; i < N; i++)
		g[i] = (double)s.g[i];
	for (uint64_t round = 0; round < 10; round++) {
		struct inputs one = {.count = 1};
		float *v = help_round_vector(100 + round, N);
		one.v[0] = help_round_encode(&dense, v, N);
		one.in[0] = (struct rule_input){1, 77, &one.v[0]};
		apply(&p, &one, &s, N);
		for (size_t i = 0; i < N; i++) {
			double delta = (double)v[i];
			m[i] = 0.9 * m[i] + delta;
			g[i] -= 0.7 * (0.9 * m[i] + delta);
		}
		free(v);
		drop(&one);
	}
	for (size_t i = 0; i < N; i++)
		assert_true(fabs(g[i] - (double)s.g[i]) < 1e-5);
	free(g);
	free(m);
	state_free(&s);
}

/* A vector a million times too long counts as one of median length. */
static void a_liar_is_clipped(void **unused)
{
	(void)unused;
	struct rule_params p = rule("sparseloco");
	struct inputs honest, lying;
	static const float times[5] = {1, 1, 1e6f, 1, 1};
	make(&honest, 5, N, &sparse);
	make_times(&lying, 5, N, &sparse, times);
	struct state a = state(50, N), b = state(50, N), before = state(50, N);
	apply(&p, &honest, &a, N);
	apply(&p, &lying, &b, N);
	double step = 0, off = 0;
	for (size_t i = 0; i < N; i++) {
		step += ((double)a.g[i] - before.g[i]) * ((double)a.g[i] - before.g[i]);
		off += ((double)a.g[i] - b.g[i]) * ((double)a.g[i] - b.g[i]);
	}
	assert_true(off < step * 1e-2); // all norms were about alike
	state_free(&a);
	state_free(&b);
	state_free(&before);
	drop(&honest);
	drop(&lying);
}

/* Of an even number of norms the lower median: two senders meet at the shorter one's norm. */
static void of_two_the_longer_is_clipped(void **unused)
{
	(void)unused;
	struct rule_params p = rule("sparseloco");
	float v0[2] = {1, 0}, v1[2] = {0, 4}, g[2] = {0, 0};
	const struct codec_params codec = {SELECT_topk, VALUES_f32, false, 2, 1, 0, 0};
	struct codec_vector c0 = help_round_encode(&codec, v0, 2);
	struct codec_vector c1 = help_round_encode(&codec, v1, 2);
	struct rule_input in[2] = {{1, 1, &c0}, {2, 1, &c1}};
	struct rule_state to = {g, NULL, 2};
	assert_int_equal(rule_apply(&p, in, 2, &to, NULL), ERR_OK);
	assert_true(g[0] == -0.7f && g[1] == -0.7f);
	g[0] = g[1] = 0;
	assert_int_equal(rule_apply(&p, in + 1, 1, &to, NULL), ERR_OK);
	assert_true(g[1] == (float)(-0.7 * 4)); // alone it is its own median
	codec_release(&c0);
	codec_release(&c1);
}

/* What nobody sent stays to the bit, also -0.0 and what is subnormal. */
static void what_nobody_sent_stays(void **unused)
{
	(void)unused;
	static const char *const moving[] = {"sparseloco", "mean_R"};
	for (size_t r = 0; r < 2; r++) {
		struct rule_params p = rule(moving[r]);
		struct inputs in;
		make(&in, 2, N, &sparse);
		float *sent = alloc_must_zero(N, sizeof *sent), *one = alloc_must(N * sizeof *one);
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(codec_expand(&in.v[i], one), ERR_OK);
			for (size_t j = 0; j < N; j++)
				sent[j] += fabsf(one[j]);
		}
		struct state a = state(50, N);
		for (size_t i = 0; i < N; i += 3)
			a.g[i] = i % 2 ? -0.0f : 0x1p-149f;
		float *before = alloc_must(N * sizeof *before);
		memcpy(before, a.g, N * sizeof *before);
		apply(&p, &in, &a, N);
		size_t moved = 0, stayed = 0;
		for (size_t i = 0; i < N; i++) {
			bool same = floats_bits(a.g[i]) == floats_bits(before[i]);
			moved += !same;
			stayed += sent[i] == 0;
			assert_true(same || sent[i] > 0);
		}
		assert_true(moved > N / 10 && stayed > N / 2);
		free(sent);
		free(one);
		free(before);
		state_free(&a);
		drop(&in);
	}
}

/* Coefficients are added up as they are, and divided by those who sent them; the quotient is
 * transformed back, but for the short end of the vector. */
static void coefficients_are_joined_before_they_are_transformed(void **unused)
{
	(void)unused;
	const struct codec_params codec = {SELECT_topk, VALUES_f32, true, DCT_CHUNK, 400, 0, 0};
	struct rule_params p = rule("sparseloco");
	struct inputs in;
	make(&in, 2, N, &codec);
	double *sum = alloc_must_zero(N, sizeof *sum),
	       *senders = alloc_must_zero(N, sizeof *senders);
	double least = fmin(in.v[0].norm_squared, in.v[1].norm_squared);
	for (size_t i = 0; i < 2; i++) {
		struct codec_reader *r;
		struct codec_chunk c;
		double scale = sqrt(least / in.v[i].norm_squared), w = (double)in.in[i].tokens;
		assert_int_equal(codec_reader_new(&in.v[i], &r), ERR_OK);
		while (codec_reader_next(r, &c))
			for (uint32_t j = 0; j < c.m; j++) {
				sum[c.first + c.place[j]] += scale * w * (double)c.value[j];
				senders[c.first + c.place[j]] += w;
			}
		codec_reader_free(r);
	}
	for (size_t i = 0; i < N; i++)
		sum[i] = senders[i] > 0 ? sum[i] / senders[i] : 0;
	for (size_t first = 0; first < N; first += DCT_CHUNK)
		dct_inverse_double(
			sum + first, (uint32_t)(N - first < DCT_CHUNK ? N - first : DCT_CHUNK));
	struct state a = state(50, N), before = state(50, N);
	apply(&p, &in, &a, N);
	size_t moved = 0;
	for (size_t i = 0; i < N; i++) {
		assert_true(fabs((double)before.g[i] - 0.7 * sum[i] - (double)a.g[i]) < 1e-6);
		moved += a.g[i] != before.g[i];
	}
	assert_true(moved > 8000); // each coefficient moves a square of 64 x 64
	state_free(&a);
	state_free(&before);
	free(sum);
	free(senders);
	drop(&in);
}

static void chunks_of_two_kinds_are_refused(void **unused)
{
	(void)unused;
	struct rule_params p = rule("mean_R");
	const struct codec_params other = {SELECT_topk, VALUES_f32, false, CHUNK + 1, 60, 0, 0};
	struct inputs in;
	make(&in, 2, N, &sparse);
	codec_release(&in.v[1]);
	float *v = help_round_vector(1, N);
	in.v[1] = help_round_encode(&other, v, N);
	struct state s = state(50, N);
	struct rule_state to = {s.g, NULL, N};
	struct why why = {0};
	assert_int_equal(rule_apply(&p, in.in, 2, &to, &why), ERR_shape);
	help_round_told(
		&why, ERR_shape, "peer 11 contributed chunks of 501, another one chunks of 500");
	free(v);
	state_free(&s);
	drop(&in);
}

static void words_of_a_spec_are_checked(void **unused)
{
	(void)unused;
	struct rule_params p;
	struct why why = {0};
	struct codec_params int8 = {SELECT_all, VALUES_int8, false, CHUNK, CHUNK, 0, 0};
	struct codec_params dct = {SELECT_all, VALUES_f32, true, DCT_CHUNK, DCT_CHUNK, 0, 0};
	assert_int_equal(rule_find("median", 1, 0, &p, &why), ERR_unsupported);
	help_round_told(&why, ERR_unsupported, "knows: sparseloco mean_R diloco average");
	p = rule("average");
	assert_int_equal(rule_suits(&p, &dense, &why), ERR_OK);
	assert_int_equal(rule_suits(&p, &int8, &why), ERR_unsupported);
	help_round_told(&why, ERR_unsupported, "codec all/500 int8 would distort: use {\"select\"");
	assert_int_equal(rule_suits(&p, &dct, &why), ERR_unsupported);
	p = rule("diloco");
	assert_int_equal(rule_suits(&p, &int8, &why), ERR_OK);
	assert_int_equal(rule_suits(&p, &dense, &why), ERR_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_arrival_does_not_matter),
		cmocka_unit_test(nobody_leaves_everything),
		cmocka_unit_test(only_the_ratio_of_tokens_matters),
		cmocka_unit_test(a_part_is_as_in_the_whole),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(an_outcome_beyond_floats_is_refused),
		cmocka_unit_test(average_of_one_is_that_one),
		cmocka_unit_test(average_weighs_by_tokens),
		cmocka_unit_test(senders_and_all_divide_differently),
		cmocka_unit_test(diloco_is_outer_nesterov),
		cmocka_unit_test(a_liar_is_clipped),
		cmocka_unit_test(of_two_the_longer_is_clipped),
		cmocka_unit_test(what_nobody_sent_stays),
		cmocka_unit_test(coefficients_are_joined_before_they_are_transformed),
		cmocka_unit_test(chunks_of_two_kinds_are_refused),
		cmocka_unit_test(words_of_a_spec_are_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
