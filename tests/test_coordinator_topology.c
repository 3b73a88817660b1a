/* Who aggregates: the plan and its prediction as functions of what was measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "coordinator/topology.h"

#define MB 1e6
#define MBIT (1e6 / 8)

/* ---- worlds */

static struct topology_in world(
	uint32_t members, uint32_t shards, double contribution, double update)
{
	struct topology_in in = {
		.n_members = members, .n_shards = shards, .up = 10 * MB, .down = 10 * MB};
	in.members = alloc_must_zero(members + 1u, sizeof *in.members);
	in.shards = alloc_must_zero(shards + 1u, sizeof *in.shards);
	in.pairs = alloc_must_zero(members * 64u + 1u, sizeof *in.pairs);
	for (uint32_t i = 0; i < members; i++)
		in.members[i] = (struct topology_member){
			.number = i + 1, .reachable = true, .before_relay = TOPOLOGY_COORDINATOR};
	for (uint32_t s = 0; s < shards; s++)
		in.shards[s] = (struct topology_shard){.contribution = contribution / shards,
			.update = update / shards,
			.before = TOPOLOGY_COORDINATOR};
	return in;
}

static struct topology_pair *way(struct topology_in *in, uint32_t from, uint32_t to, double rtt_s)
{
	struct topology_pair *p = &in->pairs[in->n_pairs++];
	*p = (struct topology_pair){.from = from, .to = to, .rtt_s = rtt_s};
	return p;
}

/* Four sites of three peers and a coordinator, as the bench has them: rates across in Mbit/s. */
static const double across[4][4] = {
	{0, 100, 80, 35}, {100, 0, 60, 50}, {80, 60, 0, 20}, {35, 50, 20, 0}};
static const double away_ms[4][4] = {
	{1, 30, 50, 120}, {30, 1, 80, 90}, {50, 80, 1, 150}, {120, 90, 150, 1}};

static struct topology_in four_sites(void)
{
	struct topology_in in = world(12, 8, 1 * MB, 6 * MB);
	in.up = in.down = 100 * MBIT;
	for (uint32_t i = 0; i < 12; i++) {
		way(&in, i + 1, TOPOLOGY_COORDINATOR, 0.04 + 0.03 * (i % 4));
		for (uint32_t k = 0; k < i; k++) {
			const uint32_t a = i % 4, b = k % 4;
			struct topology_pair *p = way(&in, i + 1, k + 1, away_ms[a][b] / 1e3);
			p->up = p->down = a == b ? 1000 * MBIT : across[a][b] * MBIT;
		}
	}
	return in;
}

static double carried(const struct topology_plan *p)
{
	return p->nodes[p->n_members].sends + p->nodes[p->n_members].takes;
}

static uint32_t aggregators(const struct topology_plan *p)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < p->n_members; i++) {
		bool any = false;
		for (uint32_t s = 0; s < p->n_shards; s++)
			any |= p->aggregator[s] == p->nodes[i].number;
		n += any;
	}
	return n;
}

static char *text_of(const struct topology_plan *p)
{
	json_t *doc = topology_json_plan(p);
	char *text = json_canonical(doc);
	json_decref(doc);
	return text;
}

static char *planned(struct topology_in *in)
{
	struct topology_plan p;
	topology_make(in, &p);
	char *text = text_of(&p);
	topology_plan_release(&p);
	return text;
}

/* ---- tests */

static void the_star_is_predicted_as_by_hand(void **state)
{
	(void)state;
	struct topology_in in = world(4, 2, 1 * MB, 2 * MB);
	struct topology_plan p;
	in.mode = TOPOLOGY_star;
	for (uint32_t i = 1; i <= 4; i++)
		way(&in, i, TOPOLOGY_COORDINATOR, 0.1);
	topology_make(&in, &p);
	assert_true(p.star && p.aggregator[0] == TOPOLOGY_COORDINATOR);
	assert_true(fabs(p.time.up_s - (4 * 1.0 / 10 + 0.05)) < 1e-9);
	assert_true(fabs(p.time.down_s - (4 * 2.0 / 10 + 0.05)) < 1e-9);
	assert_true(p.time.merge_s == 0);
	assert_true(carried(&p) == 12 * MB);
	/* A member that is slower than its part of the coordinator's line holds the others up. */
	way(&in, 2, 3, 0.05)->up = 1 * MB;
	topology_plan_release(&p);
	topology_make(&in, &p);
	assert_true(fabs(p.time.up_s - 1.05) < 1e-9);
	topology_plan_release(&p);
	topology_in_release(&in);
}

static void nobody_who_is_not_reached_aggregates(void **state)
{
	(void)state;
	struct topology_in in = four_sites();
	struct topology_plan p;
	for (uint32_t i = 0; i < 12; i++)
		in.members[i].reachable = i == 4;
	topology_make(&in, &p);
	for (uint32_t s = 0; s < 8; s++)
		assert_true(p.aggregator[s] == 5 || p.aggregator[s] == TOPOLOGY_COORDINATOR);
	for (uint32_t i = 0; i < 12; i++)
		assert_true(p.nodes[i].relay == 5 || p.nodes[i].relay == TOPOLOGY_COORDINATOR);
	topology_plan_release(&p);
	in.members[4].reachable = false;
	topology_make(&in, &p);
	assert_true(p.star);
	assert_non_null(strstr(p.reason, "no member has been reached"));
	topology_plan_release(&p);
	topology_in_release(&in);
}

static void four_sites_need_not_pass_through_one_line(void **state)
{
	(void)state;
	struct topology_in in = four_sites();
	struct topology_plan p;
	struct buf words;
	topology_make(&in, &p);
	buf_init(&words, 1 << 20);
	topology_explain(&in, &p, &words);
	print_message("%s", (const char *)words.data);
	assert_false(p.star);
	assert_int_equal(p.n_clusters, 4);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(p.nodes[i].cluster, p.nodes[i % 4].cluster);
	assert_true(p.if_star.total_s > 3 * p.time.total_s);
	assert_true(aggregators(&p) >= 2);
	/* All of the star's bytes are 12 contributions in and 12 updates out. */
	assert_true(carried(&p) * 3 < 12 * MB + 72 * MB);
	assert_non_null(strstr((const char *)words.data, "aggregates shards"));
	buf_release(&words);
	topology_plan_release(&p);
	topology_in_release(&in);
}

static void members_and_ways_in_any_order_give_the_same_plan(void **state)
{
	(void)state;
	struct topology_in in = four_sites();
	char *first = planned(&in);
	for (uint32_t turn = 1; turn < 6; turn++) {
		for (uint32_t i = in.n_members; i > 1; i--) {
			const uint64_t k = rng_below(turn, 1, i, i);
			const struct topology_member m = in.members[k];
			in.members[k] = in.members[i - 1];
			in.members[i - 1] = m;
		}
		for (uint32_t i = in.n_pairs; i > 1; i--) {
			const uint64_t k = rng_below(turn, 2, i, i);
			const struct topology_pair p = in.pairs[k];
			in.pairs[k] = in.pairs[i - 1];
			in.pairs[i - 1] = p;
		}
		char *again = planned(&in);
		assert_string_equal(first, again);
		free(again);
	}
	free(first);
	topology_in_release(&in);
}

static void what_is_dumped_plans_the_same_again(void **state)
{
	(void)state;
	struct topology_in in = four_sites(), back;
	struct why why;
	in.members[3].placed = true;
	in.members[3].height = 0.01;
	in.slower.star = 1.5;
	in.seed = 77;
	char *first = planned(&in);
	json_t *doc = topology_json_dump(&in);
	assert_int_equal(topology_json_load(doc, &back, &why), ERR_OK);
	json_t *twice = topology_json_dump(&back);
	assert_true(json_equal(doc, twice));
	char *again = planned(&back);
	assert_string_equal(first, again);
	free(first);
	free(again);
	json_decref(doc);
	json_decref(twice);
	topology_in_release(&back);
	topology_in_release(&in);
}

static void a_malformed_dump_is_refused_with_all_mistakes(void **state)
{
	(void)state;
	struct topology_in in = four_sites(), back;
	struct why why;
	json_t *doc = topology_json_dump(&in);
	json_object_set_new(doc, "mode", json_string("fastest"));
	json_object_set_new(doc, "seed", json_integer(-1));
	json_object_set_new(
		json_array_get(json_object_get(doc, "members"), 1), "member", json_integer(1));
	json_object_set_new(
		json_array_get(json_object_get(doc, "pairs"), 0), "rtt_s", json_real(-2));
	json_object_set_new(doc, "more", json_true());
	assert_int_equal(topology_json_load(doc, &back, &why), ERR_syntax);
	assert_non_null(strstr(why.text, "mode"));
	assert_non_null(strstr(why.text, "seed"));
	assert_non_null(strstr(why.text, "rtt_s"));
	assert_int_equal(back.n_members, 0);
	json_decref(doc);
	assert_int_equal(topology_json_load(NULL, &back, &why), ERR_syntax);
	topology_in_release(&in);
}

/* As it is planned, the next round's plan. */
static void go_on(struct topology_in *in, const struct topology_plan *p)
{
	in->before = !p->star;
	for (uint32_t s = 0; s < in->n_shards; s++)
		in->shards[s].before = p->aggregator[s];
	for (uint32_t i = 0; i < in->n_members; i++)
		in->members[i].before_relay = topology_node(p, in->members[i].number)->relay;
}

static void a_plan_stays_until_another_is_clearly_better(void **state)
{
	(void)state;
	struct topology_in in = four_sites();
	struct topology_plan first, next;
	topology_make(&in, &first);
	go_on(&in, &first);
	/* All a little slower or faster: nothing changes. */
	for (uint32_t i = 0; i < in.n_pairs; i++) {
		in.pairs[i].up *= 1 + 0.1 * (rng_unit(5, 5, i) - 0.5);
		in.pairs[i].down *= 1 + 0.1 * (rng_unit(5, 6, i) - 0.5);
	}
	topology_make(&in, &next);
	assert_memory_equal(first.aggregator, next.aggregator, 8 * sizeof *next.aggregator);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(first.nodes[i].relay, next.nodes[i].relay);
	/* One of them is gone: others are named. */
	const uint32_t gone = first.aggregator[0];
	assert_int_not_equal(gone, TOPOLOGY_COORDINATOR);
	in.members[gone - 1].reachable = false;
	topology_plan_release(&next);
	topology_make(&in, &next);
	assert_false(next.star);
	for (uint32_t s = 0; s < 8; s++)
		assert_int_not_equal(next.aggregator[s], gone);
	topology_plan_release(&first);
	topology_plan_release(&next);
	topology_in_release(&in);
}

static void the_star_wins_what_is_nearly_a_tie(void **state)
{
	(void)state;
	/* Two members: each would get as much as by the coordinator. */
	struct topology_in in = world(2, 2, 1 * MB, 1 * MB);
	struct topology_plan p;
	in.up = in.down = 1000 * MB;
	for (uint32_t i = 1; i <= 2; i++) {
		struct topology_pair *way_up = way(&in, i, TOPOLOGY_COORDINATOR, 0.01);
		way_up->up = way_up->down = 2 * MB / i;
	}
	way(&in, 1, 2, 0.01)->up = 1 * MB;
	topology_make(&in, &p);
	assert_true(p.star);
	topology_plan_release(&p);
	/* Nor is anything tried before a round has shown how many bytes there are. */
	in.shards[0].contribution = in.shards[1].contribution = 0;
	topology_make(&in, &p);
	assert_true(p.star);
	assert_non_null(strstr(p.reason, "until a round has shown"));
	topology_plan_release(&p);
	topology_in_release(&in);
}

/* Only the star was measured, and the coordinator's line held all up: nothing says that the members
 * are as slow as their part of it. */
static void a_full_line_of_the_coordinators_says_little_of_the_members(void **state)
{
	(void)state;
	struct topology_in in = world(12, 12, 1 * MB, 6 * MB);
	struct topology_plan p;
	for (uint32_t i = 1; i <= 12; i++) {
		struct topology_pair *w = way(&in, i, TOPOLOGY_COORDINATOR, 0.05);
		w->down = 10 * MB / 12;
		w->up = i == 7 ? 0.3 * MB : w->down;
		w->together = true;
	}
	topology_make(&in, &p);
	assert_false(p.star);
	assert_true(topology_node(&p, 1)->guessed && topology_node(&p, 1)->up == 10 * MB);
	assert_true(topology_node(&p, 7)->up == 0.3 * MB);
	for (uint32_t s = 0; s < 12; s++)
		assert_int_not_equal(p.aggregator[s], 7);
	topology_plan_release(&p);
	topology_in_release(&in);
}

static void who_boasts_gets_no_more(void **state)
{
	(void)state;
	struct topology_in in = four_sites();
	struct topology_plan p;
	for (uint32_t i = 0; i < in.n_pairs; i++)
		if (in.pairs[i].to == 1) { /* the others say of member 1 what they see */
			in.pairs[i].up = in.pairs[i].down = 1 * MBIT;
			struct topology_pair *mine = way(&in, 1, in.pairs[i].from, 0.001);
			mine->up = mine->down = 1e10;
		}
	topology_make(&in, &p);
	for (uint32_t s = 0; s < 8; s++)
		assert_int_not_equal(p.aggregator[s], 1);
	topology_plan_release(&p);
	topology_in_release(&in);
}

static void lots_are_drawn_by_the_seed(void **state)
{
	(void)state;
	struct topology_in in = four_sites();
	struct topology_plan latency, p;
	uint32_t differ = 0;
	topology_make(&in, &latency);
	in.mode = TOPOLOGY_random;
	char *first = planned(&in), *again = planned(&in);
	assert_string_equal(first, again);
	for (uint64_t seed = 1; seed < 5; seed++) {
		in.seed = seed;
		topology_make(&in, &p);
		assert_false(p.star);
		assert_int_equal(aggregators(&p), aggregators(&latency));
		char *other = text_of(&p);
		differ += strcmp(first, other) != 0;
		free(other);
		topology_plan_release(&p);
	}
	assert_true(differ >= 3);
	free(first);
	free(again);
	topology_plan_release(&latency);
	topology_in_release(&in);
	/* Also before anything is known. */
	in = world(4, 2, 0, 0);
	in.mode = TOPOLOGY_random;
	topology_make(&in, &p);
	assert_true(aggregators(&p) >= 1);
	topology_plan_release(&p);
	topology_in_release(&in);
}

static void rounds_that_took_longer_are_predicted_longer(void **state)
{
	(void)state;
	struct topology_in in = four_sites();
	struct topology_plan p, q;
	topology_make(&in, &p);
	in.slower.star = 1.5;
	in.slower.peers = 2;
	topology_make(&in, &q);
	assert_true(fabs(q.if_star.total_s - 1.5 * p.if_star.total_s) < 1e-9);
	assert_true(fabs(q.if_peers.total_s - 2 * p.if_peers.total_s) < 1e-9);
	topology_plan_release(&p);
	topology_plan_release(&q);
	topology_in_release(&in);
}

static void nobody_and_nothing_is_no_trouble(void **state)
{
	(void)state;
	struct topology_in in = {0};
	struct topology_plan p;
	for (int mode = 0; mode < 3; mode++) {
		in.mode = (enum topology_mode)mode;
		topology_make(&in, &p);
		assert_true(p.star && p.n_members == 0);
		topology_plan_release(&p);
	}
}

/* Homes around the world, a third of them reached. */
static struct topology_in many(uint32_t n, uint32_t shards)
{
	struct topology_in in = world(n, shards, 2 * MB, 20 * MB);
	in.up = in.down = 1000 * MBIT;
	for (uint32_t i = 0; i < n; i++) {
		struct topology_member *m = &in.members[i];
		const uint64_t city = rng_below(9, 0, i, 12);
		m->reachable = rng_below(9, 1, i, 3) == 0;
		m->placed = true;
		for (uint32_t x = 0; x < 3; x++)
			m->at[x] = 0.1 * rng_unit(9, 10 + x, city) + 0.002 * rng_unit(9, 20 + x, i);
		m->height = 0.002 + 0.003 * rng_unit(9, 2, i);
		struct topology_pair *p = way(&in, i + 1, TOPOLOGY_COORDINATOR, 0.1);
		p->up = (5 + 500 * rng_unit(9, 3, i) * rng_unit(9, 4, i)) * MBIT;
		p->down = (50 + 450 * rng_unit(9, 5, i)) * MBIT;
	}
	return in;
}

static void a_thousand_members_are_planned_soon(void **state)
{
	(void)state;
	static const uint32_t shards[] = {16, 256};
	for (size_t i = 0; i < 2; i++) {
		struct topology_in in = many(1000, shards[i]);
		struct topology_plan p;
		const uint64_t began = clock_now_ns();
		topology_make(&in, &p);
		print_message(
			"1000 members, %u shards, %u clusters, %u aggregators: planned in %.3f s; "
			"%.1f s, %.1f s by the coordinator alone\n",
			shards[i], p.n_clusters, aggregators(&p),
			clock_seconds(clock_now_ns() - began), p.time.total_s, p.if_star.total_s);
		assert_true(p.time.total_s <= p.if_star.total_s);
		topology_plan_release(&p);
		topology_in_release(&in);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_star_is_predicted_as_by_hand),
		cmocka_unit_test(nobody_who_is_not_reached_aggregates),
		cmocka_unit_test(four_sites_need_not_pass_through_one_line),
		cmocka_unit_test(members_and_ways_in_any_order_give_the_same_plan),
		cmocka_unit_test(what_is_dumped_plans_the_same_again),
		cmocka_unit_test(a_malformed_dump_is_refused_with_all_mistakes),
		cmocka_unit_test(a_plan_stays_until_another_is_clearly_better),
		cmocka_unit_test(the_star_wins_what_is_nearly_a_tie),
		cmocka_unit_test(a_full_line_of_the_coordinators_says_little_of_the_members),
		cmocka_unit_test(who_boasts_gets_no_more),
		cmocka_unit_test(lots_are_drawn_by_the_seed),
		cmocka_unit_test(rounds_that_took_longer_are_predicted_longer),
		cmocka_unit_test(nobody_and_nothing_is_no_trouble),
		cmocka_unit_test(a_thousand_members_are_planned_soon),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
