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
	add(&odd, 125000, 0, 1000, 999);
	near(linkspeed_bits(&odd), 2e6, 1);
	add(&odd, 125000, 5000, 6000, 99999);
	near(linkspeed_bits(&odd), 2e6, 1);
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
		cmocka_unit_test(test_better_of_the_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
