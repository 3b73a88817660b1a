/* Whose turn it is, and how far each fragment has come in its member's data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "round/turns.h"

#define SHARDS 5u

static void every_shard_has_its_turn_once(void **state)
{
	(void)state;
	for (uint32_t fragments = 0; fragments <= SHARDS; fragments++) {
		const struct spec_round r = {.fragments = fragments};
		const uint32_t every = turns_fragments(&r);
		assert_int_equal(every, fragments ? fragments : 1);
		uint32_t had[SHARDS] = {0};
		for (uint64_t round = 8; round < 8 + every; round++) {
			uint32_t n = 0;
			for (uint32_t s = 0; s < SHARDS; s++) {
				bool has = turns_has(&r, round, s);
				assert_int_equal(has, turns_fragment(&r, round) == s % every);
				had[s] += has;
				n += has;
			}
			assert_int_equal(n, turns_shards(&r, round, SHARDS));
			assert_true(turns_has(&r, round, turns_fragment(&r, round)));
		}
		for (uint32_t s = 0; s < SHARDS; s++)
			assert_int_equal(had[s], 1);
	}
}

static void what_all_have_leaves_the_list(void **state)
{
	(void)state;
	const struct spec_round r = {.fragments = 3};
	struct span spans[SPAN_MAX] = {{10, 14}, {20, 30}};
	uint64_t listed[SPEC_FRAGMENTS_MAX] = {5, 9, 0};
	assert_int_equal(turns_most(listed), 9);
	assert_int_equal(turns_settle(&r, spans, 2, listed), 2); /* one has nothing yet */
	assert_int_equal(spans[0].first, 10);
	listed[2] = 12;
	assert_int_equal(turns_settle(&r, spans, 2, listed), 1);
	assert_int_equal(spans[0].first, 21);
	assert_int_equal(spans[0].last, 30);
	const uint64_t left[3] = {0, 4, 7};
	assert_memory_equal(listed, left, sizeof left);
	/* shards 0 and 3 lack seven, 1 and 4 three, 2 nothing */
	assert_int_equal(turns_missing(&r, SHARDS, listed), 2 * 7 + 2 * 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shard_has_its_turn_once),
		cmocka_unit_test(what_all_have_leaves_the_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
