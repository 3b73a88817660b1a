/* The permutation: a bijection for every size, the same on every machine, different by key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "model/permute.h"

static void check_bijection(uint64_t key, uint64_t n)
{
	uint8_t *seen = alloc_must_zero(n, 1);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t to = permute(key, i, n);
		assert_true(to < n);
		assert_false(seen[to]++);
		assert_int_equal(permute_inverse(key, to, n), i);
	}
	free(seen);
}

static void small_sizes_are_permuted(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 260; n++)
		for (uint64_t key = 0; key < 3; key++)
			check_bijection(key << 60 | key, n);
	static const uint64_t sizes[] = {1009, 4095, 4096, 4097, 16384, 65537};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_bijection(rng_u64(7, 7, i), sizes[i]);
}

/* No table fits: that the inverse leads back shows that no two positions share an image. */
static void large_sizes_are_permuted(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {(1ull << 32) + 15, 1ull << 32, (1ull << 32) - 5,
		999999999989ull, (1ull << 63) + 1, UINT64_MAX};
	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
		for (uint64_t i = 0; i < 500; i++) {
			uint64_t n = sizes[k], key = rng_u64(1, k, i);
			uint64_t at = i < 20   ? i
				      : i < 40 ? n - 1 - (i - 20)
					       : rng_below(2, k, i, n);
			uint64_t to = permute(key, at, n);
			assert_true(to < n);
			assert_int_equal(permute_inverse(key, to, n), at);
			assert_int_equal(permute(key, permute_inverse(key, at, n), n), at);
		}
}

/* The order of a run's data: other numbers here would break every run that exists. */
static void values_are_pinned(void **state)
{
	(void)state;
	static const uint64_t ten[] = {4, 2, 5, 6, 9, 0, 1, 8, 7, 3};
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(permute(42, i, 10), ten[i]);
	assert_int_equal(permute(42, 0, 1000003), 344815);
	assert_int_equal(permute(42, 1, (1ull << 32) + 15), 1884707620);
}

/* Where a position goes is as good as random over the keys, also in tiny domains. */
static void keys_spread_evenly(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {2, 3, 5, 16};
	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
		uint64_t n = sizes[k];
		unsigned count[16][16] = {{0}};
		for (uint64_t key = 0; key < 1000 * n; key++)
			for (uint64_t i = 0; i < n; i++)
				count[i][permute(key, i, n)]++;
		for (uint64_t i = 0; i < n; i++)
			for (uint64_t j = 0; j < n; j++)
				assert_in_range(count[i][j], 850, 1150);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_sizes_are_permuted),
		cmocka_unit_test(large_sizes_are_permuted),
		cmocka_unit_test(values_are_pinned),
		cmocka_unit_test(keys_spread_evenly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
