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
#include "compress/floats.h"
#include "round/rule.h"
#include "tests/help_round.h"

#define N 10000u /* more than two blocks of coordinates, and not a whole number of them */

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

/* Dense, or with about every eighth place. */
static struct decoded vector(uint64_t seed, size_t n, bool sparse)
{
	struct decoded d = {.n = n};
	float *v = help_round_vector(seed, n);
	if (!sparse) {
		d.count = n;
		d.value = v;
		return d;
	}
	d.index = alloc_must_zero(n + 1, sizeof *d.index);
	d.value = alloc_must_zero(n + 1, sizeof *d.value);
	for (uint32_t i = 0; i < n; i++)
		if (rng_u32(seed, 99, i) % 8 == 0) {
			d.index[d.count] = i;
			d.value[d.count++] = v[i];
		}
	free(v);
	return d;
}

struct inputs {
	struct decoded d[HELP_ROUND_PEERS];
	struct rule_input in[HELP_ROUND_PEERS];
	size_t count;
};

static void make(struct inputs *to, size_t count, size_t n, bool sparse)
{
	to->count = count;
	for (size_t i = 0; i < count; i++) {
		to->d[i] = vector(i + 1, n, sparse);
		to->in[i] = (struct rule_input){(uint32_t)(10 + i), 100 + 50 * i, &to->d[i]};
	}
}

static void drop(struct inputs *i)
{
	for (size_t j = 0; j < i->count; j++)
		decoded_release(&i->d[j]);
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
		make(&in, 7, N, !p.row->parameters);
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
		make(&in, 5, N, !p.row->parameters);
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
		make(&whole, 4, N, false);
		make(&half, 4, N, false);
		for (size_t i = 0; i < 4; i++)
			half.d[i].n = half.d[i].count = CUT;
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
		make(&in, 3, 100, false);
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
		struct decoded d = {.n = 1, .count = 1, .value = huge};
		struct rule_input in = {1, 5, &d};
		struct rule_state to = {g, p.row->momentum ? m : NULL, 1};
		struct why why = {0};
		assert_int_equal(rule_apply(&p, &in, 1, &to, &why), ERR_not_finite);
		help_round_told(&why, ERR_not_finite, "value 0 of the outcome");
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
	for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
		struct decoded d = {.n = N, .count = N, .value = v};
		struct rule_input in = {4, tokens[i], &d};
		float *g = help_round_vector(9, N);
		struct rule_state to = {g, NULL, N};
		assert_int_equal(rule_apply(&p, &in, 1, &to, NULL), ERR_OK);
		assert_memory_equal(g, v, N * sizeof *v);
		free(g);
	}
	free(v);
}

static void average_weighs_by_tokens(void **unused)
{
	(void)unused;
	struct rule_params p = rule("average");
	float a[2] = {1, -2}, b[2] = {4, 2}, g[2] = {9, 9};
	struct decoded da = {.n = 2, .count = 2, .value = a}, db = {.n = 2, .count = 2, .value = b};
	struct rule_input in[2] = {{1, 300, &da}, {2, 100, &db}};
	struct rule_state to = {g, NULL, 2};
	assert_int_equal(rule_apply(&p, in, 2, &to, NULL), ERR_OK);
	assert_true(g[0] == 1.75f && g[1] == -1.0f);
}

/* Two senders at one place, one at another, none at a third. */
static void senders_and_all_divide_differently(void **unused)
{
	(void)unused;
	uint32_t ia[2] = {0, 1}, ib[1] = {0};
	float va[2] = {1, 1}, vb[1] = {1.4142135f}, g[3], m[3];
	struct decoded da = {3, 2, ia, va}, db = {3, 1, ib, vb};
	struct rule_input in[2] = {{1, 100, &da}, {2, 300, &db}};
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
		one.d[0] = vector(100 + round, N, false);
		one.in[0] = (struct rule_input){1, 77, &one.d[0]};
		apply(&p, &one, &s, N);
		for (size_t i = 0; i < N; i++) {
			double delta = (double)one.d[0].value[i];
			m[i] = 0.9 * m[i] + delta;
			g[i] -= 0.7 * (0.9 * m[i] + delta);
		}
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
	make(&honest, 5, N, true);
	make(&lying, 5, N, true);
	for (size_t i = 0; i < lying.d[2].count; i++)
		lying.d[2].value[i] *= 1e6f;
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
	uint32_t i0[1] = {0}, i1[1] = {1};
	float v0[1] = {1}, v1[1] = {4}, g[2] = {0, 0};
	struct decoded d0 = {2, 1, i0, v0}, d1 = {2, 1, i1, v1};
	struct rule_input in[2] = {{1, 1, &d0}, {2, 1, &d1}};
	struct rule_state to = {g, NULL, 2};
	assert_int_equal(rule_apply(&p, in, 2, &to, NULL), ERR_OK);
	assert_true(g[0] == -0.7f && g[1] == -0.7f);
	g[0] = g[1] = 0;
	assert_int_equal(rule_apply(&p, in + 1, 1, &to, NULL), ERR_OK);
	assert_true(g[1] == (float)(-0.7 * 4)); // alone it is its own median
}

static void words_of_a_spec_are_checked(void **unused)
{
	(void)unused;
	struct rule_params p;
	struct why why = {0};
	struct codec_params raw = {CODEC_raw, 0, 0}, int8 = {CODEC_int8, 0, 0};
	assert_int_equal(rule_find("median", 1, 0, &p, &why), ERR_unsupported);
	help_round_told(&why, ERR_unsupported, "knows: sparseloco mean_R diloco average");
	p = rule("average");
	assert_int_equal(rule_suits(&p, &raw, &why), ERR_OK);
	assert_int_equal(rule_suits(&p, &int8, &why), ERR_unsupported);
	help_round_told(&why, ERR_unsupported, "use codec raw");
	p = rule("diloco");
	assert_int_equal(rule_suits(&p, &int8, &why), ERR_OK);
	assert_int_equal(rule_suits(&p, &raw, &why), ERR_unsupported);
	help_round_told(&why, ERR_unsupported, "use rule average");
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
		cmocka_unit_test(words_of_a_spec_are_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
