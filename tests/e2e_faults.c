/* Full disks and clocks that are wrong, at a peer and at the coordinator: nothing is lost, it is
 * said once what is wrong and what to do, and all goes on by itself when it is mended. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <poll.h>
#include <cmocka.h>
#include "base/file.h"
#include "tests/help_faults.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 150

static const char *const timed[] = {"timed", NULL};

/* How often the process has written this. */
static unsigned times(struct proc *p, const char *text)
{
	unsigned n = 0;
	for (const char *at = proc_err(p); (at = strstr(at, text)); at += strlen(text))
		n++;
	return n;
}

/* ---- full disks */

static bool names_a_blob(const char *index)
{
	return file_exists(index) && strstr(help_run_read(index), "\"blob\"");
}

static void a_peer_with_a_full_disk_trains_on(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	faults_start_with(f);
	struct proc *p = help_swarm_peer(&s, "peer");
	faults_start_with(NULL);
	help_swarm_goes_on(&s, "peer", 0, WAIT);
	f->disk_full = true;
	help_swarm_round(&s, help_swarm_at(&s) + 25, WAIT); /* past a snapshot */
	help_swarm_goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 20);
	/* once of each thing that suffers, with the cure: status, state, what is kept for others */
	const unsigned said = times(p, "No space left on device; free some space");
	if (said < 2 || said > 3)
		fail_msg("said %u times:\n%s", said, proc_err(p));
	f->disk_full = false;
	help_swarm_says(&s, "peer", "working", WAIT);
	/* what it keeps for others is whole again when the next snapshot is in it */
	const char *index = proc_text("%s/peer/shelf/index.json", s.scratch);
	for (uint64_t at = help_swarm_at(&s), end = at + 100; !names_a_blob(index); at++) {
		if (at == end)
			fail_msg("%s names nothing after 100 rounds", index);
		help_swarm_round(&s, at + 1, WAIT);
	}
	assert_int_equal(times(p, "No space left"), said);
	/* and a restart goes on from a state that was saved since */
	proc_signal(p, SIGKILL);
	proc_wait(p, WAIT);
	p = help_swarm_peer(&s, "peer");
	proc_line(p, "standing at ledger entry", WAIT);
	help_swarm_goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 20);
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
	poll(NULL, 0, 4000); /* several tries */
	assert_int_equal(times(p, "next try in"), 1);
	f->disk_full = false;
	help_swarm_goes_on(&s, "new", 0, 30);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* The disk fills in whatever it writes at that moment: contributions, the model, the ledger. */
static void fill_and_free(const char *const *changes)
{
	struct swarm s;
	struct faults *f = faults_new();
	faults_start_with(f);
	help_swarm_start(&s, changes);
	faults_start_with(NULL);
	for (int i = 0; i < 2; i++)
		help_swarm_peer(&s, proc_text("peer%d", i));
	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < 2; i++) {
			const char *name = proc_text("peer%d", i);
			help_swarm_goes_on(&s, name, help_swarm_tokens(&s, name), 30);
		}
		poll(NULL, 0, 70 * k);
		f->disk_full = k < 3;
		poll(NULL, 0, k < 3 ? 2000 : 0);
		f->disk_full = false;
	}
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_coordinator_with_a_full_disk_waits_and_loses_nothing(void **state)
{
	(void)state;
	fill_and_free(timed);
}

static void so_it_does_in_rounds_of_fixed_steps(void **state)
{
	(void)state;
	static const char *const fixed[] = {
		"round.peers_min=2", "train.total_tokens=1000000000", NULL};
	fill_and_free(fixed);
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
	help_swarm_says(&s, "first", "no link to the coordinator", WAIT);
	f->disk_full = false;
	proc_line(s.coordinator, "there is space again", WAIT);
	const char *line = help_swarm_finish(&s, WAIT);
	help_swarm_ends(first, WAIT);
	help_swarm_ends(second, WAIT);
	assert_string_equal(help_run_value(line, "peers"), "2");
	help_swarm_verify(&s, line);
}

/* It has nothing yet, not even what its page needs: it begins when there is room. */
static void a_coordinator_started_on_a_full_disk_waits_and_can_be_stopped(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	help_swarm_stop(&s);
	f->disk_full = true;
	faults_start_with(f);
	struct proc *p = PROC_START("shoal-coordinator", "serve", s.spec, "--data", s.data, "--dir",
		proc_text("%s/anew", s.scratch), "--address", "127.0.0.1", "--port", "0",
		"--link-port", "0");
	proc_line(p, "the run waits for space and goes on by itself", WAIT);
	f->disk_full = false;
	proc_line(p, "page: https://", WAIT);
	proc_signal(p, SIGTERM);
	assert_int_equal(proc_wait(p, WAIT), 0);
	f->disk_full = true;
	p = PROC_START("shoal-coordinator", "serve", s.spec, "--data", s.data, "--dir", s.dir,
		"--address", "127.0.0.1", "--port", "0", "--link-port", "0");
	proc_line(p, "the run waits for space and goes on by itself", WAIT);
	proc_signal(p, SIGTERM);
	proc_line(p, "serve: stopped while the run waited for space", WAIT);
	assert_int_equal(proc_wait(p, WAIT), 0);
}

/* Without room for its lock and its keys it cannot even be somebody. */
static void a_peer_started_on_a_full_disk_says_what_to_do(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	struct proc *known = help_swarm_peer(&s, "known");
	help_swarm_goes_on(&s, "known", 0, WAIT);
	proc_signal(known, SIGINT);
	assert_int_equal(proc_wait(known, WAIT), 130);
	static const char *const names[] = {"known", "new"};
	for (int i = 0; i < 2; i++) {
		f->disk_full = true;
		faults_start_with(f);
		struct proc *p = help_swarm_peer(&s, names[i]);
		assert_int_equal(proc_wait(p, WAIT), 1);
		if (times(p, "No space left on device; free some space") != 1)
			fail_msg("%s says:\n%s", names[i], proc_err(p));
		f->disk_full = false;
		help_swarm_peer(&s, names[i]);
		help_swarm_goes_on(&s, names[i], help_swarm_tokens(&s, names[i]), WAIT);
	}
	faults_start_with(NULL);
	help_swarm_verify(&s, help_swarm_stop(&s));
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
	help_swarm_goes_on(&s, "peer", 0, WAIT);
	for (int i = 0; i < 6; i++) {
		(i % 2 ? theirs : ours)->clock_s = jumps[i / 2];
		help_swarm_goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 20);
		help_swarm_round(&s, help_swarm_at(&s) + 3, WAIT);
		help_swarm_says(&s, "peer", "working", WAIT);
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
	help_swarm_goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), 30);
	help_swarm_peer(&s, "new");
	help_swarm_goes_on(&s, "new", 0, 30);
	faults_start_with(NULL);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* As on a machine that asks for the time only after it has booted. */
static void a_clock_that_is_off_by_a_year_is_named_until_it_is_set(void **state)
{
	(void)state;
	static const struct {
		int64_t days;
		const char *name, *says;
	} off[] = {{-400, "early", "the clock is probably wrong"},
		{400, "late", "set the clock if it is wrong"}};
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	for (int i = 0; i < 2; i++) {
		f->clock_s = off[i].days * 24 * HOUR;
		faults_start_with(f);
		struct proc *p = help_swarm_peer(&s, off[i].name);
		proc_line(p, off[i].says, WAIT);
		f->clock_s = 0;
		help_swarm_goes_on(&s, off[i].name, 0, WAIT);
		assert_int_equal(times(p, off[i].says), 1);
	}
	faults_start_with(NULL);
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
	help_swarm_goes_on(&s, "peer", 0, 30);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static int clean(void **state)
{
	faults_start_with(NULL);
	return proc_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_peer_with_a_full_disk_trains_on, clean),
		cmocka_unit_test_teardown(a_newcomer_with_a_full_disk_waits_for_space, clean),
		cmocka_unit_test_teardown(
			a_coordinator_with_a_full_disk_waits_and_loses_nothing, clean),
		cmocka_unit_test_teardown(so_it_does_in_rounds_of_fixed_steps, clean),
		cmocka_unit_test_teardown(
			a_coordinator_whose_store_is_full_starts_again_by_itself, clean),
		cmocka_unit_test_teardown(
			a_coordinator_started_on_a_full_disk_waits_and_can_be_stopped, clean),
		cmocka_unit_test_teardown(a_peer_started_on_a_full_disk_says_what_to_do, clean),
		cmocka_unit_test_teardown(clocks_that_jump_disturb_nobody, clean),
		cmocka_unit_test_teardown(
			a_clock_that_is_off_by_a_year_is_named_until_it_is_set, clean),
		cmocka_unit_test_teardown(a_coordinator_whose_clock_is_mended_is_believed, clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
