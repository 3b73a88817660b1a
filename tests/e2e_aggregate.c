/* Peers as aggregators, with real processes: the ledger does not show who carried the bytes, and no
 * round is lost with whom it was carried by. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/clock.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 120

static struct proc *listener(const struct swarm *s, const char *name)
{
	return PROC_START("shoal-peer", "join", s->link, "--dir",
		proc_text("%s/%s", s->scratch, name), "--name", name, "--threads", "1", "--listen",
		"127.0.0.1:0");
}

/* Shards whose update came from an aggregator, since the coordinator began. */
static uint64_t aggregated(const struct swarm *s)
{
	json_t *doc = help_swarm_get(s, "/api/v1/topology.json");
	const uint64_t n = (uint64_t)json_integer_value(json_object_get(doc, "aggregated"));
	json_decref(doc);
	return n;
}

static void until_aggregated(const struct swarm *s, uint64_t more)
{
	const uint64_t deadline = clock_now_ns() + WAIT * CLOCK_SECOND, from = aggregated(s);
	while (aggregated(s) < from + more) {
		if (clock_now_ns() > deadline)
			fail_msg("no peer aggregates:\n%s", proc_err(s->coordinator));
		poll(NULL, 0, 50); /* between two looks */
	}
}

static const char *run_three(const char *plan, const char *const *changes)
{
	struct swarm s;
	struct proc *peers[3];
	setenv("SHOAL_PLAN", plan, 1);
	help_swarm_start(&s, changes);
	unsetenv("SHOAL_PLAN");
	setenv("LOG", "peer:2", 1);
	for (int i = 0; i < 2; i++)
		peers[i] = listener(&s, proc_text("peer%d", i));
	peers[2] = help_swarm_peer(&s, "peer2");
	unsetenv("LOG");
	const char *line = help_swarm_finish(&s, WAIT);
	const uint64_t by_peers = strtoull(help_run_value(line, "aggregated"), NULL, 10);
	if (strcmp(plan, "latency") != 0)
		assert_int_equal(by_peers > 0, !strcmp(plan, "random"));
	for (int i = 0; i < 3; i++)
		help_swarm_ends(peers[i], WAIT);
	for (int i = 0; i < 3; i++) /* everything came the shorter way */
		assert_null(strstr(proc_err(peers[i]), "is passed over"));
	help_swarm_verify(&s, line);
	return line;
}

static void same(const char *a, const char *b)
{
	assert_string_equal(help_run_value(a, "head"), help_run_value(b, "head"));
	assert_string_equal(help_run_value(a, "state"), help_run_value(b, "state"));
}

static void the_ledger_does_not_show_who_carried_it(void **state)
{
	(void)state;
	static const char *const three[] = {"round.peers_min=3", "train.total_tokens=64000", NULL};
	const char *star = run_three("star", three);
	same(star, run_three("random", three));
	same(star, run_three("latency", three));
}

/* As one vector, which a witness makes again. */
static void a_merged_update_is_witnessed(void **state)
{
	(void)state;
	static const char *const merged[] = {"round.peers_min=3", "train.total_tokens=64000",
		"outer.merged=int4", "codec.k=1024", NULL};
	same(run_three("star", merged), run_three("random", merged));
}

static const char *const timed[] = {"timed", "round.seconds=2", NULL};

static void aggregator_and_two(
	struct swarm *s, struct proc **aggregator, struct proc **other, const char *const *changes)
{
	setenv("SHOAL_PLAN", "random", 1);
	help_swarm_start(s, changes);
	*aggregator = listener(s, "first");
	proc_line(*aggregator, "linked with the coordinator", WAIT);
	*other = listener(s, "second");
	help_swarm_peer(s, "third");
	until_aggregated(s, 2);
}

/* The one that carries the round is gone, or there and silent: the others' contributions are
 * listed all the same, and another takes its place. */
static void an_aggregator_is_lost(int how)
{
	struct swarm s;
	struct proc *aggregator, *other;
	aggregator_and_two(&s, &aggregator, &other, timed);
	const uint64_t before = help_swarm_tokens(&s, "third");
	proc_signal(aggregator, how);
	help_swarm_goes_on(&s, "third", before, WAIT);
	until_aggregated(&s, 2);
	help_swarm_goes_on(&s, "second", help_swarm_tokens(&s, "second"), WAIT);
	proc_signal(aggregator, SIGCONT);
	unsetenv("SHOAL_PLAN");
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_killed_aggregator_is_replaced(void **state)
{
	(void)state;
	an_aggregator_is_lost(SIGKILL);
}

static void a_frozen_aggregator_is_replaced(void **state)
{
	(void)state;
	an_aggregator_is_lost(SIGSTOP);
}

/* What peers hold of a round outlives the coordinator. */
static void the_coordinator_dies_between(void **state)
{
	(void)state;
	struct swarm s;
	struct proc *aggregator, *other;
	aggregator_and_two(&s, &aggregator, &other, timed);
	for (int i = 0; i < 3; i++) {
		proc_signal(s.coordinator, SIGKILL);
		proc_wait(s.coordinator, WAIT);
		help_swarm_coordinator(&s);
		help_swarm_round(&s, help_swarm_at(&s) + 1, WAIT);
	}
	until_aggregated(&s, 2);
	unsetenv("SHOAL_PLAN");
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static const char *made_from(const char *file)
{
	struct proc *p = PROC_RUN(0, 30, "shoal-coordinator", "plan", "--from", file, "--json");
	return proc_text("%s", proc_out(p));
}

static void a_plan_is_dumped_and_made_again(void **state)
{
	(void)state;
	struct swarm s;
	struct proc *aggregator, *other;
	aggregator_and_two(&s, &aggregator, &other, timed);
	const char *file = proc_text("%s/measured.json", s.scratch);
	PROC_RUN(0, 30, "shoal-coordinator", "plan", s.link, "--dump", file);
	assert_string_equal(made_from(file), made_from(file));
	struct proc *p = PROC_RUN(0, 30, "shoal-coordinator", "plan", "--from", file, "--explain");
	assert_non_null(strstr(proc_out(p), "aggregates shards"));
	assert_non_null(strstr(proc_out(p), "coordinator alone"));
	p = PROC_RUN(0, 30, "shoal-coordinator", "plan", "--from", file, "--plan", "star");
	assert_non_null(strstr(proc_out(p), "as it was told"));
	help_run_write(file, "{\"mode\":\"latency\",\"members\":7}");
	p = PROC_RUN(1, 30, "shoal-coordinator", "plan", "--from", file);
	assert_non_null(strstr(proc_err(p), "members"));
	PROC_RUN(2, 30, "shoal-coordinator", "plan", s.link, "--from", file);
	unsetenv("SHOAL_PLAN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_ledger_does_not_show_who_carried_it, proc_teardown),
		cmocka_unit_test_teardown(a_merged_update_is_witnessed, proc_teardown),
		cmocka_unit_test_teardown(a_killed_aggregator_is_replaced, proc_teardown),
		cmocka_unit_test_teardown(a_frozen_aggregator_is_replaced, proc_teardown),
		cmocka_unit_test_teardown(the_coordinator_dies_between, proc_teardown),
		cmocka_unit_test_teardown(a_plan_is_dumped_and_made_again, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
