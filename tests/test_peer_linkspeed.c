/* A link's speed from the objects that went over it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include "base/clock.h"
#include "peer/linkspeed.h"

static void near(double is, double wanted, double within)
{
	if (fabs(is - wanted) > within)
		fail_msg("%g is not %g", is, wanted);
}

/* Times in milliseconds. */
static void add(struct linkspeed *l, uint64_t bytes, uint64_t began, uint64_t ended, uint64_t idle)
{
	const struct linkspeed_burst b = {
		bytes, began * CLOCK_MS, ended * CLOCK_MS, idle * CLOCK_MS};
	linkspeed_add(l, &b);
}

static void test_nothing(void **state)
{
	(void)state;
	struct linkspeed l = {0};
	assert_true(linkspeed_bits(&l) == 0);
	add(&l, 1000, 5, 5, 0); /* within one turn of a clock */
	assert_true(linkspeed_bits(&l) == 0);
}

static void test_objects_of_a_burst(void **state)
{
	(void)state;
	struct linkspeed l = {0};
	add(&l, 125000, 1000, 2000, 0);
	near(linkspeed_bits(&l), 1e6, 1);
	add(&l, 125000, 1000, 3000, 0); /* waited for the first */
	add(&l, 250000, 1500, 5000, 0);
	near(linkspeed_bits(&l), 1e6, 1);
	add(&l, 250000, 900, 6000, 0);
	near(linkspeed_bits(&l), 6e6 / 5.1, 1);
}

static void test_round_trips(void **state)
{
	(void)state;
	struct linkspeed l = {0};
	add(&l, 125000, 1000, 2200, 200);
	near(linkspeed_bits(&l), 1e6, 1);
	add(&l, 125000, 1100, 3200, 900);
	near(linkspeed_bits(&l), 1e6, 1);
	struct linkspeed odd = {0};
	add(&odd, 125000, 0, 1000, 99999);
	near(linkspeed_bits(&odd), 2e6, 1);
}

/* 20 Mbit/s and a round trip of 0.3 s: what was sent small once may grow again. */
static void test_small_bursts(void **state)
{
	(void)state;
	struct linkspeed l = {0};
	uint64_t at = 0, bytes = 4000;
	for (int i = 0; i < 2; i++, at += 10000)
		add(&l, 40000, at, at + 3000, 300); /* something else was on the link */
	near(linkspeed_bits(&l), 40000 * 8 / 2.7, 1);
	double before = linkspeed_bits(&l);
	for (int i = 0; i < 12; i++, at += 10000) {
		add(&l, bytes, at, at + 300 + bytes / 2500, 300);
		if (linkspeed_bits(&l) > 1.5 * before && bytes < 1000000)
			bytes *= 2;
		before = linkspeed_bits(&l);
	}
	assert_int_equal(bytes, 1024000);
	near(linkspeed_bits(&l), 2e7, 1e5);
}

/* A link that is slow in truth is found out by the first burst that was let grow. */
static void test_small_bursts_on_a_slow_link(void **state)
{
	(void)state;
	struct linkspeed l = {0};
	uint64_t at = 0;
	for (int i = 0; i < 20; i++, at += 10000)
		add(&l, 10000, at, at + 500, 300); /* 400 kbit/s */
	near(linkspeed_bits(&l), LINKSPEED_HOPE * 80000 / 0.25, 1);
	for (int i = 0; i < 2; i++, at += 10000)
		add(&l, 80000, at, at + 1900, 300);
	near(linkspeed_bits(&l), 4e5, 1);
}

/* One slow burst says nothing, two do. */
static void test_better_of_the_last(void **state)
{
	(void)state;
	struct linkspeed l = {0};
	add(&l, 1250000, 0, 1000, 0);
	add(&l, 125000, 10000, 11000, 0);
	near(linkspeed_bits(&l), 1e7, 1);
	add(&l, 125000, 20000, 21000, 0);
	near(linkspeed_bits(&l), 1e6, 1);
	add(&l, 1250000, 30000, 31000, 0);
	near(linkspeed_bits(&l), 1e7, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_objects_of_a_burst),
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_small_bursts),
		cmocka_unit_test(test_small_bursts_on_a_slow_link),
		cmocka_unit_test(test_better_of_the_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
