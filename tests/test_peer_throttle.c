/* The share of time that training may compute, on a clock that the tests move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "peer/throttle.h"

#define START (1000 * CLOCK_SECOND)

struct day {
	struct throttle throttle;
	uint64_t now, busy, idle;
};

static struct day begin(double share)
{
	struct day d = {.now = START};
	throttle_init(&d.throttle, share, 0);
	return d;
}

/* A spell, and the sleep after it, which ends so much later than asked. */
static uint64_t spell(struct day *d, uint64_t busy, uint64_t late)
{
	d->now += busy;
	d->busy += busy;
	uint64_t sleep = throttle_wait(&d->throttle, d->now, busy);
	d->now += sleep + late;
	d->idle += sleep + late;
	return sleep;
}

static double share_of(const struct day *d)
{
	return (double)d->busy / (double)(d->busy + d->idle);
}

static void the_share_is_kept(void **state)
{
	(void)state;
	static const double shares[] = {0.01, 0.1, 0.25, 0.5, 0.9, 1};
	static const uint64_t spells[] = {CLOCK_MS / 10, 30 * CLOCK_MS, 700 * CLOCK_MS};
	for (size_t s = 0; s < sizeof shares / sizeof *shares; s++)
		for (size_t k = 0; k < sizeof spells / sizeof *spells; k++) {
			struct day d = begin(shares[s]);
			for (int i = 0; i < 500; i++)
				spell(&d, spells[k] + (uint64_t)(i % 7) * spells[k] / 20, 0);
			assert_float_equal(share_of(&d), shares[s], 1e-5); /* whole ns */
		}
}

static void nobody_waits_without_a_limit(void **state)
{
	(void)state;
	struct day d = begin(1);
	for (int i = 0; i < 10; i++)
		assert_int_equal(spell(&d, CLOCK_SECOND / 3, 5 * CLOCK_MS), 0);
}

static void late_sleeps_are_made_up_for(void **state)
{
	(void)state;
	struct day d = begin(0.5);
	for (int i = 0; i < 1000; i++)
		spell(&d, 10 * CLOCK_MS, 3 * CLOCK_MS);
	/* The last one's lateness is not made up for yet. */
	assert_float_equal(share_of(&d), 0.5, 1e-3);
}

static void other_waits_count_as_sleep(void **state)
{
	(void)state;
	struct day d = begin(0.5);
	spell(&d, 100 * CLOCK_MS, 0);
	d.now += 60 * CLOCK_MS;
	assert_int_equal(spell(&d, 100 * CLOCK_MS, 0), 40 * CLOCK_MS);
}

/* An hour of sleep is no leave to compute for an hour. */
static void credit_ends_at_a_second(void **state)
{
	(void)state;
	struct day d = begin(0.5);
	spell(&d, 100 * CLOCK_MS, 3600 * CLOCK_SECOND);
	uint64_t free_of_sleep = 0;
	while (!spell(&d, 100 * CLOCK_MS, 0))
		free_of_sleep += 100 * CLOCK_MS;
	assert_in_range(free_of_sleep, 900 * CLOCK_MS, CLOCK_SECOND);
}

/* A caller that does not sleep, for it was called away, owes no more than a second later. */
static void debt_ends_at_a_second(void **state)
{
	(void)state;
	struct day d = begin(0.1);
	for (int i = 0; i < 50; i++) {
		d.now += CLOCK_SECOND;
		(void)throttle_wait(&d.throttle, d.now, CLOCK_SECOND);
	}
	d.now += 10 * CLOCK_MS;
	assert_in_range(throttle_wait(&d.throttle, d.now, 10 * CLOCK_MS), CLOCK_SECOND,
		CLOCK_SECOND + 90 * CLOCK_MS);
}

static void a_suspended_spell_owes_what_is_usual(void **state)
{
	(void)state;
	struct day d = begin(0.25);
	for (int i = 0; i < 5; i++)
		assert_int_equal(spell(&d, 200 * CLOCK_MS, 0), 600 * CLOCK_MS);
	assert_int_equal(spell(&d, 3600 * CLOCK_SECOND, 0), 600 * CLOCK_MS);
	assert_int_equal(spell(&d, 200 * CLOCK_MS, 0), 600 * CLOCK_MS);
}

/* A model whose steps take a minute is limited all the same, after the first few. */
static void long_spells_are_believed_in_time(void **state)
{
	(void)state;
	struct day d = begin(0.5);
	for (int i = 0; i < 10; i++)
		spell(&d, 60 * CLOCK_SECOND, 0);
	assert_int_equal(spell(&d, 60 * CLOCK_SECOND, 0), 60 * CLOCK_SECOND);
}

/* A slower device: its steps take as long whatever they take here, and lost time is lost. */
static void a_spell_takes_its_least(void **state)
{
	(void)state;
	struct day d = begin(1);
	d.throttle.least_ns = 500 * CLOCK_MS;
	assert_int_equal(spell(&d, 30 * CLOCK_MS, 90 * CLOCK_MS), 470 * CLOCK_MS);
	assert_int_equal(spell(&d, 80 * CLOCK_MS, 0), 420 * CLOCK_MS);
	assert_int_equal(spell(&d, 700 * CLOCK_MS, 0), 0);
	assert_int_equal(spell(&d, 30 * CLOCK_MS, 0), 470 * CLOCK_MS);
}

static void no_clock_breaks_it(void **state)
{
	(void)state;
	struct throttle p;
	throttle_init(&p, THROTTLE_SHARE_LEAST, 0);
	for (int i = 0; i < 200; i++)
		assert_true(throttle_wait(&p, UINT64_MAX, UINT64_MAX) < INT64_MAX);
	assert_true(throttle_wait(&p, 0, UINT64_MAX) < INT64_MAX);
	assert_true(throttle_wait(&p, UINT64_MAX, 0) <= CLOCK_SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_share_is_kept),
		cmocka_unit_test(nobody_waits_without_a_limit),
		cmocka_unit_test(late_sleeps_are_made_up_for),
		cmocka_unit_test(other_waits_count_as_sleep),
		cmocka_unit_test(credit_ends_at_a_second),
		cmocka_unit_test(debt_ends_at_a_second),
		cmocka_unit_test(a_suspended_spell_owes_what_is_usual),
		cmocka_unit_test(long_spells_are_believed_in_time),
		cmocka_unit_test(a_spell_takes_its_least),
		cmocka_unit_test(no_clock_breaks_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
