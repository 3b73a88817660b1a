/* What leaves a process, under a virtual clock: bulk within the bound, what must not wait at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/rng.h"
#include "net/egress.h"

#define RATE 8000000ull /* bits/s: a megabyte */
#define PIECE 65536u
#define BEGIN (1000 * CLOCK_SECOND)

/* Two senders that always have more try to send each millisecond. */
static uint64_t send_bulk(struct egress *e, uint64_t from_ns, uint64_t upto_ns)
{
	uint64_t sent = 0;
	for (uint64_t now = from_ns; now < upto_ns; now += CLOCK_MS)
		for (int who = 0; who < 2; who++)
			if (!egress_wait_ns(e, now)) {
				egress_count(e, EGRESS_bulk, PIECE, now);
				sent += PIECE;
			}
	return sent;
}

static void bulk_stays_within_the_bound(void **state)
{
	(void)state;
	struct egress *e = egress_new(RATE);
	struct egress_figures f;
	const double per_s = RATE / 8., burst = per_s * EGRESS_BURST_S + 2 * PIECE;
	uint64_t all = 0, now = BEGIN;
	for (int i = 0; i < 30; i++, now += CLOCK_SECOND) {
		const uint64_t sent = send_bulk(e, now, now + CLOCK_SECOND);
		all += sent;
		assert_true((double)sent <= per_s + burst);
		assert_true((double)all <= per_s * (i + 1) + burst);
	}
	assert_true((double)all > per_s * 30 - burst); /* and nothing is left unused */
	egress_figures(e, now, &f);
	assert_int_equal(f.max_bits_per_s, RATE);
	assert_int_equal(f.bytes[EGRESS_bulk], all);
	assert_true(f.bits_per_s[EGRESS_bulk] > 0.98 * RATE);
	assert_true(f.bits_per_s[EGRESS_bulk] < 1.02 * RATE);
	/* A rest saves up no more than the burst. */
	assert_true((double)send_bulk(e, now + 60 * CLOCK_SECOND,
			    now + 60 * CLOCK_SECOND + CLOCK_MS) <= burst);
	egress_free(e);
}

static void control_goes_at_once_and_is_paid_for(void **state)
{
	(void)state;
	struct egress *e = egress_new(RATE);
	struct egress_figures f;
	const double per_s = RATE / 8., burst = per_s * EGRESS_BURST_S + 2 * PIECE;
	uint64_t bulk = 0, control = 0, now = BEGIN;
	for (int i = 0; i < 20000; i++, now += CLOCK_MS) {
		const size_t n = (size_t)rng_below(
			7, 0, (uint64_t)i, 1000); /* half of the bound, in the middle */
		egress_count(e, EGRESS_control, n, now);
		control += n;
		bulk += send_bulk(e, now, now + 1);
		assert_true((double)(bulk + control) <= per_s * (i + 1) / 1e3 + burst);
	}
	assert_true((double)(bulk + control) > per_s * 20 - burst);
	egress_figures(e, now, &f);
	assert_true(f.bits_per_s[EGRESS_control] > 0.45 * RATE);
	assert_true(f.bits_per_s[EGRESS_control] < 0.55 * RATE);
	egress_free(e);
}

static void what_is_owed_is_bounded(void **state)
{
	(void)state;
	struct egress *e = egress_new(RATE);
	egress_count(e, EGRESS_control, (size_t)RATE * 100, BEGIN);
	const uint64_t wait = egress_wait_ns(e, BEGIN);
	assert_true(wait > 0 && wait <= (uint64_t)(EGRESS_OWED_S * CLOCK_SECOND) + 1);
	assert_int_equal(egress_wait_ns(e, BEGIN + wait), 0);
	egress_free(e);
}

static void without_a_bound_all_is_counted(void **state)
{
	(void)state;
	struct egress *e = egress_new(0);
	struct egress_figures f;
	egress_figures(e, BEGIN, &f);
	assert_int_equal(f.bytes[EGRESS_bulk], 0);
	for (uint64_t i = 0; i < 40; i++) {
		egress_count(e, EGRESS_bulk, 1000000, BEGIN + i * CLOCK_SECOND / 4);
		assert_int_equal(egress_wait_ns(e, BEGIN + i * CLOCK_SECOND / 4), 0);
	}
	egress_figures(e, BEGIN + 10 * CLOCK_SECOND, &f);
	assert_int_equal(f.bytes[EGRESS_bulk], 40000000);
	assert_true(f.bits_per_s[EGRESS_bulk] == 32e6);
	assert_int_equal(egress_piece(e, 1u << 20), 1u << 20);
	/* Ten seconds later nothing of it is in the window. */
	egress_figures(e, BEGIN + 21 * CLOCK_SECOND, &f);
	assert_true(f.bits_per_s[EGRESS_bulk] == 0);
	egress_figures(e, BEGIN + 5000 * CLOCK_SECOND, &f);
	assert_true(f.bits_per_s[EGRESS_bulk] == 0);
	egress_free(e);
	egress_count(NULL, EGRESS_bulk, 1, BEGIN);
	assert_int_equal(egress_wait_ns(NULL, BEGIN), 0);
}

static void pieces_are_small_where_the_rate_is(void **state)
{
	(void)state;
	struct egress *slow = egress_new(64000), *quick = egress_new(1000000000);
	assert_int_equal(egress_piece(slow, 1u << 18), EGRESS_PIECE_LEAST);
	assert_int_equal(egress_piece(quick, 1u << 18), 1u << 18);
	egress_free(slow);
	egress_free(quick);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk_stays_within_the_bound),
		cmocka_unit_test(control_goes_at_once_and_is_paid_for),
		cmocka_unit_test(what_is_owed_is_bounded),
		cmocka_unit_test(without_a_bound_all_is_counted),
		cmocka_unit_test(pieces_are_small_where_the_rate_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
