/* The round state machine under scripted events with virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "coordinator/arrivals.h"
#include "coordinator/reason.h"
#include "coordinator/rounds.h"
#include "tests/help_rounds.h"

static struct spec make_spec(enum spec_mode mode, uint32_t peers_min, double quorum)
{
	return spec_of((struct spec_round){.mode = mode,
		.steps = mode == SPEC_fixed ? 5 : 0,
		.seconds = 10,
		.peers_min = peers_min,
		.quorum = quorum});
}

static void deliver(struct rounds *r, uint32_t member, uint64_t now)
{
	const struct rounds_member *m = rounds_ask_member(r, member);
	deliver_some(r, member, span_count(m->spans, m->n_spans), now);
}

static void opens_when_enough_are_ready(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 2, 1);
	struct rounds *r = start(&spec);
	char reason[REASON_TEXT];
	join(r, 0, 1);
	expect(r, ROUNDS_none);
	reason_text(r, &spec, 1, reason);
	assert_non_null(strstr(reason, "waiting for 1 more peer:"));
	rounds_on_joined(r, 1, 2);
	rounds_on_linked(r, 1, false, 2); /* has to sync first */
	expect(r, ROUNDS_none);
	rounds_on_at_head(r, 1, 3);
	assert_int_equal(expect(r, ROUNDS_open_round).round, 1);
	assert_int_equal(rounds_ask_member(r, 0)->spans[0].first, 0);
	assert_int_equal(rounds_ask_member(r, 0)->spans[0].last, 10);
	assert_int_equal(rounds_ask_member(r, 1)->spans[0].first, 10);
	assert_int_equal(rounds_ask_planned_tokens(r), 2 * 5 * 2 * SEQ);
	rounds_free(r);
}

static void closes_when_all_are_in(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 2, 1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	join(r, 1, 1);
	expect(r, ROUNDS_open_round);
	deliver(r, 0, 5);
	assert_int_equal(rounds_ask_member(r, 0)->state, MEMBER_in);
	assert_false(rounds_on_contribution(r, 0, 10, 6)); /* once only */
	expect(r, ROUNDS_none);
	deliver(r, 1, 7);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 160, 8);
	expect(r, ROUNDS_none);
	rounds_on_at_head(r, 0, 9);
	expect(r, ROUNDS_none); /* member 1 still applies */
	rounds_on_at_head(r, 1, 10);
	assert_int_equal(expect(r, ROUNDS_open_round).round, 2);
	rounds_free(r);
}

static void a_lost_member_is_dropped_and_its_numbers_handed_out_again(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	struct rounds *r = start(&spec);
	rounds_on_joined(r, 0, 1);
	join(r, 1, 1);
	expect(r, ROUNDS_open_round); /* with member 1 alone: one is enough */
	rounds_on_linked(r, 0, true, 1);
	rounds_on_lost(r, 1, 100);
	expect(r, ROUNDS_none);
	uint64_t late = rounds_ask_deadline(r);
	assert_true(late > 100 && late < 100 + 10 * CLOCK_SECOND);
	rounds_tick(r, late);
	assert_int_equal(expect(r, ROUNDS_drop_member).member, 1);
	expect(r, ROUNDS_abandon);
	assert_int_equal(expect(r, ROUNDS_open_round).round, 1);      /* member 0 was ready */
	assert_int_equal(rounds_ask_member(r, 0)->spans[0].first, 0); /* what member 1 had */
	assert_int_equal(rounds_ask_cursor(r), 10);
	assert_false(rounds_on_contribution(r, 1, 10, late));
	rounds_free(r);
}

static void a_member_that_comes_back_in_time_goes_on(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	rounds_on_lost(r, 0, 100);
	rounds_on_linked(r, 0, true, 200);
	assert_int_equal(rounds_ask_member(r, 0)->state, MEMBER_working);
	deliver(r, 0, 300);
	expect(r, ROUNDS_close_round);
	rounds_free(r);
}

static void a_quorum_waits_as_long_as_arrivals_teach(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_timed, 3, 0.6);
	struct rounds *r = start(&spec);
	for (uint32_t i = 0; i < 3; i++)
		join(r, i, 0);
	expect(r, ROUNDS_open_round);
	deliver(r, 0, 10 * CLOCK_SECOND);
	deliver(r, 1, 11 * CLOCK_SECOND);
	expect(r, ROUNDS_none); /* a grace window, not at once */
	assert_int_equal(rounds_ask_deadline(r), 22 * CLOCK_SECOND);
	rounds_tick(r, 22 * CLOCK_SECOND);
	assert_int_equal(expect(r, ROUNDS_drop_member).member, 2);
	expect(r, ROUNDS_close_round);
	size_t n;
	const struct span *pool = rounds_ask_pool(r, &n);
	assert_int_equal(n, 1);
	assert_true(pool[0].last > pool[0].first);
	rounds_free(r);
}

static void partial_work_returns_the_rest(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_timed, 1, 0.5);
	struct rounds *r = start(&spec);
	join(r, 0, 0);
	expect(r, ROUNDS_open_round);
	assert_true(rounds_on_contribution(r, 0, 4, 5));
	assert_false(rounds_on_contribution(r, 0, 6, 5)); /* every shard must say the same */
	assert_true(rounds_on_contribution(r, 0, 4, 6));
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 4 * SEQ, 7);
	size_t n;
	const struct span *pool = rounds_ask_pool(r, &n);
	assert_int_equal(n, 1);
	assert_int_equal(pool[0].first, 4);
	rounds_free(r);
}

/* A probe that is over before a heartbeat told the speed tells it by itself. */
static void one_probe_is_enough(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_timed, 1, 0.5);
	struct rounds *r = start(&spec);
	join(r, 0, 0);
	expect(r, ROUNDS_open_round);
	deliver(r, 0, CLOCK_SECOND);
	expect(r, ROUNDS_close_round);
	double speed = rounds_ask_member(r, 0)->speed;
	assert_true(speed >= 4 * 2 * SEQ && speed < 1000);
	rounds_on_committed(r, 64, CLOCK_SECOND);
	rounds_on_at_head(r, 0, CLOCK_SECOND);
	expect(r, ROUNDS_open_round);
	assert_true(rounds_ask_member(r, 0)->steps >= 10 * 4); /* seconds x what one second made */
	rounds_free(r);
}

/* Who answers at once looks infinitely fast, and so does who says so. */
static void nobody_is_given_the_whole_run(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_timed, 1, 0.5);
	struct rounds *r = start(&spec);
	join(r, 0, 0);
	for (uint64_t at = 0, tokens = 0; at < 8; at++) {
		expect(r, ROUNDS_open_round);
		const struct rounds_member *m = rounds_ask_member(r, 0);
		uint64_t given = span_count(m->spans, m->n_spans) * SEQ;
		assert_true(given <= spec.train.total_tokens / 20);
		rounds_on_progress(r, 0, UINT64_MAX, 1e11, at);
		deliver(r, 0, at + 1);
		expect(r, ROUNDS_close_round);
		rounds_on_committed(r, tokens += given, at + 1);
		rounds_on_at_head(r, 0, at + 1);
	}
	rounds_free(r);
}

/* The next round of both members, of which the second never delivers; when it was given up. */
static uint64_t waits_in_vain(struct rounds *r, uint64_t now, uint64_t *tokens)
{
	deliver(r, 0, now + CLOCK_SECOND);
	now = rounds_ask_deadline(r);
	rounds_tick(r, now);
	assert_int_equal(expect(r, ROUNDS_drop_member).member, 1);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, *tokens += 10 * SEQ, now);
	rounds_on_at_head(r, 1, now);
	rounds_on_at_head(r, 0, now);
	return now;
}

static void who_holds_rounds_up_is_left_out_of_the_next_ones(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	struct rounds *r = start(&spec);
	uint64_t now = 0, tokens = 0;
	rounds_on_pause(r, true, 0);
	join(r, 0, 0);
	join(r, 1, 0);
	rounds_on_pause(r, false, 0);
	for (uint32_t held = 1; held <= 3; held++) {
		expect(r, ROUNDS_open_round);
		assert_true(rounds_ask_member(r, 1)->assigned);
		now = waits_in_vain(r, now, &tokens);
		for (uint32_t i = 1; i < 1u << held; i++) {
			expect(r, ROUNDS_open_round);
			assert_false(rounds_ask_member(r, 1)->assigned);
			deliver(r, 0, now += CLOCK_SECOND);
			expect(r, ROUNDS_close_round);
			rounds_on_committed(r, tokens += 10 * SEQ, now);
			rounds_on_at_head(r, 1, now);
			rounds_on_at_head(r, 0, now);
		}
	}
	/* what it delivers makes it equal again */
	expect(r, ROUNDS_open_round);
	deliver(r, 1, now);
	assert_true(budget_welcome(&rounds_ask_member(r, 1)->patience, rounds_ask_round(r) + 1));
	rounds_free(r);
}

static void who_is_needed_is_not_left_out(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 2, 1);
	struct rounds *r = start(&spec);
	uint64_t tokens = 0;
	join(r, 0, 0);
	join(r, 1, 0);
	expect(r, ROUNDS_open_round);
	(void)waits_in_vain(r, 0, &tokens);
	expect(r, ROUNDS_open_round);
	assert_true(rounds_ask_member(r, 1)->assigned);
	rounds_free(r);
}

static void the_run_ends_with_a_last_validation(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	spec.train.total_tokens = 80;
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	deliver(r, 0, 2);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 80, 3);
	expect(r, ROUNDS_none);
	rounds_on_at_head(r, 0, 4);
	expect(r, ROUNDS_last_validation);
	rounds_on_lost(r, 0, 5); /* asked, and gone: somebody else is asked, here itself again */
	rounds_on_linked(r, 0, true, 6);
	expect(r, ROUNDS_last_validation);
	rounds_on_last_validation(r, 7);
	expect(r, ROUNDS_finish);
	assert_int_equal(rounds_ask_state(r), ROUNDS_finished);
	rounds_free(r);
}

static void the_run_ends_without_an_answer(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	spec.train.total_tokens = 160;
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	rounds_on_joined(r, 1, 1);
	expect(r, ROUNDS_open_round);
	rounds_on_linked(r, 1, true, 1);
	deliver(r, 0, 2);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 160, 3);
	rounds_on_at_head(r, 0, 4);
	rounds_on_at_head(r, 1, 4);
	assert_int_equal(expect(r, ROUNDS_last_validation).member, 0);
	for (uint32_t asked = 1; asked < 5; asked++) {
		rounds_tick(r, rounds_ask_deadline(r) - 1);
		expect(r, ROUNDS_none);
		rounds_tick(r, rounds_ask_deadline(r));
		assert_int_equal(expect(r, ROUNDS_last_validation).member, asked % 2);
	}
	rounds_tick(r, rounds_ask_deadline(r));
	expect(r, ROUNDS_finish);
	assert_int_equal(rounds_ask_state(r), ROUNDS_finished);
	rounds_free(r);
}

static void a_restart_waits_for_those_who_worked(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	struct rounds *r = start(&spec);
	const struct rounds_member was = {.spans = {{20, 30}}, .n_spans = 1, .steps = 5};
	rounds_on_joined(r, 3, 1);
	rounds_restore_open(r, 3, &was);
	rounds_restored(r, CLOCK_SECOND);
	rounds_tick(r, 20 * CLOCK_SECOND);
	expect(r, ROUNDS_none);
	rounds_on_linked(r, 3, true, 21 * CLOCK_SECOND);
	assert_int_equal(rounds_ask_member(r, 3)->state, MEMBER_working);
	deliver(r, 3, 22 * CLOCK_SECOND);
	expect(r, ROUNDS_close_round);
	rounds_free(r);
}

static void a_newcomer_close_behind_is_waited_for_a_moment(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	rounds_on_joined(r, 1, 2);
	rounds_on_linked(r, 1, false, 2);
	deliver(r, 0, 3);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 80, 4);
	rounds_on_near(r, 1, 5);
	rounds_on_at_head(r, 0, 6);
	expect(r, ROUNDS_none);
	uint64_t until = rounds_ask_deadline(r);
	assert_true(until > 6 && until <= 4 + 10 * CLOCK_SECOND);
	rounds_tick(r, until); /* it does not come: the others go on */
	expect(r, ROUNDS_open_round);
	assert_false(rounds_ask_member(r, 1)->assigned);
	rounds_free(r);
}

static void who_was_ready_but_not_in_is_not_left_out_for_ever(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	join(r, 1, 2); /* at the head, but the round is open already */
	deliver(r, 0, 3);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 80, 4);
	rounds_on_at_head(r, 0, 5); /* the faster one is there first */
	expect(r, ROUNDS_none);
	rounds_on_at_head(r, 1, 6);
	expect(r, ROUNDS_open_round);
	assert_true(rounds_ask_member(r, 1)->assigned);
	rounds_free(r);
}

static void arrivals_teach_deadlines(void **state)
{
	(void)state;
	struct arrivals a = {0};
	assert_int_equal(arrivals_expected(&a, 500, 10), 500);
	for (uint64_t i = 1; i <= 5; i++)
		arrivals_add(&a, i * 100);
	/* median 300, deviations 200 100 0 100 200: median 100 */
	assert_int_equal(arrivals_expected(&a, 1, 10), 600);
	assert_int_equal(arrivals_expected(&a, 1, 1000), 1000);
	for (int i = 0; i < 1000; i++)
		arrivals_add(&a, 7);
	assert_int_equal(arrivals_expected(&a, 1, 1), 7);
	for (int i = 0; i < ARRIVALS_KEPT; i++)
		arrivals_add(&a, 1000);
	assert_int_equal(arrivals_expected(&a, 1, 1), 1100); /* all alike: not to the nanosecond */
}

/* Of three that are in one turns out not to be: its numbers are handed out again, and the others'
 * are not. */
static void what_is_withdrawn_is_handed_out_again(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_timed, 3, 1);
	struct rounds *r = start(&spec);
	size_t n;
	for (uint32_t i = 0; i < 3; i++)
		join(r, i, 1);
	expect(r, ROUNDS_open_round);
	const struct span second = rounds_ask_member(r, 1)->spans[0];
	for (uint32_t i = 0; i < 3; i++)
		deliver_some(r, i, 1, 5);
	expect(r, ROUNDS_close_round);
	rounds_ask_pool(r, &n);
	assert_int_equal(n, 0); /* nothing yet that a death could leave in two places */
	rounds_on_withdrawn(r, 1, 6);
	assert_int_equal(expect(r, ROUNDS_drop_member).member, 1);
	rounds_on_withdrawn(r, 1, 6); /* once */
	expect(r, ROUNDS_none);
	assert_int_equal(rounds_ask_member(r, 1)->state, MEMBER_syncing);
	const struct span *pool = rounds_ask_pool(r, &n);
	assert_int_equal(n, 1);
	assert_memory_equal(pool, &second, sizeof second);
	rounds_return_rest(r);
	rounds_return_rest(r);
	uint64_t back = 0;
	pool = rounds_ask_pool(r, &n);
	for (size_t i = 0; i < n; i++)
		back += pool[i].last - pool[i].first;
	assert_int_equal(back, rounds_ask_cursor(r) - 2);
	rounds_on_committed(r, 2 * SEQ, 7);
	assert_false(rounds_ask_member(r, 1)->was_in);
	rounds_free(r);
}

/* Nobody is left of those that were in: the same round once more. */
static void a_closing_round_may_be_abandoned(void **state)
{
	(void)state;
	struct spec spec = make_spec(SPEC_fixed, 1, 1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	deliver(r, 0, 5);
	expect(r, ROUNDS_close_round);
	rounds_on_withdrawn(r, 0, 6);
	expect(r, ROUNDS_drop_member);
	expect(r, ROUNDS_abandon);
	assert_int_equal(rounds_ask_state(r), ROUNDS_waiting);
	rounds_on_at_head(r, 0, 7);
	assert_int_equal(expect(r, ROUNDS_open_round).round, 1);
	assert_int_equal(rounds_ask_member(r, 0)->spans[0].first, 0);
	rounds_free(r);
}

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_when_enough_are_ready),
		cmocka_unit_test(closes_when_all_are_in),
		cmocka_unit_test(what_is_withdrawn_is_handed_out_again),
		cmocka_unit_test(a_closing_round_may_be_abandoned),
		cmocka_unit_test(a_lost_member_is_dropped_and_its_numbers_handed_out_again),
		cmocka_unit_test(a_member_that_comes_back_in_time_goes_on),
		cmocka_unit_test(a_quorum_waits_as_long_as_arrivals_teach),
		cmocka_unit_test(partial_work_returns_the_rest),
		cmocka_unit_test(one_probe_is_enough),
		cmocka_unit_test(nobody_is_given_the_whole_run),
		cmocka_unit_test(who_holds_rounds_up_is_left_out_of_the_next_ones),
		cmocka_unit_test(who_is_needed_is_not_left_out),
		cmocka_unit_test(the_run_ends_with_a_last_validation),
		cmocka_unit_test(the_run_ends_without_an_answer),
		cmocka_unit_test(a_restart_waits_for_those_who_worked),
		cmocka_unit_test(a_newcomer_close_behind_is_waited_for_a_moment),
		cmocka_unit_test(arrivals_teach_deadlines),
		cmocka_unit_test(who_was_ready_but_not_in_is_not_left_out_for_ever),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
