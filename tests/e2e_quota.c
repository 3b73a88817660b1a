/* A volunteer whose line has a quota: the peer says goodbye when it is used up, with one sentence,
 * keeps its count whatever happens to it, and comes back by itself when the next month begins. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/file.h"
#include "tests/help_faults.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 90
#define PARKED "parked: the month's quota of"
#define MONTH_S (31 * 86400)

static const char *const timed[] = {"timed", NULL};

static struct proc *start(const struct swarm *s, const char *quota)
{
	return PROC_START("shoal-peer", "join", s->link, "--dir", proc_text("%s/peer", s->scratch),
		"--name", "peer", "--threads", "1", "--quota", quota);
}

static const char *file(const struct swarm *s)
{
	return proc_text("%s/peer/quota.json", s->scratch);
}

static uint64_t counted(const struct swarm *s)
{
	const char *text = help_run_read(file(s));
	const char *at = strstr(text, "\"bytes\":");
	assert_non_null(at);
	return strtoull(at + strlen("\"bytes\":"), NULL, 10);
}

static const char *state_of(const struct swarm *s)
{
	json_t *doc = help_swarm_get(s, "/api/v1/peers.json");
	const json_t *peer = json_array_get(json_object_get(doc, "peers"), 0);
	const char *state = json_string_value(json_object_get(peer, "state"));
	state = proc_text("%s", state ? state : "none");
	json_decref(doc);
	return state;
}

static void it_parks_and_comes_back(void **state)
{
	(void)state;
	struct swarm s;
	struct faults *f = faults_new();
	help_swarm_start(&s, timed);
	faults_start_with(f);
	struct proc *p = start(&s, "800K/month");
	help_swarm_goes_on(&s, "peer", 0, WAIT);
	const char *says = proc_line(p, PARKED, WAIT);
	if (!strstr(says, "goes on by itself on 2") || !strstr(says, "0.819 MB"))
		fail_msg("%s", says);
	help_swarm_says(&s, "peer", "parked", WAIT);
	help_swarm_says(&s, "peer", "quota   0.8", WAIT);
	assert_string_equal(state_of(&s), "gone");
	assert_true(counted(&s) >= 800 * 1024);
	/* A kill and a new start change nothing. */
	const uint64_t tokens = help_swarm_tokens(&s, "peer"), bytes = counted(&s);
	proc_signal(p, SIGKILL);
	proc_wait(p, WAIT);
	p = start(&s, "800K/month");
	proc_line(p, PARKED, WAIT);
	assert_true(counted(&s) >= bytes);
	assert_string_equal(state_of(&s), "gone");
	/* It waits for the clock alone. */
	f->clock_s = MONTH_S;
	proc_line(p, "a new month has begun", WAIT);
	help_swarm_goes_on(&s, "peer", tokens, WAIT);
	proc_line(p, PARKED, WAIT); /* and that month's is used up as well */
	assert_false(proc_ended(p));
	proc_signal(p, SIGINT);
	assert_int_equal(proc_wait(p, WAIT), 130);
	faults_start_with(NULL);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_kill_forgets_little(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct proc *p = start(&s, "50G/month");
	help_swarm_goes_on(&s, "peer", 0, WAIT);
	for (uint64_t end = clock_now_ns() + WAIT * CLOCK_SECOND; !file_exists(file(&s));) {
		if (clock_now_ns() > end)
			fail_msg("%s is not written", file(&s));
		(void)proc_out(p);
		(void)proc_out(s.coordinator);
		poll(NULL, 0, 20); /* between two looks, under the deadline above */
	}
	const uint64_t before = counted(&s);
	assert_true(before > 100000); /* the data, the snapshot and some rounds */
	proc_signal(p, SIGKILL);
	proc_wait(p, WAIT);
	p = start(&s, "50G/month");
	help_swarm_says(&s, "peer", "of 53687.1 MB this month", WAIT);
	help_swarm_goes_on(&s, "peer", help_swarm_tokens(&s, "peer"), WAIT);
	proc_signal(p, SIGINT);
	proc_wait(p, WAIT);
	assert_true(counted(&s) > before);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void what_is_no_quota_is_named(void **state)
{
	(void)state;
	static const char *const wrong[] = {
		"50G", "50G/year", "/month", "x/day", "1K/day", "-1G/day"};
	const char *dir = proc_text("%s/none", proc_scratch());
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct proc *p = PROC_RUN(1, WAIT, "shoal-peer", "join", "--dir", dir,
			proc_text("--quota=%s", wrong[i]));
		assert_non_null(strstr(proc_err(p), "--quota"));
		assert_false(file_exists(dir));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(it_parks_and_comes_back, proc_teardown),
		cmocka_unit_test_teardown(a_kill_forgets_little, proc_teardown),
		cmocka_unit_test_teardown(what_is_no_quota_is_named, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
