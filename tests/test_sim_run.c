/* Whole runs under a virtual clock: they can be repeated, no sequence number is lost whatever dies,
 * and liars are refused or borne. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "coordinator/rounds.h"
#include "round/ledger.h"
#include "sim/coordinator.h"
#include "sim/world.h"
#include "tests/help_sim.h"

#define EACH "\"speed\":400,\"up\":20,\"down\":100,\"rtt_ms\":40"
#define SETTLED 5 /* rounds, until speeds are known */
#define TIMED \
	"round.mode=timed", "round.overlap=false", "round.steps=null", "round.seconds=5", \
		"round.quorum=0.6", "train.total_tokens=40000"
#define OVERLAP \
	"round.mode=timed", "round.steps=null", "round.seconds=5", "train.total_tokens=80000"

struct outcome {
	struct hash head;
	uint64_t rounds, tokens, refused, dropped, deaths;
	uint64_t not_finite, norm;
	double loss, utilisation;
	uint32_t members;     /* of the last round */
	double delay, length; /* of the rounds after the first five: by round; seconds */
};

static struct world world;
static bool returned; /* there were sequence numbers to be handed out again */

/* Every sequence number that was ever handed out is listed, waits to be handed out again, or is in
 * somebody's plan or stream, or
 * void, for each shard. */
static bool balanced(void)
{
	const struct rounds *r = coordinator_rounds(world.coordinator);
	size_t n;
	const struct span *pool = rounds_ask_pool(r, &n);
	const uint32_t shards = world.graph->n_shards, fragments = world.spec->round.fragments;
	uint64_t sum = shards * ledger_tokens(coordinator_ledger(world.coordinator)) /
			       world.spec->train.seq +
		       rounds_ask_voided(r);
	returned |= n > 0;
	for (size_t i = 0; i < n; i++)
		sum += shards * (pool[i].last - pool[i].first);
	const bool overlap = world.spec->round.overlap, open = rounds_ask_state(r) == ROUNDS_open;
	for (uint32_t i = 0; (overlap || open) && i < rounds_ask_members(r); i++) {
		const struct rounds_member *m = rounds_ask_member(r, i);
		for (uint32_t k = 0; m && (overlap || m->assigned) && k < shards; k++)
			sum += span_count(m->spans, m->n_spans) - m->listed[k % fragments];
	}
	assert_int_equal(sum, shards * rounds_ask_cursor(r));
	return false;
}

static struct outcome run(const char *rest, const char *const *changes)
{
	struct scenario scenario;
	struct why why;
	size_t n = 0;
	while (changes && changes[n])
		n++;
	returned = false;
	help_sim_fine(scenario_load(help_sim_scenario(rest), &scenario, &why), &why);
	help_sim_fine(world_open(&world, &scenario, changes, n, &why), &why);
	help_sim_fine(world_run(&world, balanced, &why), &why);
	const struct tally *t = &world.tally;
	assert_true(t->n_rounds > 0 && t->n_losses > 0);
	/* whoever was asked for it may have died */
	assert_int_equal(t->losses[t->n_losses - 1].round, t->rounds[t->n_rounds - 1].round);
	struct outcome o = {.head = t->head,
		.rounds = t->n_rounds,
		.tokens = t->tokens,
		.refused = tally_refused(t),
		.deaths = t->deaths,
		.not_finite = t->refusals[ERR_not_finite],
		.norm = t->refusals[ERR_norm],
		.loss = t->losses[t->n_losses - 1].per_byte,
		.utilisation = tally_utilisation(t),
		.members = t->rounds[t->n_rounds - 1].members};
	for (size_t i = 0; i < t->n_rounds; i++)
		o.dropped += t->rounds[i].dropped;
	for (size_t i = SETTLED; i + 1 < t->n_rounds; i++)
		o.delay += tally_delay_of(t, i) / (double)(t->n_rounds - 1 - SETTLED);
	if (t->n_rounds > SETTLED)
		o.length = (t->rounds[t->n_rounds - 1].at_s - t->rounds[SETTLED - 1].at_s) /
			   (double)(t->n_rounds - SETTLED);
	world_close(&world);
	scenario_release(&scenario);
	return o;
}

static void the_same_again_has_the_same_head(void **state)
{
	(void)state;
	static const char *const changes[][8] = {{NULL}, {TIMED, NULL}, {OVERLAP, NULL},
		{OVERLAP, "round.fragments=2", NULL},

		{"outer.merged=int8", "codec.values=two", NULL},
		{"outer.rule=diloco", "outer.momentum=0.8", "outer.lr=0.5",
			"train.total_tokens=6400", NULL}};
	static const char peers[] =
		"\"peers\":[{\"count\":3," EACH "},"
		"{\"count\":3,\"speed\":200,\"up\":2,\"down\":5,\"rtt_ms\":150,\"joins_s\":3,"
		"\"churn\":{\"dies_every_s\":15,\"back_after_s\":4}}]";
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		const struct outcome a = run(peers, changes[i]), b = run(peers, changes[i]);
		assert_memory_equal(&a.head, &b.head, sizeof a.head);
		assert_int_equal(a.tokens, b.tokens);
		assert_int_equal(a.deaths, b.deaths);
		assert_true(a.loss < 5 && a.loss == b.loss);
	}
}

/* Distances and rates change when things happen, not what comes out, where all are waited for. */
static void links_do_not_change_a_fixed_step_run(void **state)
{
	(void)state;
	static const char *const three[] = {"round.peers_min=3", NULL};
	const struct outcome near = run("\"peers\":[{\"count\":3," EACH "}]", three),
			     far = run("\"peers\":[{\"count\":2,\"speed\":50,\"up\":1,\"down\":2,"
				       "\"rtt_ms\":300},{\"count\":1," EACH "}]",
				     three);
	assert_memory_equal(&near.head, &far.head, sizeof near.head);
	assert_true(far.utilisation < near.utilisation);
	/* but data in another order do */
	static const char *const other[] = {"round.peers_min=3", "seed=4", NULL};
	const struct outcome seed = run("\"peers\":[{\"count\":3," EACH "}]", other);
	assert_memory_not_equal(&near.head, &seed.head, sizeof near.head);
}

static void who_dies_is_left_out_and_its_data_is_given_again(void **state)
{
	(void)state;
	/* rounds take a second and a half: it dies in the middle of one and is not back */
	const struct outcome o = run("\"peers\":[{\"count\":3," EACH "},"
				     "{\"count\":1,\"speed\":200,"
				     "\"up\":20,\"down\":100,"
				     "\"churn\":{\"dies_every_s\":8}}]",
		NULL);
	assert_int_equal(o.deaths, 1);
	assert_int_equal(o.dropped, 1);
	assert_int_equal(o.members, 3);
	assert_true(returned);
	assert_int_equal(o.refused, 0);
	assert_true(o.tokens >= 32000);
	assert_true(o.loss < 1.5);
}

static void who_is_back_goes_on_from_what_it_saved(void **state)
{
	(void)state;
	static const char *const changes[] = {TIMED, NULL};
	const struct outcome o =
		run("\"peers\":[{\"count\":2," EACH "},"
		    "{\"count\":2," EACH ",\"churn\":{\"dies_every_s\":12,\"back_after_s\":8}}]",
			changes);
	assert_true(o.deaths >= 4);
	assert_true(o.dropped >= 2);
	assert_true(returned);
	assert_true(o.loss < 1.5);
}

/* Training goes on while what was cut travels: rounds are as long as the spec says wherever the
 * members are, and what the way costs is the delay.  Without overlap it makes rounds longer. */
static void rounds_that_overlap_hide_the_way(void **state)
{
	(void)state;
	static const char *const overlap[] = {OVERLAP, "round.validate_every=1000", NULL},
				 *const waits[] = {TIMED, "round.validate_every=1000", NULL};
	static const char far[] = "\"peers\":[{\"count\":4,\"speed\":400,\"up\":20,\"down\":100,"
				  "\"rtt_ms\":1000}]",
			  near[] = "\"peers\":[{\"count\":4," EACH "}]";
	const struct outcome a = run(far, overlap), b = run(near, overlap), c = run(far, waits);
	assert_int_equal(a.refused, 0);
	assert_int_equal(a.dropped, 0);
	/* a cut comes at the end of a step, and a step takes 0.16 seconds */
	assert_true(fabs(a.length - 5) < 0.2 && fabs(b.length - 5) < 0.2);
	assert_true(c.length > 5.7);
	assert_true(a.delay > 0.2 && a.delay < 0.2 + 2 * 0.16 / 5);
	assert_true(b.delay > 0.008 && b.delay < 0.08);
	assert_true(a.utilisation > 0.85 && b.utilisation > 0.9 && c.utilisation < 0.6);
	assert_true(a.loss < 1.5 && b.loss < 1.5);
}

/* One cuts a step later than the others now and then: a quorum waits for that. */
static void members_that_are_alike_are_not_dropped(void **state)
{
	(void)state;
	static const char *const changes[] = {OVERLAP, "round.quorum=0.6", NULL};
	const struct outcome o = run("\"peers\":[{\"count\":4,\"speed\":400,\"up\":20,\"down\":100,"
				     "\"rtt_ms\":1000}]",
		changes);
	assert_true(o.dropped <= 1); /* in the first round nobody has arrived yet */
	assert_int_equal(o.members, 4);
}

/* Who dies with steps that were not cut loses those, and no number; who comes late takes part in
 * the round that is open; who is too slow for one delivers with the next. */
static void rounds_that_overlap_bear_churn(void **state)
{
	(void)state;
	static const char *const changes[] = {OVERLAP, "round.quorum=0.6", NULL};
	const struct outcome o =
		run("\"peers\":[{\"count\":3," EACH "},"
		    "{\"count\":2,\"speed\":200,\"up\":0.05,\"down\":0.1,\"rtt_ms\":2000},"
		    "{\"count\":1," EACH ",\"joins_s\":11},"
		    "{\"count\":2," EACH ",\"churn\":{\"dies_every_s\":12,\"back_after_s\":3}}]",
			changes);
	assert_true(o.deaths >= 4);
	assert_true(o.dropped > 0);
	assert_int_equal(o.not_finite + o.norm, 0);
	assert_true(o.tokens >= 80000);
	assert_true(o.loss < 1.5);
}

static void shards_take_turns(void **state)
{
	(void)state;
	static const char *const all[] = {OVERLAP, NULL},
				 *const turns[] = {OVERLAP, "round.fragments=2", NULL},
				 *const churn[] = {
					 OVERLAP, "round.fragments=2", "round.quorum=0.6", NULL};
	static const char peers[] = "\"peers\":[{\"count\":4," EACH "}]";
	const struct outcome a = run(peers, all), b = run(peers, turns),
			     c = run("\"peers\":[{\"count\":4," EACH "},{\"count\":2," EACH
				     ",\"churn\":{\"dies_every_s\":12,\"back_after_s\":3}}]",
				     churn);
	assert_int_equal(b.refused, 0);
	assert_true(b.utilisation > 0.9 * a.utilisation);
	assert_true(a.loss < 1.5 && b.loss < 2.5 &&
		    c.loss < 2.5); /* each shard has half as many rounds */
	assert_true(c.deaths >= 4);
}

/* What no training can have made is refused; the rest passes the gate, and costs, but does not stop
 * the training. */
static void liars_are_refused_or_borne(void **state)
{
	(void)state;
	static const char *const changes[] = {
		"round.quorum=0.6", "codec.k=256", "train.total_tokens=128000", NULL};
	static const struct {
		const char *name;
		bool refused;
		double worse; /* loss, times that of the honest ones alone */
	} lies[] = {{"nan", true, 1.15}, {"huge", true, 1.15}, {"negated", false, 1.7},
		{"zero", false, 1.7}, {"copied", false, 1.7}};
	const struct outcome honest = run("\"peers\":[{\"count\":8," EACH "}]", changes);
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		char rest[512];
		snprintf(rest, sizeof rest,
			"\"peers\":[{\"count\":8," EACH "},{\"count\":1," EACH ",\"liar\":\"%s\"}]",
			lies[i].name);
		const struct outcome o = run(rest, changes);
		assert_true(lies[i].refused == (o.refused > 0));
		assert_true((i == 0) == (o.not_finite > 0));
		assert_true((i == 1) == (o.norm > 0));
		assert_true(o.members <= (lies[i].refused ? 8 : 9));
		if (o.loss > honest.loss * lies[i].worse)
			fail_msg("%s: %f, without liars %f", lies[i].name, o.loss, honest.loss);
	}
}

static void what_cannot_go_on_ends_with_a_sentence(void **state)
{
	(void)state;
	struct scenario scenario;
	struct why why = {0};
	/* one of two members dies, and the spec wants two */
	help_sim_fine(scenario_load(help_sim_scenario(
					    "\"peers\":[{\"count\":1," EACH "},{\"count\":1," EACH
					    ",\"churn\":{\"dies_every_s\":8}}]"),
			      &scenario, &why),
		&why);
	help_sim_fine(world_open(&world, &scenario, NULL, 0, &why), &why);
	assert_int_equal(world_run(&world, NULL, &why), ERR_timeout);
	assert_non_null(strstr(why.text, "1 members ready"));
	assert_non_null(strstr(why.text, "wants 2 for a round"));
	world_close(&world);
	static const char *const five[] = {"round.peers_min=5"};
	assert_int_equal(world_open(&world, &scenario, five, 1, &why), ERR_spec);
	assert_non_null(strstr(why.text, "wants 5 members"));
	world_close(&world);
	scenario_release(&scenario);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_sim_setup, help_sim_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_same_again_has_the_same_head),
		TEST(links_do_not_change_a_fixed_step_run),
		TEST(who_dies_is_left_out_and_its_data_is_given_again),
		TEST(who_is_back_goes_on_from_what_it_saved),
		TEST(rounds_that_overlap_hide_the_way),
		TEST(members_that_are_alike_are_not_dropped),
		TEST(rounds_that_overlap_bear_churn),
		TEST(shards_take_turns),
		TEST(liars_are_refused_or_borne),
		TEST(what_cannot_go_on_ends_with_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
