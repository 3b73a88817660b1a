/* Transfers as fluids: cases that are computed by hand, and what must hold of any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "base/rng.h"
#include "sim/flow.h"

#define NEAR 1e-9
#define LINES 12
#define MANY 200

/* assert_float_equal is about floats. */
static bool near(double x, double y)
{
	return fabs(x - y) <= NEAR;
}

static uint32_t add(struct flow *f, double bytes, double delay_s, uint32_t a, uint32_t b)
{
	const struct flow_transfer t = {
		.bytes = bytes, .delay_s = delay_s, .line = {a, b, FLOW_NONE, FLOW_NONE}};
	return flow_add(f, &t);
}

static void the_slowest_line_and_the_distance_count(void **state)
{
	(void)state;
	struct flow *f = flow_new();
	const uint32_t slow = flow_line(f, 10), quick = flow_line(f, 1000), none = flow_line(f, 0);
	assert_int_equal(none, FLOW_NONE);
	const uint32_t t = add(f, 100, 0.5, quick, slow), free_way = add(f, 100, 0.25, none, none);
	flow_run(f);
	assert_true(near(flow_end_s(f, t), 10.5));
	assert_true(near(flow_end_s(f, free_way), 0.25));
	assert_true(near(flow_carried(f, slow), 100));
	assert_true(near(flow_carried(f, quick), 100));
	assert_true(near(flow_carried(f, none), 0));
	flow_free(f);
}

/* Half each until the short one is sent at 2 s, then all of it: 10 + 80 of 90 by 10 s. */
static void who_is_left_has_the_line_alone(void **state)
{
	(void)state;
	struct flow *f = flow_new();
	const uint32_t line = flow_line(f, 10);
	const uint32_t brief = add(f, 10, 0, line, FLOW_NONE),
		       longer = add(f, 90, 0, line, FLOW_NONE);
	flow_run(f);
	assert_true(near(flow_end_s(f, brief), 2));
	assert_true(near(flow_end_s(f, longer), 10));
	flow_free(f);
}

/* The one over both lines gets its half of the narrow line, 2, and the one beside it on the wide
 * line gets the 8 that are left there. */
static void rates_are_max_min_fair(void **state)
{
	(void)state;
	struct flow *f = flow_new();
	const uint32_t wide = flow_line(f, 10), narrow = flow_line(f, 4);
	const uint32_t one = add(f, 80, 0, wide, FLOW_NONE), both = add(f, 20, 0, wide, narrow),
		       other = add(f, 20, 0, narrow, FLOW_NONE);
	flow_run(f);
	assert_true(near(flow_end_s(f, one), 10));
	assert_true(near(flow_end_s(f, both), 10));
	assert_true(near(flow_end_s(f, other), 10));
	flow_free(f);
}

/* Two contributions over one line, 4 s with the way; work of 1 s; the update to one follower, 10 s
 * at 10 and 1 s of way, who only then passes it on. */
static void a_relay_begins_when_all_of_it_is_there(void **state)
{
	(void)state;
	struct flow *f = flow_new();
	const uint32_t in = flow_line(f, 10), out = flow_line(f, 10), home = flow_line(f, 100);
	const uint32_t a = add(f, 15, 1, in, FLOW_NONE), b = add(f, 15, 1, in, FLOW_NONE),
		       work = add(f, 0, 1, FLOW_NONE, FLOW_NONE),
		       down = add(f, 100, 1, out, FLOW_NONE),
		       relay = add(f, 100, 0.5, home, FLOW_NONE);
	flow_after(f, work, a);
	flow_after(f, work, b);
	flow_after(f, down, work);
	flow_after(f, relay, down);
	flow_run(f);
	assert_true(near(flow_end_s(f, a), 4));
	assert_true(near(flow_end_s(f, work), 5));
	assert_true(near(flow_end_s(f, down), 16));
	assert_true(near(flow_end_s(f, relay), 17.5));
	flow_free(f);
}

/* The second one leaves at 4 s and is there at 5 s; it would leave at 5 s after the first's
 * arrival. */
static void one_connection_sends_one_after_the_other(void **state)
{
	(void)state;
	struct flow *f = flow_new();
	const uint32_t line = flow_line(f, 10);
	const uint32_t first = add(f, 20, 1, line, FLOW_NONE),
		       second = add(f, 20, 1, line, FLOW_NONE),
		       word = add(f, 0, 0.5, FLOW_NONE, FLOW_NONE);
	flow_behind(f, second, first);
	flow_behind(f, word, second);
	flow_run(f);
	assert_true(near(flow_end_s(f, first), 3));
	assert_true(near(flow_end_s(f, second), 5));
	assert_true(near(flow_end_s(f, word), 4.5));
	flow_free(f);
}

static void it_begins_neither_before_its_time_nor_before_what_it_waits_for(void **state)
{
	(void)state;
	struct flow *f = flow_new();
	const uint32_t line = flow_line(f, 10);
	struct flow_transfer late = {
		.bytes = 10, .not_before_s = 3, .line = {line, FLOW_NONE, FLOW_NONE, FLOW_NONE}};
	const uint32_t first = add(f, 20, 0, line, FLOW_NONE), second = flow_add(f, &late),
		       chicken = add(f, 1, 0, line, FLOW_NONE), egg = add(f, 1, 0, line, FLOW_NONE);
	flow_after(f, second, first);
	flow_after(f, chicken, egg);
	flow_after(f, egg, chicken);
	flow_run(f);
	assert_true(near(flow_end_s(f, first), 2));
	assert_true(near(flow_end_s(f, second), 4));
	assert_true(isinf(flow_end_s(f, chicken)) && isinf(flow_end_s(f, egg)));
	flow_free(f);
}

/* Any transfers over any lines, some of them waiting for an earlier one. */
static struct flow *draw(uint64_t seed, double bytes[static MANY])
{
	struct flow *f = flow_new();
	for (uint64_t i = 0; i < LINES; i++)
		flow_line(f, 1 + rng_unit(seed, 1, i) * 1e6);
	for (uint32_t i = 0; i < MANY; i++) {
		const uint32_t a = (uint32_t)rng_below(seed, 2, i, LINES),
			       b = (uint32_t)rng_below(seed, 3, i, LINES);
		bytes[i] = 1 + rng_unit(seed, 4, i) * 1e7;
		add(f, bytes[i], rng_unit(seed, 5, i), a, a == b ? FLOW_NONE : b);
		if (i && rng_below(seed, 6, i, 3) == 0)
			flow_after(f, i, (uint32_t)rng_below(seed, 7, i, i));
	}
	flow_run(f);
	return f;
}

static void lines_are_never_over_full_and_runs_repeat(void **state)
{
	(void)state;
	double bytes[MANY];
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct flow *f = draw(seed, bytes), *again = draw(seed, bytes);
		double carried = 0, last = 0;
		for (uint32_t i = 0; i < MANY; i++) {
			const double end = flow_end_s(f, i), repeated = flow_end_s(again, i);
			assert_true(isfinite(end));
			assert_memory_equal(&end, &repeated, sizeof end);
			last = fmax(last, end);
		}
		for (uint32_t i = 0; i < LINES; i++) {
			const double rate = 1 + rng_unit(seed, 1, i) * 1e6;
			assert_true(flow_carried(f, i) / rate <= last * (1 + NEAR));
			carried += flow_carried(f, i);
		}
		assert_true(carried > MANY);
		flow_free(f);
		flow_free(again);
	}
}

/* Of equal contributions to one place none is there before the line has carried them all. */
static void a_star_is_as_slow_as_its_middle(void **state)
{
	(void)state;
	enum { PEERS = 500 };
	struct flow *f = flow_new();
	const uint32_t middle = flow_line(f, 1000);
	for (uint32_t i = 0; i < PEERS; i++)
		add(f, 100, 0.1, flow_line(f, 50), middle);
	flow_run(f);
	for (uint32_t i = 0; i < PEERS; i++)
		assert_true(near(flow_end_s(f, i), PEERS * 100 / 1000.0 + 0.1));
	flow_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_slowest_line_and_the_distance_count),
		cmocka_unit_test(who_is_left_has_the_line_alone),
		cmocka_unit_test(rates_are_max_min_fair),
		cmocka_unit_test(a_relay_begins_when_all_of_it_is_there),
		cmocka_unit_test(one_connection_sends_one_after_the_other),
		cmocka_unit_test(it_begins_neither_before_its_time_nor_before_what_it_waits_for),
		cmocka_unit_test(lines_are_never_over_full_and_runs_repeat),
		cmocka_unit_test(a_star_is_as_slow_as_its_middle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
