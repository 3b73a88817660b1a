/* What breaks, and what must then happen: real processes killed, stopped, misled.  The ledger must
 * verify in the end. */
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
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 150

static const char *const timed[] = {"timed", NULL};
static const char *const turns[] = {"timed", "round.fragments=2", "round.seconds=0.5", NULL};

static void has_tokens(const struct swarm *s, const char *name)
{
	if (!help_swarm_tokens(s, name))
		fail_msg("nothing of what %s did is in the ledger", name);
}

/* Each shard's, by those who are linked. */
static void delays_are_shown(const struct swarm *s)
{
	json_t *doc = help_swarm_get(s, "/api/v1/overview.json");
	const json_t *delays = json_object_get(doc, "delays");
	assert_int_equal(json_array_size(delays), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *d = json_array_get(delays, i);
		double seconds = json_number_value(json_object_get(d, "seconds"));
		assert_int_equal(json_integer_value(json_object_get(d, "shard")), i);
		assert_true(seconds > 0);
		/* two rounds of half a second */
		double share = json_number_value(json_object_get(d, "share"));
		assert_true(share > 0.999 * seconds && share < 1.001 * seconds);
	}
	json_decref(doc);
}

static void kill_a_peer(const char *const *changes)
{
	struct swarm s;
	help_swarm_start(&s, changes);
	help_swarm_peer(&s, "calm");
	/* killed at moments spread over the phases of a round */
	for (int k = 0; k < 5; k++) {
		struct proc *victim = help_swarm_peer(&s, "victim");
		proc_line(victim, "linked with the coordinator", WAIT);
		poll(NULL, 0, 170 * k);
		proc_signal(victim, SIGKILL);
		proc_wait(victim, WAIT);
	}
	uint64_t before = help_swarm_tokens(&s, "victim");
	struct proc *last = help_swarm_peer(&s, "victim");
	proc_line(last, "contribution delivered", WAIT);
	json_t *head = help_swarm_get(&s, "/api/v1/head");
	uint64_t at = (uint64_t)json_integer_value(
		json_object_get(json_object_get(head, "body"), "round"));
	json_decref(head);
	help_swarm_round(&s, at + 2, WAIT);
	assert_true(help_swarm_tokens(&s, "victim") > before);
	has_tokens(&s, "calm");
	if (changes == turns)
		delays_are_shown(&s);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_peer_killed_again_and_again_comes_back(void **state)
{
	(void)state;
	kill_a_peer(timed);
}

static void the_same_where_shards_take_turns(void **state)
{
	(void)state;
	kill_a_peer(turns);
}

static void kill_the_coordinator(const char *const *changes)
{
	struct swarm s;
	help_swarm_start(&s, changes);
	for (int i = 0; i < 2; i++)
		help_swarm_peer(&s, proc_text("peer%d", i));
	for (uint64_t k = 0; k < 5; k++) {
		help_swarm_round(&s, 2 * k + 2, WAIT);
		poll(NULL, 0, (int)(60 * k)); /* another phase of the round each time */
		proc_signal(s.coordinator, SIGKILL);
		proc_wait(s.coordinator, WAIT);
		help_swarm_coordinator(&s);
	}
	/* both are back at work, sooner or later */
	for (uint64_t r = 13;
		r < 60 && !(help_swarm_tokens(&s, "peer0") && help_swarm_tokens(&s, "peer1")); r++)
		help_swarm_round(&s, r, WAIT);
	has_tokens(&s, "peer0");
	has_tokens(&s, "peer1");
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_coordinator_killed_again_and_again_goes_on(void **state)
{
	(void)state;
	kill_the_coordinator(timed);
}

static void so_it_does_where_shards_take_turns(void **state)
{
	(void)state;
	kill_the_coordinator(turns);
}

static void a_stopped_peer_is_left_behind_and_catches_up(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct proc *sleeper = help_swarm_peer(&s, "sleeper");
	help_swarm_peer(&s, "calm");
	help_swarm_round(&s, 3, WAIT);
	proc_signal(sleeper, SIGSTOP);
	help_swarm_round(&s, 8, WAIT); /* the other goes on without it */
	uint64_t before = help_swarm_tokens(&s, "sleeper");
	proc_signal(sleeper, SIGCONT);
	for (uint64_t r = 9; help_swarm_tokens(&s, "sleeper") <= before; r++)
		help_swarm_round(&s, r, WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_peer_that_leaves_says_goodbye(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct proc *leaver = help_swarm_peer(&s, "leaver");
	help_swarm_peer(&s, "calm");
	help_swarm_round(&s, 3, WAIT);
	proc_signal(leaver, SIGINT);
	assert_int_equal(proc_wait(leaver, WAIT), 130);
	json_t *head = help_swarm_get(&s, "/api/v1/head");
	uint64_t at = (uint64_t)json_integer_value(
		json_object_get(json_object_get(head, "body"), "round"));
	json_decref(head);
	help_swarm_round(&s, at + 3, WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- links that do not lead in: one sentence with the cause, and soon */

static void refused(const struct swarm *s, const char *link, const char *says)
{
	const char *file = proc_text("%s/wrong.link", s->scratch);
	help_run_write(file, link);
	struct proc *p =
		PROC_START("shoal-peer", "join", file, "--dir", proc_text("%s/wrong", s->scratch));
	assert_int_equal(proc_wait(p, 60), 1);
	if (!strstr(proc_err(p), says))
		fail_msg("\"%s\" is not in:\n%s", says, proc_err(p));
}

static void wrong_links_are_named(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	const char *good = help_run_read(s.link), *run = strchr(good + strlen("shoal://"), '/') + 1,
		   *key = strchr(run, '#') + 1;
	int host = (int)(run - good);
	/* another run, another run key, a cut key, another scheme */
	refused(&s, proc_text("%.*s%064d#%s", host, good, 7, key), "run");
	refused(&s, proc_text("%.*s#AAAA%s", (int)(key - 1 - good), good, key + 4), "key");
	refused(&s, proc_text("%.*s", (int)(key + 10 - good), good), "key");
	refused(&s, proc_text("http%s", good + strlen("shoal")), "shoal://");
}

static void an_invite_serves_as_often_as_it_says(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct proc *make = PROC_RUN(0, 60, "shoal-coordinator", "invite", "create", s.dir,
		"--uses", "1", "--public-address", "127.0.0.1", "--port", proc_text("%u", s.port));
	const char *link = strstr(proc_out(make), "shoal://");
	assert_non_null(link);
	const char *once = proc_text("%s/once.link", s.scratch);
	help_run_write(once, proc_text("%.*s\n", (int)strcspn(link, " \n"), link));
	struct proc *first = PROC_START("shoal-peer", "join", once, "--dir",
		proc_text("%s/first", s.scratch), "--threads", "1");
	proc_line(first, "linked with the coordinator", WAIT);
	struct proc *second = PROC_START("shoal-peer", "join", once, "--dir",
		proc_text("%s/second", s.scratch), "--threads", "1");
	assert_int_equal(proc_wait(second, 60), 1);
	assert_non_null(strstr(proc_err(second), "invite"));
	/* the one it was bound to may come back */
	proc_signal(first, SIGINT);
	assert_int_equal(proc_wait(first, WAIT), 130);
	proc_line(PROC_START("shoal-peer", "join", "--dir", proc_text("%s/first", s.scratch),
			  "--threads", "1"),
		"linked with the coordinator", WAIT);
}

static void a_coordinator_that_is_not_there_is_waited_for_with_a_reason(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	proc_signal(s.coordinator, SIGKILL);
	proc_wait(s.coordinator, WAIT);
	struct proc *p = help_swarm_peer(&s, "early");
	proc_line(p, "next try in", WAIT);
	help_swarm_coordinator(&s);
	proc_line(p, "linked with the coordinator", WAIT);
}

static void a_copied_folder_is_told_apart(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct proc *p = help_swarm_peer(&s, "original");
	proc_line(p, "linked with the coordinator", WAIT);
	PROC_RUN(0, 60, "/bin/cp", "-r", proc_text("%s/original", s.scratch),
		proc_text("%s/copy", s.scratch));
	help_swarm_peer(&s, "copy");
	/* the older of the two processes is told, and says so */
	proc_line(p, "the folder was copied or is used twice", WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_peer_killed_again_and_again_comes_back, proc_teardown),
		cmocka_unit_test_teardown(
			a_coordinator_killed_again_and_again_goes_on, proc_teardown),
		cmocka_unit_test_teardown(the_same_where_shards_take_turns, proc_teardown),
		cmocka_unit_test_teardown(so_it_does_where_shards_take_turns, proc_teardown),
		cmocka_unit_test_teardown(
			a_stopped_peer_is_left_behind_and_catches_up, proc_teardown),
		cmocka_unit_test_teardown(a_peer_that_leaves_says_goodbye, proc_teardown),
		cmocka_unit_test_teardown(wrong_links_are_named, proc_teardown),
		cmocka_unit_test_teardown(an_invite_serves_as_often_as_it_says, proc_teardown),
		cmocka_unit_test_teardown(
			a_coordinator_that_is_not_there_is_waited_for_with_a_reason, proc_teardown),
		cmocka_unit_test_teardown(a_copied_folder_is_told_apart, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
