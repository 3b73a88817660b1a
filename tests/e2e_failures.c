/* What breaks around a peer and its coordinator: the line between them, disks, clocks.  Nothing
 * may be lost, and whoever waits says why. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <poll.h>
#include <cmocka.h>
#include "base/clock.h"
#include "tests/help_faults.h"
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

/* What `shoal-peer status` says of the peer of this name; it must say part within the time. */
static const char *status_says(
	const struct swarm *s, const char *name, const char *part, unsigned seconds)
{
	const uint64_t until = clock_now_ns() + seconds * CLOCK_SECOND;
	for (;;) {
		struct proc *p = PROC_START(
			"shoal-peer", "status", "--dir", proc_text("%s/%s", s->scratch, name));
		(void)proc_wait(p, WAIT);
		const char *says = proc_text("%s", proc_out(p));
		if (strstr(says, part))
			return says;
		if (clock_now_ns() > until)
			fail_msg("\"%s\" is not in, after %u s:\n%s%s", part, seconds, says,
				proc_err(p));
		poll(NULL, 0, 100);
	}
}

/* Until something of that peer's is listed beyond what was. */
static void goes_on(const struct swarm *s, const char *name, uint64_t before, unsigned seconds)
{
	const uint64_t until = clock_now_ns() + seconds * CLOCK_SECOND;
	while (help_swarm_tokens(s, name) <= before) {
		if (clock_now_ns() > until)
			fail_msg("nothing more of %s's is listed after %u s", name, seconds);
		poll(NULL, 0, 50);
	}
}

static void a_peer_cut_off_for_rounds_trains_on_and_comes_back(void **state)
{
	(void)state;
	struct bad b;
	start(&b, timed);
	help_swarm_peer(&b.s, "near");
	struct proc *far = help_swarm_peer(&b.far, "far");
	goes_on(&b.s, "far", 0, WAIT);
	relay_stall(b.relay, RELAY_up);
	relay_stall(b.relay, RELAY_down);
	proc_line(far, "the link to the coordinator is down", WAIT);
	status_says(&b.s, "far", "link", WAIT);
	help_swarm_round(&b.s, 20, WAIT);
	uint64_t before = help_swarm_tokens(&b.s, "far");
	relay_heal(b.relay);
	goes_on(&b.s, "far", before, 20);
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

/* How often the process has written this. */
static unsigned times(struct proc *p, const char *text)
{
	unsigned n = 0;
	for (const char *at = proc_err(p); (at = strstr(at, text)); at += strlen(text))
		n++;
	return n;
}

static uint64_t round_of(const struct swarm *s)
{
	json_t *head = help_swarm_get(s, "/api/v1/head");
	uint64_t at = (uint64_t)json_integer_value(
		json_object_get(json_object_get(head, "body"), "round"));
	json_decref(head);
	return at;
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
		status_says(&b.s, proc_text("far%d", i), "all data that was given ahead", WAIT);
	}
	json_t *overview = help_swarm_get(&b.s, "/api/v1/overview.json");
	const char *reason = json_string_value(json_object_get(overview, "reason"));
	if (!strstr(reason, "2 lost their link"))
		fail_msg("the coordinator's reason is \"%s\"", reason);
	json_decref(overview);
	uint64_t at = round_of(&b.s);
	uint64_t before[2];
	for (int i = 0; i < 2; i++)
		before[i] = help_swarm_tokens(&b.s, proc_text("far%d", i));
	relay_heal(b.relay);
	for (int i = 0; i < 2; i++)
		goes_on(&b.s, proc_text("far%d", i), before[i], 20);
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
	goes_on(&s, "peer", 0, WAIT);
	proc_signal(s.coordinator, SIGKILL);
	proc_wait(s.coordinator, WAIT);
	status_says(&s, "peer", "all data that was given ahead", WAIT);
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
	goes_on(&s, "peer", before, WAIT);
	const double took = clock_seconds(clock_now_ns() - back);
	print_message("recovered in %.1f s\n", took);
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
	goes_on(&b.s, "laptop", 0, WAIT);
	proc_signal(laptop, SIGSTOP);
	uint64_t at = round_of(&b.s);
	const uint64_t until = clock_now_ns() + 9 * CLOCK_SECOND; /* the link's time-out is 6 s */
	while (clock_now_ns() < until)
		help_swarm_round(&b.s, ++at, WAIT);
	uint64_t before = help_swarm_tokens(&b.s, "laptop");
	proc_signal(laptop, SIGCONT);
	goes_on(&b.s, "laptop", before, 20);
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
	goes_on(&b.s, "far", 0, WAIT);
	relay_rate(b.relay, RELAY_up, 2000); /* 16 kbit/s */
	relay_rate(b.relay, RELAY_down, 2000);
	uint64_t at = round_of(&b.s), before;
	help_swarm_round(&b.s, at + 15, WAIT);
	proc_line(far, "the least there is", WAIT);
	before = help_swarm_tokens(&b.s, "far");
	relay_heal(b.relay);
	goes_on(&b.s, "far", before, 30);
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
	goes_on(&s, "leaver", 0, WAIT);
	proc_signal(leaver, SIGINT);
	assert_int_equal(proc_wait(leaver, 10), 130);
	assert_int_equal(times(leaver, "left:"), 1);
	help_swarm_round(&s, round_of(&s) + 3, WAIT);
	uint64_t before = help_swarm_tokens(&s, "leaver");
	leaver = help_swarm_peer(&s, "leaver");
	goes_on(&s, "leaver", before, 30);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* ---- full disks */

static void a_peer_with_a_full_disk_trains_on(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	faults_start_with(f);
	struct proc *p = help_swarm_peer(&s, "peer");
	faults_start_with(NULL);
	goes_on(&s, "peer", 0, WAIT);
	f->disk_full = true;
	help_swarm_round(&s, round_of(&s) + 25, WAIT); /* past a snapshot */
	goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 20);
	/* once of each thing that suffers, with the cure: status, state, what is kept for others */
	const unsigned said = times(p, "No space left on device; free some space");
	if (said < 2 || said > 3)
		fail_msg("said %u times:\n%s", said, proc_err(p));
	f->disk_full = false;
	status_says(&s, "peer", "working", WAIT);
	/* what it keeps for others is whole again when the next snapshot is in it */
	const char *index = proc_text("%s/peer/shelf/index.json", s.scratch);
	for (uint64_t at = round_of(&s), end = at + 100; !strstr(help_run_read(index), "\"blob\"");
		at++) {
		if (at == end)
			fail_msg("%s", help_run_read(index));
		help_swarm_round(&s, at + 1, WAIT);
	}
	assert_int_equal(times(p, "No space left"), said);
	/* and a restart goes on from a state that was saved since */
	proc_signal(p, SIGKILL);
	proc_wait(p, WAIT);
	p = help_swarm_peer(&s, "peer");
	proc_line(p, "standing at ledger entry", WAIT);
	goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 20);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_newcomer_with_a_full_disk_waits_for_space(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	help_swarm_peer(&s, "calm");
	help_swarm_round(&s, 3, WAIT);
	faults_start_with(f);
	struct proc *p = help_swarm_peer(&s, "new");
	faults_start_with(NULL);
	proc_line(p, "member 2", WAIT);
	f->disk_full = true;
	proc_line(p, "next try in", 30);
	poll(NULL, 0, 12000); /* several tries */
	assert_int_equal(times(p, "next try in"), 1);
	f->disk_full = false;
	goes_on(&s, "new", 0, 30);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* The disk fills in whatever it writes at that moment: contributions, the model, the ledger. */
static void a_coordinator_with_a_full_disk_waits_and_loses_nothing(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	faults_start_with(f);
	help_swarm_start(&s, timed);
	faults_start_with(NULL);
	for (int i = 0; i < 2; i++)
		help_swarm_peer(&s, proc_text("peer%d", i));
	for (int k = 0; k < 6; k++) {
		for (int i = 0; i < 2; i++)
			goes_on(&s, proc_text("peer%d", i),
				help_swarm_tokens(&s, proc_text("peer%d", i)), 30);
		poll(NULL, 0, 70 * k);
		f->disk_full = true;
		poll(NULL, 0, 3000);
		f->disk_full = false;
	}
	for (int i = 0; i < 2; i++)
		goes_on(&s, proc_text("peer%d", i), help_swarm_tokens(&s, proc_text("peer%d", i)),
			30);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* What the store cannot do without ends everything else until there is room, fixed rounds too. */
static void a_coordinator_whose_store_is_full_starts_again_by_itself(void **state)
{
	(void)state;
	static const char *const fixed[] = {"round.peers_min=2", NULL};
	struct swarm s;
	struct faults *f = faults_new();
	faults_start_with(f);
	help_swarm_start(&s, fixed);
	faults_start_with(NULL);
	struct proc *first = help_swarm_peer(&s, "first");
	proc_line(first, "waiting for the coordinator to open a round", WAIT);
	f->disk_full = true;
	struct proc *second = help_swarm_peer(&s, "second");
	proc_line(s.coordinator, "the run waits for space and goes on by itself", WAIT);
	status_says(&s, "first", "no link to the coordinator", WAIT);
	f->disk_full = false;
	proc_line(s.coordinator, "there is space again", WAIT);
	const char *line = help_swarm_finish(&s, WAIT);
	help_swarm_ends(first, WAIT);
	help_swarm_ends(second, WAIT);
	assert_string_equal(help_run_value(line, "peers"), "2");
	help_swarm_verify(&s, line);
}

/* ---- clocks */

#define HOUR 3600

static void clocks_that_jump_disturb_nobody(void **state)
{
	(void)state;
	static const int64_t jumps[] = {5 * HOUR, -7 * HOUR, 0};
	struct swarm s;
	struct faults *theirs = faults_new(), *ours = faults_new();
	faults_start_with(theirs);
	help_swarm_start(&s, timed);
	faults_start_with(ours);
	struct proc *p = help_swarm_peer(&s, "peer");
	goes_on(&s, "peer", 0, WAIT);
	for (int i = 0; i < 6; i++) {
		(i % 2 ? theirs : ours)->clock_s = jumps[i / 2];
		goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 20);
		help_swarm_round(&s, round_of(&s) + 3, WAIT);
		status_says(&s, "peer", "working", WAIT);
	}
	/* and starts with clocks that differ by hours */
	ours->clock_s = 10 * HOUR;
	theirs->clock_s = -10 * HOUR;
	proc_signal(p, SIGINT);
	assert_int_equal(proc_wait(p, WAIT), 130);
	help_swarm_stop(&s);
	faults_start_with(theirs);
	help_swarm_coordinator(&s);
	faults_start_with(ours);
	help_swarm_peer(&s, "peer");
	goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 30);
	help_swarm_peer(&s, "new");
	goes_on(&s, "new", 0, 30);
	faults_start_with(NULL);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_clock_that_is_off_by_a_year_is_named(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	f->clock_s = -400 * 24 * (int64_t)HOUR;
	faults_start_with(f);
	struct proc *p = help_swarm_peer(&s, "early");
	assert_int_equal(proc_wait(p, 60), 1);
	assert_int_equal(times(p, "the clock is probably wrong"), 1);
	f->clock_s = 400 * 24 * (int64_t)HOUR;
	p = help_swarm_peer(&s, "late");
	faults_start_with(NULL);
	assert_int_equal(proc_wait(p, 60), 1);
	assert_int_equal(times(p, "set the clock if it is wrong"), 1);
	help_swarm_stop(&s);
}

/* Its clock was a year ahead when it started, and is set right while it runs. */
static void a_coordinator_whose_clock_is_mended_is_believed(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	f->clock_s = 400 * 24 * (int64_t)HOUR;
	faults_start_with(f);
	help_swarm_start(&s, timed);
	faults_start_with(NULL);
	f->clock_s = 0;
	help_swarm_peer(&s, "peer");
	goes_on(&s, "peer", 0, 30);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static int clean(void **state)
{
	faults_start_with(NULL);
	return relay_teardown(state);
}

#define ROW(test) cmocka_unit_test_teardown(test, clean)

int main(int argc, char **argv)
{
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	const struct CMUnitTest tests[] = {
		ROW(a_peer_cut_off_for_rounds_trains_on_and_comes_back),
		ROW(everybody_cut_off_waits_and_goes_on),
		ROW(a_coordinator_away_for_long_is_found_again_soon),
		ROW(a_laptop_that_slept_is_itself_again),
		ROW(a_slow_line_makes_a_peer_late_and_holds_up_nobody),
		ROW(who_leaves_while_it_trains_on_leaves_its_work),
		ROW(a_peer_with_a_full_disk_trains_on),
		ROW(a_newcomer_with_a_full_disk_waits_for_space),
		ROW(a_coordinator_with_a_full_disk_waits_and_loses_nothing),
		ROW(a_coordinator_whose_store_is_full_starts_again_by_itself),
		ROW(clocks_that_jump_disturb_nobody),
		ROW(a_clock_that_is_off_by_a_year_is_named),
		ROW(a_coordinator_whose_clock_is_mended_is_believed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
