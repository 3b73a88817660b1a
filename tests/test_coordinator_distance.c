/* What members measured of the ways between them, and what is made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "base/rng.h"
#include "coordinator/distance.h"

static void note(struct distance *d, uint32_t from, uint32_t to, double rtt_s, uint64_t at_ns)
{
	const struct distance_pair p = {.to = to, .rtt_s = rtt_s, .at_ns = at_ns};
	distance_note(d, from, &p);
}

static void what_one_says_is_kept_for_its_own_pair(void **state)
{
	(void)state;
	struct distance *d = distance_new();
	const struct distance_pair p = {
		.to = 7, .rtt_s = 0.05, .up = 1e6, .down = 2e6, .at_ns = 5, .reached = true};
	distance_note(d, 3, &p);
	note(d, 3, 7, 0.06, 9); /* the speeds stay */
	const struct distance_pair *said = distance_said(d, 3, 7);
	assert_non_null(said);
	assert_true(said->rtt_s == 0.06 && said->up == 1e6 && said->down == 2e6);
	assert_int_equal(said->at_ns, 9);
	assert_null(distance_said(d, 7, 3));
	assert_null(distance_said(d, 3, DISTANCE_COORDINATOR));
	/* Both ends said something: the one that is farther off counts. */
	note(d, 7, 3, 0.01, 10);
	assert_true(distance_rtt_s(d, 3, 7) == 0.06 && distance_rtt_s(d, 7, 3) == 0.06);
	assert_true(distance_rtt_s(d, 3, 8) == 0);
	distance_free(d);
}

static void what_cannot_be_is_passed_over(void **state)
{
	(void)state;
	struct distance *d = distance_new();
	note(d, 3, 3, 0.05, 1);
	note(d, DISTANCE_MEMBERS_MAX, 3, 0.05, 1);
	note(d, DISTANCE_COORDINATOR, 3, 0.05, 1);
	note(d, 3, DISTANCE_MEMBERS_MAX, 0.05, 1);
	note(d, 3, 4, NAN, 1);
	note(d, 3, 4, -1, 1);
	note(d, 3, 4, 61, 1);
	const struct distance_pair fast = {.to = 4, .rtt_s = 0.1, .up = INFINITY};
	distance_note(d, 3, &fast);
	size_t n;
	(void)distance_pairs(d, 3, &n);
	assert_int_equal(n, 0);
	distance_settle(d, 3);
	distance_settle(d, 12345);
	distance_free(d);
}

static void of_many_pairs_the_newest_are_kept(void **state)
{
	(void)state;
	struct distance *d = distance_new();
	size_t n;
	note(d, 1, DISTANCE_COORDINATOR, 0.05, 1);
	for (uint32_t i = 0; i < 200; i++)
		note(d, 1, 2 + i, 0.05, 10 + i);
	(void)distance_pairs(d, 1, &n);
	assert_int_equal(n, DISTANCE_PAIRS);
	assert_non_null(distance_said(d, 1, DISTANCE_COORDINATOR));
	assert_non_null(distance_said(d, 1, 201));
	assert_null(distance_said(d, 1, 2));
	distance_free(d);
}

static void items_are_read_as_the_protocol_has_them(void **state)
{
	(void)state;
	uint8_t item[DISTANCE_ITEM] = {5, 0, 0, 0, /* member */
		0x10, 0x27, 0, 0,                  /* 10000 us */
		0, 0x24, 0x74, 0x49,               /* 1e6f */
		0, 0, 0, 0,                        /* not known */
		0xe8, 3, 0, 0,                     /* a second ago */
		1, 0, 0, 0};
	struct distance_pair p;
	assert_int_equal(distance_item_read(item, 3 * CLOCK_SECOND, &p), ERR_OK);
	assert_true(p.to == 5 && p.rtt_s == 0.01 && p.up == 1e6 && p.down == 0 && p.reached);
	assert_int_equal(p.at_ns, 2 * CLOCK_SECOND);
	assert_int_equal(distance_item_read(item, CLOCK_MS, &p), ERR_OK);
	assert_int_equal(p.at_ns, 0);
	memset(item + 8, 0xff, 4); /* NaN */
	assert_int_equal(distance_item_read(item, 0, &p), ERR_syntax);
	memset(item + 8, 0, 4);
	memset(item, 0xff, 4);
	assert_int_equal(distance_item_read(item, 0, &p), ERR_syntax);
}

/* Places on a plane and access lines, of which a third of the pairs is measured. */
#define N 60u

static double truth(uint32_t a, uint32_t b)
{
	double x = rng_unit(1, 1, a), y = rng_unit(1, 2, a), u = b < N ? rng_unit(1, 1, b) : 0.5,
	       v = b < N ? rng_unit(1, 2, b) : 0.5;
	double access = 0.01 * rng_unit(1, 3, a) + (b < N ? 0.01 * rng_unit(1, 3, b) : 0);
	return 0.1 * sqrt((x - u) * (x - u) + (y - v) * (y - v)) + access;
}

static void play(struct distance *d)
{
	for (uint32_t turn = 0; turn < 60; turn++)
		for (uint32_t a = 0; a < N; a++) {
			note(d, a, DISTANCE_COORDINATOR, truth(a, N), turn + 1);
			for (uint32_t k = 0; k < N / 3; k++) {
				const uint32_t b = (uint32_t)rng_below(2, a, k, N);
				note(d, a, b, truth(a, b), turn + 1);
			}
			distance_settle(d, a);
		}
}

static void pairs_that_nobody_measured_are_guessed(void **state)
{
	(void)state;
	struct distance *d = distance_new(), *again = distance_new();
	double wrong = 0, n = 0;
	play(d);
	play(again);
	for (uint32_t a = 0; a < N; a++)
		for (uint32_t b = 0; b < a; b++) {
			if (distance_said(d, a, b) || distance_said(d, b, a))
				continue;
			const double guess = distance_rtt_s(d, a, b);
			assert_true(guess == distance_rtt_s(again, a, b));
			wrong += fabs(guess - truth(a, b)) / truth(a, b);
			n++;
		}
	print_message("guessed: off by %.1f %% on average of %.0f pairs\n", 100 * wrong / n, n);
	assert_true(n > 500 && wrong / n < 0.15);
	const struct distance_place p = distance_place(d, 5), nobody = distance_place(d, 999);
	assert_true(p.error < 0.3 && nobody.error == 1 && distance_guess_s(&p, &nobody) == 0);
	distance_free(d);
	distance_free(again);
}

/* Somebody's lies cost nobody else its place. */
static void who_lies_moves_only_itself(void **state)
{
	(void)state;
	struct distance *d = distance_new();
	play(d);
	const struct distance_place before = distance_place(d, 4), liar = distance_place(d, 3);
	for (uint32_t b = 0; b < N; b++)
		note(d, 3, b, 9, 1000);
	for (int i = 0; i < 100; i++)
		distance_settle(d, 3);
	const struct distance_place after = distance_place(d, 4), moved = distance_place(d, 3);
	assert_memory_equal(&before, &after, sizeof before);
	assert_true(moved.height != liar.height && isfinite(moved.height));
	distance_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_says_is_kept_for_its_own_pair),
		cmocka_unit_test(what_cannot_be_is_passed_over),
		cmocka_unit_test(of_many_pairs_the_newest_are_kept),
		cmocka_unit_test(items_are_read_as_the_protocol_has_them),
		cmocka_unit_test(pairs_that_nobody_measured_are_guessed),
		cmocka_unit_test(who_lies_moves_only_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
