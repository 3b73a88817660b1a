/* The schedule of a chaos run: the same seed gives the same, and everything gets its turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "tests/chaos/schedule.h"

#define MOST 2000
#define PEERS 4

static size_t make(uint64_t seed, uint64_t seconds, struct schedule_event *out)
{
	const struct schedule_wish wish = {
		.seed = seed, .length_ms = seconds * 1000, .peers = PEERS};
	return schedule_make(&wish, out, MOST);
}

static void the_same_seed_gives_the_same(void **state)
{
	(void)state;
	static struct schedule_event a[MOST], b[MOST];
	size_t n = make(7, 300, a);
	assert_true(n > 100);
	assert_int_equal(make(7, 300, b), n);
	assert_memory_equal(a, b, n * sizeof *a);
	make(8, 300, b);
	assert_memory_not_equal(a, b, n * sizeof *a);
	/* a longer run begins as a shorter one */
	size_t some = make(7, 100, b);
	assert_true(some < n);
	assert_memory_equal(a, b, some * sizeof *a);
}

static void every_kind_comes_within_twenty_events(void **state)
{
	(void)state;
	static struct schedule_event e[MOST];
	for (uint64_t seed = 1; seed <= 100; seed++) {
		uint32_t seen = 0;
		assert_true(make(seed, 120, e) >= 20);
		for (int i = 0; i < 20; i++)
			seen |= 1u << e[i].kind;
		assert_int_equal(seen, (1u << SCHEDULE_KINDS) - 1);
	}
}

static bool meet(const struct schedule_event *a, const struct schedule_event *b)
{
	if (a->target == b->target)
		return true;
	return (a->target == SCHEDULE_ALL && b->target) || (b->target == SCHEDULE_ALL && a->target);
}

static void nobody_suffers_two_things_at_once(void **state)
{
	(void)state;
	static struct schedule_event e[MOST];
	for (uint64_t seed = 1; seed <= 20; seed++) {
		size_t n = make(seed, 300, e);
		for (size_t i = 0; i < n; i++) {
			assert_true(e[i].until_ms > e[i].at_ms && e[i].at_ms < 300000);
			for (size_t k = 0; k < i; k++) {
				assert_true(e[k].at_ms <= e[i].at_ms);
				if (meet(&e[i], &e[k]))
					assert_true(e[k].until_ms < e[i].at_ms);
			}
		}
	}
}

static void what_is_said_can_be_read(void **state)
{
	(void)state;
	static struct schedule_event e[MOST], back[MOST];
	static char text[MOST * SCHEDULE_LINE];
	struct why why = {0};
	size_t n = make(5, 200, e), got, len = 0;
	for (size_t i = 0; i < n; i++) {
		char line[SCHEDULE_LINE];
		schedule_say(&e[i], line);
		len += (size_t)snprintf(text + len, sizeof text - len, "%s\n", line);
	}
	assert_int_equal(schedule_parse(text, PEERS, back, MOST, &got, &why), ERR_OK);
	assert_int_equal(got, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(back[i].kind, e[i].kind);
		assert_int_equal(back[i].target, e[i].target);
		assert_int_equal(back[i].at_ms, e[i].at_ms);
		assert_int_equal(back[i].until_ms, e[i].until_ms);
		assert_int_equal(back[i].amount, e[i].amount);
	}
}

static void a_script_is_sorted_and_its_mistakes_named(void **state)
{
	(void)state;
	struct schedule_event e[4];
	struct why why = {0};
	size_t n;
	assert_int_equal(
		schedule_parse("# two\n 9 kill coordinator 2\n\n1.5 clock peer2 3 -60 # x\n", PEERS,
			e, 4, &n, &why),
		ERR_OK);
	assert_int_equal(n, 2);
	assert_int_equal(e[0].kind, SCHEDULE_clock_peer);
	assert_int_equal(e[0].until_ms, 4500);
	assert_int_equal(e[0].amount, -60);
	assert_int_equal(e[1].target, SCHEDULE_COORDINATOR);
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"1 kill peer1 2\n3 kil peer1 2", "line 2: \"kil\""},
		{"1 kill peer5 2", "peer1 to peer4"},
		{"1 kill peer0 2", "peer1 to peer4"},
		{"1 slow coordinator 2 5", "the coordinator"},
		{"1 kill all 2", "all peers"},
		{"x kill peer1 2", "no number"},
		{"-1 kill peer1 2", "no number"},
		{"1 kill peer1", "SECONDS VERB TARGET"},
		{"1 clock peer1 2", "needs an amount"},
		{"1 slow peer1 2 9x", "needs an amount"},
		{"1 kill peer1 2 7", "no amount"},
		{"1 kill peer1 2 7 8", "five words"},
		{"1 kill peer1 2\n1 kill peer1 2\n1 kill peer1 2\n1 kill peer1 2\n1 kill peer1 2",
			"line 5: more than 4"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_not_equal(schedule_parse(bad[i].text, PEERS, e, 4, &n, &why), ERR_OK);
		if (!strstr(why.text, bad[i].says))
			fail_msg("\"%s\" is not in: %s", bad[i].says, why.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_seed_gives_the_same),
		cmocka_unit_test(every_kind_comes_within_twenty_events),
		cmocka_unit_test(nobody_suffers_two_things_at_once),
		cmocka_unit_test(what_is_said_can_be_read),
		cmocka_unit_test(a_script_is_sorted_and_its_mistakes_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
