/* The bound on a contribution's norm: finite whatever the spec says, and above what AdamW does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>
#include "round/normlimit.h"

static struct spec usual(void)
{
	return (struct spec){.train = {.batch = 2,
				     .seq = 32,
				     .lr = 0.003,
				     .beta1 = 0.9,
				     .beta2 = 0.95,
				     .weight_decay = 0.1,
				     .total_tokens = 1000000},
		.codec = {.decay = 0.95}};
}

static void it_is_finite_at_every_edge(void **state)
{
	(void)state;
	static const double edges[] = {0, 0.5, 0.99999};
	struct spec s = usual();
	s.train.lr = 10;
	s.train.weight_decay = 10;
	s.train.total_tokens = UINT64_MAX;
	s.codec.decay = 1;
	for (size_t i = 0; i < 9; i++) {
		s.train.beta1 = edges[i / 3];
		s.train.beta2 = edges[i % 3];
		/* squared and summed over all members it stays within a double */
		assert_true(normlimit(&s, &rule_sparseloco, CODEC_N_MAX, UINT64_MAX) < 1e100);
		assert_true(normlimit(&s, &rule_average, CODEC_N_MAX, UINT64_MAX) < 1e100);
	}
}

/* Constant gradients move every parameter by lr in each step: nothing moves further for longer. */
static void coherent_training_passes(void **state)
{
	(void)state;
	struct spec s = usual();
	const double n = 10000, lr = s.train.lr;
	for (uint64_t steps = 1; steps < 1000000; steps *= 10) {
		double limit = normlimit(&s, &rule_sparseloco, (size_t)n, steps);
		double way = sqrt(n) * lr * (double)steps;
		assert_true(limit > way / (1 - s.codec.decay));
	}
	assert_true(normlimit(&s, &rule_average, (size_t)n, 1) > sqrt(n));
}

/* Far from where floats end: rounds of the largest allowed norm do not get there. */
static void it_is_far_from_overflow(void **state)
{
	(void)state;
	struct spec s = usual();
	assert_true(normlimit(&s, &rule_diloco, 1u << 28, 100000) < 1e12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_finite_at_every_edge),
		cmocka_unit_test(coherent_training_passes),
		cmocka_unit_test(it_is_far_from_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
