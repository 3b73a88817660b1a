/* Sampling is a pure function: known cases, and the frequencies that the settings ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "base/rng.h"
#include "peer/sample.h"

static void greedy_takes_the_largest_and_the_lowest_id(void **state)
{
	(void)state;
	const float logits[] = {1, NAN, 5, 5, -2};
	struct sample_config c = {.temperature = 0, .top_p = 1};
	uint32_t order[5];
	assert_int_equal(sample_token(logits, 5, &c, 0.999, order), 2);
}

static void nan_is_never_chosen(void **state)
{
	(void)state;
	const float logits[] = {NAN, NAN, 1, NAN};
	struct sample_config c = {.temperature = 1, .top_p = 1};
	uint32_t order[4];
	for (int i = 0; i < 10; i++)
		assert_int_equal(sample_token(logits, 4, &c, i / 10.0, order), 2);
}

static void top_k_and_top_p_cut(void **state)
{
	(void)state;
	const float logits[] = {0, 3, 2, 1};
	uint32_t order[4];
	struct sample_config k = {.temperature = 1, .top_k = 2, .top_p = 1},
			     p = {.temperature = 1, .top_p = 0.5};
	for (int i = 0; i < 100; i++) {
		uint32_t by_k = sample_token(logits, 4, &k, i / 100.0, order);
		assert_true(by_k == 1 || by_k == 2);
		/* softmax of the largest is 0.644: it alone reaches a half */
		assert_int_equal(sample_token(logits, 4, &p, i / 100.0, order), 1);
	}
}

static void frequencies_follow_softmax(void **state)
{
	(void)state;
	const float logits[] = {0, 1, 2};
	struct sample_config c = {.temperature = 2, .top_p = 1};
	uint32_t order[3];
	int seen[3] = {0}, n = 20000;
	for (int i = 0; i < n; i++)
		seen[sample_token(logits, 3, &c, rng_unit(7, 0, (uint64_t)i), order)]++;
	double all = 1 + exp(0.5) + exp(1);
	for (int i = 0; i < 3; i++)
		assert_true(fabs(seen[i] / (double)n - exp(i / 2.0) / all) < 0.015);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_id),
		cmocka_unit_test(nan_is_never_chosen),
		cmocka_unit_test(top_k_and_top_p_cut),
		cmocka_unit_test(frequencies_follow_softmax),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
