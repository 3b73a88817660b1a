/* Rounds that overlap, as one peer sees them: training goes on while a cut travels, every inner
 * step counts once, and what is late travels with the next cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "round/contribution.h"
#include "tests/help_peer.h"

static struct why why;

static void fine(enum err e)
{
	help_peer_fine(e, &why);
}

struct one {
	struct help_peer p;
	struct standing *s;
	struct plan plan;
	uint64_t step;
};

static void begin(struct one *o)
{
	*o = (struct one){0};
	help_peer_open(&o->p, NULL);
	o->s = help_peer_begin(&o->p, 1, "a");
	help_peer_plans(&o->p, 12, &o->plan, 1);
	bool cut = true;
	fine(standing_follow(o->s, &o->plan, &cut, &why));
	assert_false(cut);
}

static void end(struct one *o)
{
	standing_free(o->s);
	help_peer_release(&o->p);
}

static void go(struct one *o, int steps)
{
	for (int i = 0; i < steps; i++) {
		double loss;
		assert_true(standing_follow_left(o->s));
		fine(standing_follow_step(o->s, o->step++, &loss, &why));
	}
}

/* Sequences that the contribution in flight says, and the first of them. */
static uint64_t said(const struct one *o, uint64_t *first)
{
	struct contribution_view v;
	size_t n;
	const uint8_t *bytes = standing_sent(o->s, 0, &n);
	assert_non_null(bytes);
	fine(contribution_parse(bytes, n, &v, &why));
	*first = v.says.spans[0].first;
	return span_count(v.says.spans, v.says.n_spans);
}

/* The round is closed with what is in flight, or without. */
static void close_round(struct one *o, bool listed)
{
	struct help_peer_records r = {.n = 0};
	if (listed)
		help_peer_give(&o->p, &o->plan, o->s);
	help_peer_close(&o->p, &r);
	fine(standing_apply(o->s, r.at, r.n, &r.head, o->p.roster, &why));
	help_peer_drop(&r);
}

/* The next plan, whose data begins after so many of the one before. */
static void plan_on(struct one *o, uint64_t listed, bool *cut)
{
	struct plan next;
	help_peer_plans(&o->p, 6, &next, 1);
	const struct span fresh = next.spans[0];
	next.n_spans = span_tail(o->plan.spans, o->plan.n_spans, listed, next.spans);
	if (next.n_spans && next.spans[next.n_spans - 1].last == fresh.first)
		next.spans[next.n_spans - 1].last = fresh.last;
	else
		next.spans[next.n_spans++] = fresh;
	o->plan = next;
	o->step = 0;
	fine(standing_follow(o->s, &o->plan, cut, &why));
}

/* The working copy, the replica's values and the difference: two shards' first values will do. */
static float *working(const struct one *o)
{
	return help_peer_part(o->s, 0, PARAMS_value);
}

static void every_step_counts_once(void **state)
{
	(void)state;
	struct one o;
	uint64_t first, batch, listed = 0;
	bool cut;
	begin(&o);
	batch = o.p.spec->train.batch;
	const uint64_t start = o.plan.spans[0].first;
	for (int round = 0; round < 4; round++) {
		go(&o, 3);
		assert_true(standing_follow_uncut(o.s));
		fine(standing_follow_cut(o.s, &why));
		assert_false(standing_follow_uncut(o.s));
		/* after the first round two steps of the time in which the last cut travelled */
		uint64_t n = said(&o, &first), steps = round ? 5 : 3;
		assert_int_equal(n, steps * batch);
		assert_int_equal(first, start + listed);
		float *c = working(&o);
		go(&o, 2);
		float *w = working(&o);
		close_round(&o, true);
		/* what was trained since the cut is still there, on top of the new state */
		float *after = working(&o);
		const float *g = replica_params(o.p.replica, 0);
		for (size_t i = 0; i < replica_count(o.p.replica, 0); i++)
			assert_true(after[i] == (w[i] == c[i] ? g[i] : g[i] + (w[i] - c[i])));
		free(c);
		free(w);
		free(after);
		listed += n;
		assert_int_equal(standing_listed(o.s), listed * o.p.spec->train.seq);
		plan_on(&o, n, &cut);
		assert_false(cut);
		assert_true(standing_follow_uncut(o.s)); /* the two steps */
	}
	end(&o);
}

static void what_is_late_travels_with_the_next_cut(void **state)
{
	(void)state;
	struct one o;
	uint64_t first;
	bool cut;
	begin(&o);
	const uint64_t batch = o.p.spec->train.batch, start = o.plan.spans[0].first;
	go(&o, 3);
	fine(standing_follow_cut(o.s, &why));
	close_round(&o, false);
	assert_int_equal(standing_listed(o.s), 0);
	plan_on(&o, 0, &cut);
	go(&o, 1);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said(&o, &first), 4 * batch);
	assert_int_equal(first, start);
	close_round(&o, true);
	assert_int_equal(standing_listed(o.s), 4 * batch * o.p.spec->train.seq);
	end(&o);
}

/* The round was closed before this peer's cut: what it has made is for the next plan's. */
static void nothing_is_cut_for_a_round_that_is_closed(void **state)
{
	(void)state;
	struct one o;
	uint64_t first;
	bool cut;
	begin(&o);
	const uint64_t batch = o.p.spec->train.batch;
	go(&o, 3);
	close_round(&o, false);
	assert_false(standing_follow_uncut(o.s));
	go(&o, 1);
	assert_false(standing_follow_uncut(o.s));
	plan_on(&o, 0, &cut);
	assert_true(standing_follow_uncut(o.s));
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said(&o, &first), 4 * batch);
	end(&o);
}

/* What was listed while this peer was away is not taken for what it cut later. */
static void what_was_listed_after_a_restart_is_no_later_cut(void **state)
{
	(void)state;
	struct one o;
	uint64_t first;
	bool cut;
	begin(&o);
	const uint64_t batch = o.p.spec->train.batch;
	go(&o, 3);
	fine(standing_follow_cut(o.s, &why));
	fine(standing_save(o.s, &why));
	o.s = help_peer_again(&o.p, o.s, 1, "a");
	close_round(&o, true);
	plan_on(&o, 3 * batch, &cut);
	go(&o, 2);
	fine(standing_follow_cut(o.s, &why));
	close_round(&o, false);
	plan_on(&o, 0, &cut);
	go(&o, 1);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said(&o, &first), 3 * batch);
	end(&o);
}

/* ---- shards take turns */

/* The next plan as the coordinator makes it, who has the same numbers. */
static void plan_turn(struct one *o, uint64_t listed, bool *cut)
{
	const struct spec_round *r = &o->p.spec->round;
	struct plan next;
	help_peer_plans(&o->p, 6, &next, 1);
	const struct span fresh = next.spans[0];
	memcpy(next.spans, o->plan.spans, sizeof next.spans);
	memcpy(next.listed, o->plan.listed, sizeof next.listed);
	next.listed[turns_fragment(r, o->plan.round)] += listed;
	next.n_spans = turns_settle(r, next.spans, o->plan.n_spans, next.listed);
	if (next.spans[next.n_spans - 1].last == fresh.first)
		next.spans[next.n_spans - 1].last = fresh.last;
	else
		next.spans[next.n_spans++] = fresh;
	o->plan = next;
	o->step = 0;
	fine(standing_follow(o->s, &o->plan, cut, &why));
}

static uint64_t said_by(const struct one *o, uint32_t shard, uint64_t *first)
{
	struct contribution_view v;
	size_t n;
	const uint8_t *bytes = standing_sent(o->s, shard, &n), *other;
	assert_non_null(bytes);
	other = standing_sent(o->s, !shard, &n);
	assert_null(other);
	bytes = standing_sent(o->s, shard, &n);
	fine(contribution_parse(bytes, n, &v, &why));
	*first = v.says.spans[0].first;
	uint64_t sequences = span_count(v.says.spans, v.says.n_spans);
	assert_int_equal(v.says.tokens, sequences * o->p.spec->train.seq);
	return sequences;
}

static void shards_take_turns(void **state)
{
	(void)state;
	struct one o;
	uint64_t first;
	bool cut;
	begin(&o);
	o.p.spec->round.fragments = 2;
	const uint64_t b = o.p.spec->train.batch, start = o.plan.spans[0].first;
	go(&o, 3);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said_by(&o, 0, &first), 3 * b);
	go(&o, 2);
	float *w = help_peer_part(o.s, 1, PARAMS_value);
	close_round(&o, true);
	float *after = help_peer_part(o.s, 1, PARAMS_value);
	assert_memory_equal(w, after, replica_count(o.p.replica, 1) * sizeof *w);
	free(w);
	free(after);
	plan_turn(&o, 3 * b, &cut);
	assert_false(cut);
	assert_true(standing_follow_uncut(o.s));
	go(&o, 1);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said_by(&o, 1, &first), 6 * b); /* all six steps, as its first */
	assert_int_equal(first, start);
	close_round(&o, true);
	assert_int_equal(standing_listed(o.s), (3 + 6) * b * o.p.spec->train.seq / 2);
	plan_turn(&o, 6 * b, &cut);
	assert_int_equal(o.plan.listed[0], 0);
	assert_int_equal(o.plan.listed[1], 3 * b);
	go(&o, 1);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said_by(&o, 0, &first), 4 * b);
	assert_int_equal(first, start + 3 * b);
	close_round(&o, false); /* late: it travels with this shard's next turn */
	plan_turn(&o, 0, &cut);
	go(&o, 1);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said_by(&o, 1, &first), 2 * b);
	close_round(&o, true);
	plan_turn(&o, 2 * b, &cut);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said_by(&o, 0, &first), 5 * b);
	end(&o);
}

/* Killed after a cut of one shard, it has also what the other has made since its own. */
static void a_restart_between_turns_goes_on(void **state)
{
	(void)state;
	struct one o;
	uint64_t first;
	bool cut;
	begin(&o);
	o.p.spec->round.fragments = 2;
	const uint64_t b = o.p.spec->train.batch;
	go(&o, 3);
	fine(standing_follow_cut(o.s, &why));
	fine(standing_save(o.s, &why));
	float *w = help_peer_part(o.s, 1, PARAMS_value);
	o.s = help_peer_again(&o.p, o.s, 1, "a");
	fine(standing_follow(o.s, &o.plan, &cut, &why));
	assert_true(cut);
	float *again = help_peer_part(o.s, 1, PARAMS_value);
	assert_memory_equal(w, again, replica_count(o.p.replica, 1) * sizeof *w);
	free(w);
	free(again);
	go(&o, 1);
	close_round(&o, true);
	plan_turn(&o, 3 * b, &cut);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said_by(&o, 1, &first), 4 * b);
	end(&o);
}

/* Its numbers went to others: what was made of them is given up. */
static void data_that_is_taken_away_is_dropped(void **state)
{
	(void)state;
	struct one o;
	bool cut;
	begin(&o);
	go(&o, 3);
	help_peer_plans(&o.p, 6, &o.plan, 1); /* fresh ones */
	fine(standing_follow(o.s, &o.plan, &cut, &why));
	assert_false(standing_follow_uncut(o.s));
	float *w = working(&o);
	assert_memory_equal(
		w, replica_params(o.p.replica, 0), replica_count(o.p.replica, 0) * sizeof *w);
	free(w);
	end(&o);
}

/* The plan is said again while its answer is in flight, also after a restart. */
static void an_answer_in_flight_is_given_again(void **state)
{
	(void)state;
	struct one o;
	uint64_t first;
	bool cut = false;
	begin(&o);
	go(&o, 3);
	fine(standing_follow_cut(o.s, &why));
	fine(standing_save(o.s, &why));
	go(&o, 1);
	fine(standing_follow(o.s, &o.plan, &cut, &why));
	assert_true(cut);
	assert_true(standing_follow_uncut(o.s));
	o.s = help_peer_again(&o.p, o.s, 1, "a");
	fine(standing_follow(o.s, &o.plan, &cut, &why));
	assert_true(cut);
	assert_false(standing_follow_uncut(o.s)); /* the step after the cut died with the process */
	go(&o, 2);
	close_round(&o, true);
	assert_int_equal(standing_listed(o.s), 3 * o.p.spec->train.batch * o.p.spec->train.seq);
	plan_on(&o, 3 * o.p.spec->train.batch, &cut);
	go(&o, 1);
	fine(standing_follow_cut(o.s, &why));
	assert_int_equal(said(&o, &first), 3 * o.p.spec->train.batch);
	end(&o);
}

/* The loss that is asked for is the replica's, and W stays where it is. */
static void the_loss_is_that_of_the_replica(void **state)
{
	(void)state;
	struct one o;
	struct trainer_validation before, after;
	begin(&o);
	fine(standing_follow_validate(o.s, 3, &before, &why));
	go(&o, 5);
	float *w = working(&o);
	fine(standing_follow_validate(o.s, 3, &after, &why));
	assert_true(before.per_byte == after.per_byte);
	float *again = working(&o);
	assert_memory_equal(w, again, replica_count(o.p.replica, 0) * sizeof *w);
	fine(trainer_validate(standing_trainer(o.s), 3, &after, &why));
	assert_true(before.per_byte != after.per_byte);
	free(w);
	free(again);
	end(&o);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)
	const struct CMUnitTest tests[] = {
		T(every_step_counts_once),
		T(what_is_late_travels_with_the_next_cut),
		T(nothing_is_cut_for_a_round_that_is_closed),
		T(what_was_listed_after_a_restart_is_no_later_cut),
		T(shards_take_turns),
		T(a_restart_between_turns_goes_on),
		T(data_that_is_taken_away_is_dropped),
		T(an_answer_in_flight_is_given_again),
		T(the_loss_is_that_of_the_replica),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
