/* The round machine where rounds overlap: nobody waits for anybody, streams go on from round to
 * round, and no number is lost. */
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
#include "coordinator/budget.h"
#include "coordinator/rounds.h"
#include "tests/help_rounds.h"

#define LENGTH (10 * CLOCK_SECOND)

static struct spec make_spec(double quorum)
{
	return spec_of((struct spec_round){.mode = SPEC_timed,
		.seconds = 10,
		.peers_min = 1,
		.quorum = quorum,
		.overlap = true});
}

static uint64_t begins(const struct rounds *r, uint32_t member)
{
	assert_true(rounds_ask_member(r, member)->n_spans > 0);
	return rounds_ask_member(r, member)->spans[0].first;
}

static void the_next_round_opens_with_the_commit(void **state)
{
	(void)state;
	struct spec spec = make_spec(1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	join(r, 1, 2);
	assert_int_equal(expect(r, ROUNDS_add_member).member, 1); /* with most of it left */
	assert_true(rounds_ask_member(r, 1)->seconds > 9.9);
	uint64_t a = begins(r, 0), b = begins(r, 1);
	deliver_some(r, 0, 6, LENGTH);
	deliver_some(r, 1, 4, LENGTH + 1);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 10 * SEQ, LENGTH + 2);
	assert_int_equal(expect(r, ROUNDS_open_round).round, 2);
	assert_int_equal(begins(r, 0), a + 6); /* right behind what is listed */
	assert_int_equal(begins(r, 1), b + 4);
	assert_int_equal(rounds_ask_member(r, 0)->state, MEMBER_working);
	rounds_free(r);
}

static void a_stream_has_a_reserve(void **state)
{
	(void)state;
	struct spec spec = make_spec(1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	const struct rounds_member *m = rounds_ask_member(r, 0);
	for (uint64_t round = 1; round < 50; round++) {
		uint64_t have = span_count(m->spans, m->n_spans);
		assert_true(have <= budget_reserve(&spec, m->steps));
		assert_true(have >= 2 * m->steps * spec.train.batch);
		rounds_on_progress(r, 0, 1, 100, round * LENGTH - 5);
		deliver_some(r, 0, m->steps * spec.train.batch, round * LENGTH);
		expect(r, ROUNDS_close_round);
		rounds_on_committed(r, round * SEQ, round * LENGTH + 1);
		expect(r, ROUNDS_open_round);
	}
	rounds_free(r);
}

static void who_comes_late_in_a_round_waits_for_the_next(void **state)
{
	(void)state;
	struct spec spec = make_spec(1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	join(r, 1, LENGTH * 9 / 10);
	expect(r, ROUNDS_none);
	assert_int_equal(rounds_ask_member(r, 1)->state, MEMBER_ready);
	deliver_some(r, 0, 6, LENGTH);
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 6 * SEQ, LENGTH + 2);
	expect(r, ROUNDS_open_round);
	assert_int_equal(rounds_ask_member(r, 1)->state, MEMBER_working);
	rounds_free(r);
}

/* Without it, who is ready would wait for who is late until that one is given up. */
static void a_round_that_is_held_up_takes_in_who_is_ready(void **state)
{
	(void)state;
	struct spec spec = make_spec(0.6);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	join(r, 1, 1);
	expect(r, ROUNDS_add_member);
	join(r, 2, LENGTH * 9 / 10);
	deliver_some(r, 0, 2, LENGTH);
	expect(r, ROUNDS_none);
	rounds_on_pause(r, true, LENGTH);
	uint64_t given_up = rounds_ask_deadline(r);
	rounds_on_pause(r, false, LENGTH);
	uint64_t now = rounds_ask_deadline(r);
	assert_true(now < given_up && now < 3 * LENGTH);
	rounds_tick(r, now - 1);
	expect(r, ROUNDS_none);
	rounds_tick(r, now);
	assert_int_equal(expect(r, ROUNDS_add_member).member, 2);
	assert_true(rounds_ask_member(r, 2)->seconds > 2 && rounds_ask_member(r, 2)->seconds < 3);
	assert_int_equal(rounds_ask_deadline(r), given_up); /* nobody is left to be taken in */
	deliver_some(r, 2, 1, now + LENGTH / 4);
	now = rounds_ask_deadline(r); /* a quorum is in */
	assert_true(now < given_up);
	rounds_tick(r, now);
	assert_int_equal(expect(r, ROUNDS_drop_member).member, 1);
	expect(r, ROUNDS_close_round);
	rounds_free(r);
}

/* A round that it did not reach goes on without it, and it keeps its data; the third time it is
 * taken away. */
static void who_is_late_sends_with_the_next_round(void **state)
{
	(void)state;
	struct spec spec = make_spec(0.5);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	join(r, 1, 1);
	expect(r, ROUNDS_add_member);
	uint64_t first = begins(r, 1), now = 1;
	for (int late = 1; late <= 3; late++) {
		now += LENGTH;
		deliver_some(r, 0, 2, now);
		now += 3 * LENGTH;
		rounds_tick(r, now);
		assert_int_equal(expect(r, ROUNDS_drop_member).member, 1);
		expect(r, ROUNDS_close_round);
		rounds_on_committed(r, (uint64_t)late * SEQ, now);
		expect(r, ROUNDS_open_round);
		if (late < 3)
			assert_int_equal(begins(r, 1), first);
	}
	assert_int_equal(rounds_ask_member(r, 1)->state, MEMBER_syncing);
	assert_int_equal(rounds_ask_member(r, 1)->n_spans, 0);
	size_t n;
	const struct span *pool = rounds_ask_pool(r, &n);
	bool back = false;
	for (size_t i = 0; i < n; i++)
		back |= pool[i].first <= first && first < pool[i].last;
	assert_true(back || begins(r, 0) <= first);
	rounds_free(r);
}

/* ---- random events */

#define MEMBERS 7

struct world {
	struct rounds *r;
	uint64_t seed, draws, now, credited, closed;
};

static uint64_t draw(struct world *w, uint64_t below)
{
	return rng_below(w->seed, 1, w->draws++, below);
}

/* Listed + returned + handed out = all that was ever drawn from the cursor, each in one place. */
static void account_balances(const struct world *w)
{
	size_t n;
	const struct span *pool = rounds_ask_pool(w->r, &n);
	uint64_t sum = w->credited;
	for (size_t i = 0; i < n; i++)
		sum += pool[i].last - pool[i].first;
	for (uint32_t i = 0; i < MEMBERS; i++)
		sum += span_count(
			rounds_ask_member(w->r, i)->spans, rounds_ask_member(w->r, i)->n_spans);
	assert_int_equal(sum, rounds_ask_cursor(w->r));
}

static void act(struct world *w)
{
	for (struct rounds_action a; (a = rounds_next(w->r)).kind != ROUNDS_none;) {
		if (a.kind != ROUNDS_close_round)
			continue;
		for (uint32_t i = 0; i < MEMBERS; i++)
			if (!draw(w, 10))
				rounds_on_withdrawn(w->r, i, w->now);
		if (rounds_ask_state(w->r) != ROUNDS_closing)
			continue;
		for (uint32_t i = 0; i < MEMBERS; i++)
			if (rounds_ask_member(w->r, i)->assigned)
				w->credited += rounds_ask_member(w->r, i)->sequences_in;
		w->closed++;
		rounds_on_committed(w->r, w->credited * SEQ, w->now);
	}
	account_balances(w);
}

static void random_event(struct world *w)
{
	uint32_t i = (uint32_t)draw(w, MEMBERS);
	const struct rounds_member *m = rounds_ask_member(w->r, i);
	uint64_t all = span_count(m->spans, m->n_spans), some = all ? 1 + draw(w, all) : 1;
	switch (draw(w, 8)) {
	case 0: rounds_on_linked(w->r, i, draw(w, 2), w->now); break;
	case 1:
	case 2: rounds_on_at_head(w->r, i, w->now); break;
	case 3:
		draw(w, 3) ? rounds_on_lost(w->r, i, w->now) : rounds_on_gone(w->r, i, w->now);
		break;
	case 4:
		draw(w, 4) ? rounds_on_progress(w->r, i, draw(w, 9), (double)draw(w, 500), w->now)
			   : rounds_on_withdrawn(w->r, i, w->now);
		break;
	case 5:
	case 6:
		for (int s = 0; s < SHARDS; s++)
			(void)rounds_on_contribution(w->r, i, some, w->now);
		break;
	default: w->now += draw(w, LENGTH); rounds_tick(w->r, w->now);
	}
}

static void random_events_lose_no_number(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct spec spec = make_spec(seed % 2 ? 1 : 0.5);
		struct world w = {.r = start(&spec), .seed = seed, .now = 1};
		for (uint32_t i = 0; i < MEMBERS; i++)
			rounds_on_joined(w.r, i, 1);
		for (int i = 0; i < 6000; i++) {
			random_event(&w);
			act(&w);
		}
		assert_true(w.closed > 20);
		rounds_free(w.r);
	}
}

/* Of the shards' numbers each is in the ledger, in the pool, in a stream, or void. */
static uint64_t accounted(const struct rounds *r, uint64_t listed)
{
	size_t n;
	const struct span *pool = rounds_ask_pool(r, &n);
	uint64_t sum = listed + rounds_ask_voided(r);
	for (size_t i = 0; i < n; i++)
		sum += SHARDS * (pool[i].last - pool[i].first);
	for (uint32_t i = 0; i < rounds_ask_members(r); i++) {
		const struct rounds_member *m = rounds_ask_member(r, i);
		for (uint32_t s = 0; m && s < SHARDS; s++)
			sum += span_count(m->spans, m->n_spans) - m->listed[s];
	}
	return sum;
}

static void one_fragment_in_each_round(void **state)
{
	(void)state;
	struct spec spec = make_spec(1);
	spec.round.fragments = SHARDS;
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	join(r, 1, 2);
	expect(r, ROUNDS_add_member);
	assert_true(rounds_on_contribution(r, 0, 6, LENGTH));
	assert_false(rounds_on_contribution(r, 0, 6, LENGTH)); /* one shard is all there is */
	assert_true(rounds_on_contribution(r, 1, 4, LENGTH));
	expect(r, ROUNDS_close_round);
	rounds_on_committed(r, 10 * SEQ / SHARDS, LENGTH + 2);
	expect(r, ROUNDS_open_round);
	assert_int_equal(rounds_ask_member(r, 0)->listed[0], 6);
	assert_int_equal(accounted(r, 10), SHARDS * rounds_ask_cursor(r));
	/* the other shard's first turn brings two rounds' worth */
	assert_true(rounds_on_contribution(r, 0, 12, 2 * LENGTH));
	rounds_on_lost(r, 1, 2 * LENGTH);
	rounds_tick(r, 3 * LENGTH);
	expect(r, ROUNDS_drop_member);
	expect(r, ROUNDS_close_round);
	assert_int_equal(rounds_ask_voided(r), 4); /* that one shard has and the other never will */
	rounds_on_committed(r, 22 * SEQ / SHARDS, 3 * LENGTH + 1);
	expect(r, ROUNDS_open_round);
	assert_int_equal(rounds_ask_member(r, 0)->listed[0], 0);
	assert_int_equal(rounds_ask_member(r, 0)->listed[1], 6);
	assert_int_equal(accounted(r, 22), SHARDS * rounds_ask_cursor(r));
	rounds_free(r);
}

/* What it handed in is not listed, and its stream goes on with the next round. */
static void who_is_withdrawn_keeps_its_stream(void **state)
{
	(void)state;
	struct spec spec = make_spec(1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	join(r, 1, 2);
	expect(r, ROUNDS_add_member);
	uint64_t begin = begins(r, 1);
	deliver_some(r, 0, 4, LENGTH);
	deliver_some(r, 1, 4, LENGTH);
	expect(r, ROUNDS_close_round);
	rounds_on_withdrawn(r, 1, LENGTH);
	expect(r, ROUNDS_drop_member);
	rounds_on_committed(r, 4 * SEQ, LENGTH + 2);
	expect(r, ROUNDS_open_round);
	assert_true(rounds_ask_member(r, 1)->assigned);
	assert_int_equal(begins(r, 1), begin);
	assert_int_equal(accounted(r, 4 * SHARDS), SHARDS * rounds_ask_cursor(r));
	rounds_free(r);
}

/* Nobody is in it: it opens again, and whoever is late is asked again for the same. */
static void an_abandoned_round_goes_on(void **state)
{
	(void)state;
	struct spec spec = make_spec(0.5);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	uint64_t begin = begins(r, 0);
	rounds_tick(r, 1000 * LENGTH);
	expect(r, ROUNDS_drop_member);
	expect(r, ROUNDS_abandon);
	assert_int_equal(expect(r, ROUNDS_open_round).round, 1);
	assert_int_equal(begins(r, 0), begin);
	assert_int_equal(accounted(r, 0), SHARDS * rounds_ask_cursor(r));
	deliver_some(r, 0, 6, 1001 * LENGTH);
	expect(r, ROUNDS_close_round);
	rounds_free(r);
}

/* A process that begins anew would count the whole time again, and be late. */
static void who_is_back_has_what_is_left_of_the_round(void **state)
{
	(void)state;
	struct spec spec = make_spec(1);
	struct rounds *r = start(&spec);
	join(r, 0, 1);
	expect(r, ROUNDS_open_round);
	rounds_on_lost(r, 0, LENGTH / 2);
	rounds_on_linked(r, 0, true, LENGTH * 6 / 10);
	assert_int_equal(rounds_ask_member(r, 0)->state, MEMBER_working);
	double left = rounds_ask_member(r, 0)->seconds;
	assert_true(left > 3.9 && left < 4.1);
	rounds_on_lost(r, 0, LENGTH * 2);
	rounds_on_linked(r, 0, true, LENGTH * 2 + 1);
	left = rounds_ask_member(r, 0)->seconds;
	assert_true(left > 0.4 && left < 0.6); /* never 0, which is no limit */
	rounds_free(r);
}

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_back_has_what_is_left_of_the_round),
		cmocka_unit_test(one_fragment_in_each_round),
		cmocka_unit_test(an_abandoned_round_goes_on),
		cmocka_unit_test(who_is_withdrawn_keeps_its_stream),
		cmocka_unit_test(the_next_round_opens_with_the_commit),
		cmocka_unit_test(a_stream_has_a_reserve),
		cmocka_unit_test(who_comes_late_in_a_round_waits_for_the_next),
		cmocka_unit_test(a_round_that_is_held_up_takes_in_who_is_ready),
		cmocka_unit_test(who_is_late_sends_with_the_next_round),
		cmocka_unit_test(random_events_lose_no_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
