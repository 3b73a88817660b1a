/* What breaks between a peer and its coordinator: the line, for long, or one of them.  Nothing may
 * be lost, and whoever waits says why. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <poll.h>
#include <cmocka.h>
#include "base/clock.h"
#include "tests/help_relay.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 150

static const char *const timed[] = {"timed", NULL};

/* A swarm, and one that reaches its coordinator by a relay. */
struct bad {
	struct swarm s, far;
	struct relay *relay;
};

static void start(struct bad *b, const char *const *changes)
{
	help_swarm_start(&b->s, changes);
	const uint16_t ports[] = {b->s.port, b->s.link_port};
	b->relay = relay_start("127.0.0.2", ports, 2);
	b->far = b->s;
	b->far.link = relay_link(b->s.link, "127.0.0.2");
}

static void a_peer_cut_off_for_rounds_trains_on_and_comes_back(void **state)
{
	(void)state;
	struct bad b;
	start(&b, timed);
	help_swarm_peer(&b.s, "near");
	struct proc *far = help_swarm_peer(&b.far, "far");
	help_swarm_goes_on(&b.s, "far", 0, WAIT);
	relay_stall(b.relay, RELAY_up);
	relay_stall(b.relay, RELAY_down);
	proc_line(far, "the link to the coordinator is down", WAIT);
	help_swarm_says(&b.s, "far", "link", WAIT);
	help_swarm_round(&b.s, 20, WAIT);
	uint64_t before = help_swarm_tokens(&b.s, "far");
	relay_heal(b.relay);
	help_swarm_goes_on(&b.s, "far", before, 20);
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

static void everybody_cut_off_waits_and_goes_on(void **state)
{
	(void)state;
	struct bad b;
	start(&b, timed);
	struct proc *peers[2];
	for (int i = 0; i < 2; i++)
		peers[i] = help_swarm_peer(&b.far, proc_text("far%d", i));
	help_swarm_round(&b.s, 3, WAIT);
	relay_stall(b.relay, RELAY_up);
	relay_stall(b.relay, RELAY_down);
	for (int i = 0; i < 2; i++) {
		proc_line(peers[i], "the link to the coordinator is down", WAIT);
		help_swarm_says(&b.s, proc_text("far%d", i), "all data that was given ahead", WAIT);
	}
	json_t *overview = help_swarm_get(&b.s, "/api/v1/overview.json");
	const char *reason = json_string_value(json_object_get(overview, "reason"));
	if (!strstr(reason, "2 lost their link"))
		fail_msg("the coordinator's reason is \"%s\"", reason);
	json_decref(overview);
	uint64_t at = help_swarm_at(&b.s);
	uint64_t before[2];
	for (int i = 0; i < 2; i++)
		before[i] = help_swarm_tokens(&b.s, proc_text("far%d", i));
	relay_heal(b.relay);
	for (int i = 0; i < 2; i++)
		help_swarm_goes_on(&b.s, proc_text("far%d", i), before[i], 20);
	help_swarm_round(&b.s, at + 3, WAIT);
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

/* Long enough for the longest wait between two tries to have been reached. */
static void a_coordinator_away_for_long_is_found_again_soon(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct proc *p = help_swarm_peer(&s, "peer");
	help_swarm_goes_on(&s, "peer", 0, WAIT);
	proc_signal(s.coordinator, SIGKILL);
	proc_wait(s.coordinator, WAIT);
	help_swarm_says(&s, "peer", "all data that was given ahead", WAIT);
	proc_line(p, "next try in", WAIT);
	const uint64_t until = clock_now_ns() + 20 * CLOCK_SECOND;
	while (clock_now_ns() < until) {
		(void)proc_err(p);
		poll(NULL, 0, 200);
	}
	help_swarm_coordinator(&s);
	const uint64_t back = clock_now_ns();
	uint64_t before = help_swarm_tokens(&s, "peer");
	proc_line(p, "linked with the coordinator", WAIT);
	help_swarm_goes_on(&s, "peer", before, WAIT);
	const double took = clock_seconds(clock_now_ns() - back);
	if (took > 12)
		fail_msg("recovered in %.1f s", took);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_laptop_that_slept_is_itself_again(void **state)
{
	(void)state;
	struct bad b;
	start(&b, timed);
	help_swarm_peer(&b.s, "near");
	struct proc *laptop = help_swarm_peer(&b.s, "laptop");
	help_swarm_goes_on(&b.s, "laptop", 0, WAIT);
	proc_signal(laptop, SIGSTOP);
	uint64_t at = help_swarm_at(&b.s);
	const uint64_t until = clock_now_ns() + 9 * CLOCK_SECOND; /* the link's time-out is 6 s */
	while (clock_now_ns() < until)
		help_swarm_round(&b.s, ++at, WAIT);
	uint64_t before = help_swarm_tokens(&b.s, "laptop");
	proc_signal(laptop, SIGCONT);
	help_swarm_goes_on(&b.s, "laptop", before, 20);
	json_t *peers = help_swarm_get(&b.s, "/api/v1/peers.json");
	assert_int_equal(json_array_size(json_object_get(peers, "peers")), 2);
	json_decref(peers);
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

static void a_slow_line_makes_a_peer_late_and_holds_up_nobody(void **state)
{
	(void)state;
	static const char *const slow[] = {"timed", "round.seconds=1.0", "codec.k=64", NULL};
	struct bad b;
	start(&b, slow);
	help_swarm_peer(&b.s, "near");
	help_swarm_peer(&b.s, "nearby"); /* a quorum without the slow one */
	struct proc *far = help_swarm_peer(&b.far, "far");
	help_swarm_goes_on(&b.s, "far", 0, WAIT);
	relay_rate(b.relay, RELAY_up, 2000); /* 16 kbit/s */
	relay_rate(b.relay, RELAY_down, 2000);
	uint64_t at = help_swarm_at(&b.s), before;
	help_swarm_round(&b.s, at + 15, WAIT);
	proc_line(far, "the least there is", WAIT);
	before = help_swarm_tokens(&b.s, "far");
	relay_heal(b.relay);
	help_swarm_goes_on(&b.s, "far", before, 30);
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

static void who_leaves_while_it_trains_on_leaves_its_work(void **state)
{
	(void)state;
	static const char *const slow[] = {"timed", "round.seconds=1.0", NULL};
	struct swarm s;
	help_swarm_start(&s, slow);
	help_swarm_peer(&s, "calm");
	struct proc *leaver = help_swarm_peer(&s, "leaver");
	help_swarm_goes_on(&s, "leaver", 0, WAIT);
	proc_signal(leaver, SIGINT);
	assert_int_equal(proc_wait(leaver, 10), 130);
	assert_non_null(strstr(proc_err(leaver), "left:"));
	help_swarm_round(&s, help_swarm_at(&s) + 3, WAIT);
	uint64_t before = help_swarm_tokens(&s, "leaver");
	leaver = help_swarm_peer(&s, "leaver");
	help_swarm_goes_on(&s, "leaver", before, 30);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* One way only: what is said arrives, and no answer does, or the other way round. */
static void a_line_that_is_cut_one_way_is_lost_and_found(void **state)
{
	(void)state;
	struct bad b;
	start(&b, timed);
	help_swarm_peer(&b.s, "near");
	struct proc *far = help_swarm_peer(&b.far, "far");
	help_swarm_goes_on(&b.s, "far", 0, WAIT);
	for (int way = 0; way < 2; way++) {
		relay_stall(b.relay, way ? RELAY_down : RELAY_up);
		proc_line(far, "the link to the coordinator is down", WAIT);
		help_swarm_round(&b.s, help_swarm_at(&b.s) + 3, WAIT);
		uint64_t before = help_swarm_tokens(&b.s, "far");
		relay_heal(b.relay);
		help_swarm_goes_on(&b.s, "far", before, 20);
	}
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

/* As when the machine that it runs on is moved: for it no time has passed, for the others it has.
 */
static void a_coordinator_that_slept_goes_on_with_all(void **state)
{
	(void)state;
	struct swarm s;
	struct proc *peers[2];
	help_swarm_start(&s, timed);
	for (int i = 0; i < 2; i++) {
		peers[i] = help_swarm_peer(&s, proc_text("peer%d", i));
		help_swarm_goes_on(&s, proc_text("peer%d", i), 0, WAIT);
	}
	proc_signal(s.coordinator, SIGSTOP);
	for (int i = 0; i < 2; i++)
		proc_line(peers[i], "the link to the coordinator is down", WAIT);
	proc_signal(s.coordinator, SIGCONT);
	for (int i = 0; i < 2; i++) {
		const char *name = proc_text("peer%d", i);
		help_swarm_goes_on(&s, name, help_swarm_tokens(&s, name), 20);
	}
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* Everything at once, in the middle of rounds; twice, the second time while all come back. */
static void a_power_cut_of_everybody_costs_nothing_that_was_listed(void **state)
{
	(void)state;
	struct swarm s;
	struct proc *peers[2];
	uint64_t listed = 0;
	help_swarm_start(&s, timed);
	for (int k = 0; k < 3; k++) {
		for (int i = 0; i < 2; i++)
			peers[i] = help_swarm_peer(&s, proc_text("peer%d", i));
		for (int i = 0; i < 2; i++) {
			const char *name = proc_text("peer%d", i);
			help_swarm_goes_on(&s, name, help_swarm_tokens(&s, name), WAIT);
		}
		const uint64_t now = help_swarm_tokens(&s, "peer0");
		assert_true(now > listed);
		listed = now;
		poll(NULL, 0, 110 * k);
		for (int i = 0; i < 2; i++)
			proc_signal(peers[i], SIGKILL);
		proc_signal(s.coordinator, SIGKILL);
		proc_wait(s.coordinator, WAIT);
		for (int i = 0; i < 2; i++)
			proc_wait(peers[i], WAIT);
		help_swarm_coordinator(&s);
		assert_true(help_swarm_tokens(&s, "peer0") >= listed);
	}
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* Data and snapshot take many rounds, and the line is cut meanwhile: the others do not wait, and
 * what had come counts. */
static void a_newcomer_on_a_slow_line_gets_in_while_rounds_go_on(void **state)
{
	(void)state;
	struct bad b;
	start(&b, timed);
	help_swarm_peer(&b.s, "near");
	help_swarm_round(&b.s, 25, WAIT); /* there is a snapshot to fetch */
	relay_rate(b.relay, RELAY_down, 30000);
	struct proc *far = help_swarm_peer(&b.far, "far");
	proc_line(far, "member 2", WAIT);
	uint64_t at = help_swarm_at(&b.s);
	for (int i = 0; i < 3; i++) {
		help_swarm_round(&b.s, at += 4, 20);
		relay_cut(b.relay);
		poll(NULL, 0, 300);
		relay_heal(b.relay);
		relay_rate(b.relay, RELAY_down, 30000);
	}
	relay_heal(b.relay);
	help_swarm_goes_on(&b.s, "far", 0, WAIT);
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

static void a_peer_at_a_twentieth_of_the_speed_counts(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	help_swarm_peer(&s, "fast");
	help_swarm_goes_on(&s, "fast", 0, WAIT);
	PROC_START("shoal-peer", "join", s.link, "--dir", proc_text("%s/slow", s.scratch), "--name",
		"slow", "--threads", "1", "--cpu-share", "0.05");
	help_swarm_goes_on(&s, "slow", 0, 30);
	const uint64_t at = help_swarm_at(&s), slow = help_swarm_tokens(&s, "slow"),
		       fast = help_swarm_tokens(&s, "fast");
	help_swarm_round(&s, at + 10, 30);
	assert_true(help_swarm_tokens(&s, "slow") > slow);
	assert_true(help_swarm_tokens(&s, "fast") - fast > help_swarm_tokens(&s, "slow") - slow);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			a_peer_cut_off_for_rounds_trains_on_and_comes_back, relay_teardown),
		cmocka_unit_test_teardown(everybody_cut_off_waits_and_goes_on, relay_teardown),
		cmocka_unit_test_teardown(
			a_coordinator_away_for_long_is_found_again_soon, relay_teardown),
		cmocka_unit_test_teardown(a_laptop_that_slept_is_itself_again, relay_teardown),
		cmocka_unit_test_teardown(
			a_slow_line_makes_a_peer_late_and_holds_up_nobody, relay_teardown),
		cmocka_unit_test_teardown(
			who_leaves_while_it_trains_on_leaves_its_work, relay_teardown),
		cmocka_unit_test_teardown(
			a_line_that_is_cut_one_way_is_lost_and_found, relay_teardown),
		cmocka_unit_test_teardown(
			a_coordinator_that_slept_goes_on_with_all, relay_teardown),
		cmocka_unit_test_teardown(
			a_power_cut_of_everybody_costs_nothing_that_was_listed, relay_teardown),
		cmocka_unit_test_teardown(
			a_newcomer_on_a_slow_line_gets_in_while_rounds_go_on, relay_teardown),
		cmocka_unit_test_teardown(
			a_peer_at_a_twentieth_of_the_speed_counts, relay_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
