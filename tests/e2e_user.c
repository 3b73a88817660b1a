/* What a newcomer types and meets: one sentence for each mistake, with the cure, and the right exit
 * status; and no wait without a word. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/file.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define DEMO "configs/demo.json"
#define WAIT 60

static const char *const pair[] = {"timed", "round.peers_min=2", NULL};

/* One line that holds says, on standard error alone. */
static void refuses(int status, const char *says, const char *const *argv)
{
	struct proc *p = proc_run(status, WAIT, argv);
	const char *line = proc_text("%s", proc_err(p));
	if (!strstr(line, says))
		fail_msg("\"%s\" is not in:\n%s", says, line);
	if (strchr(line, '\n') != line + strlen(line) - 1)
		fail_msg("not one line:\n%s", line);
	assert_string_equal(proc_out(p), "");
}
#define PEER(status, says, ...) \
	refuses(status, says, (const char *const[]){"shoal-peer", __VA_ARGS__, NULL})
#define COORDINATOR(status, says, ...) \
	refuses(status, says, (const char *const[]){"shoal-coordinator", __VA_ARGS__, NULL})

static void what_is_left_out_is_named(void **state)
{
	(void)state;
	PEER(2, "SPEC is missing", "local", "--data", "data", "--dir", "mine");
	PEER(2, "SPEC is missing", "local", "train.lr=1", "--data", "data", "--dir", "mine");
	PEER(2, "--data DIR is missing", "local", DEMO, "--dir", "mine");
	PEER(2, "--dir DIR is missing", "local", DEMO, "--data", "data");
	PEER(2, "STATE is missing", "eval", "--data", "data");
	PEER(2, "--data DIR is missing", "eval", "mine");
	PEER(2, "STATE is missing", "generate");
	PEER(2, "at most 1 word is taken here", "join", "link.txt", "other.txt");
	COORDINATOR(2, "--dir DIR is missing", "serve", DEMO, "--data", "data");
}

static void a_wrong_place_is_named_with_the_right_one(void **state)
{
	(void)state;
	const char *dir = proc_scratch(), *none = proc_text("%s/none", dir),
		   *text = proc_text("%s/book.txt", dir), *folder = proc_text("%s/peer", dir),
		   *data = help_run_data(dir);
	help_run_write(text, "In the beginning\n");
	PEER(1, "give a file", "join", dir, "--dir", folder);
	PEER(1, "shoal-coordinator prepare made", "local", DEMO, "--data", none, "--dir", folder);
	COORDINATOR(1, "give the folder of a run", "status", none);
	COORDINATOR(1, "holds no join.link", "status", dir);
	COORDINATOR(1, "not JSON at line 1", "serve", text, "--data", data, "--dir", folder);
	COORDINATOR(1, "shoal-coordinator prepare made", "serve", help_run_spec(dir, data, NULL),
		"--data", none, "--dir", folder);
	assert_false(file_exists(none));
}

static void a_text_that_is_none_is_remarked(void **state)
{
	(void)state;
	static char zeros[1 << 14];
	const char *dir = proc_scratch(), *text = proc_text("%s/photo", dir);
	struct why why = {0};
	if (file_write(text, zeros, sizeof zeros, 0644, &why))
		fail_msg("%s", why.text);
	struct proc *p = PROC_RUN(
		0, WAIT, "shoal-coordinator", "prepare", text, "--out", proc_text("%s/data", dir));
	assert_non_null(strstr(proc_out(p), "is this plain text?"));
	p = PROC_RUN(0, WAIT, "shoal-coordinator", "prepare", "README.md", "--seq", "16", "--out",
		proc_text("%s/data2", dir));
	assert_null(strstr(proc_out(p), "note"));
}

static void a_port_in_use_is_named_with_its_option(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, pair);
	const char *other = proc_text("%s/other", s.scratch);
	COORDINATOR(1, "--link-port: port ", "serve", s.spec, "--data", s.data, "--dir", other,
		"--address", "127.0.0.1", "--port", "0", "--link-port",
		proc_text("%u", s.link_port));
	COORDINATOR(1, "--port: port ", "serve", s.spec, "--data", s.data, "--dir", other,
		"--address", "127.0.0.1", "--link-port", "0", "--port", proc_text("%u", s.port));
}

/* Whatever stands in the way of joining is told at once, and once. */
static void a_join_that_fails_says_why(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, pair);
	const char *dir = proc_text("%s/peer", s.scratch);
	PEER(1, "there is no training device \"gpu\"", "join", s.link, "--dir", dir, "--backend",
		"gpu");
	assert_false(file_exists(dir));
	const char *lines =
		proc_out(PROC_RUN(0, WAIT, "shoal-coordinator", "invite", "create", s.dir));
	const char *once = proc_text("%s/once.link", s.scratch);
	help_run_write(once, lines);
	const char *list = proc_text(
		"%s", proc_out(PROC_RUN(0, WAIT, "shoal-coordinator", "invite", "list", s.dir)));
	const char *line = strstr(list, "0 of 1 ");
	assert_non_null(line);
	while (line[-1] != '\n')
		line--;
	PROC_RUN(0, WAIT, "shoal-coordinator", "invite", "revoke", s.dir, proc_text("%.16s", line));
	PEER(1, "revoked by the operator", "join", once, "--dir", dir);
	const char *link = strstr(help_run_read(s.link), "127.0.0.1:");
	help_run_write(
		once, proc_text("shoal://coordinator.invalid%s", link + strlen("127.0.0.1")));
	struct proc *p = PROC_START("shoal-peer", "join", once, "--dir", dir);
	proc_line(p, "next try in", WAIT);
	assert_non_null(strstr(proc_err(p), "coordinator.invalid"));
}

static void a_coordinator_that_waits_says_for_whom(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, pair);
	proc_line(s.coordinator, "waiting for 2 more peers", WAIT);
	struct proc *one = help_swarm_peer(&s, "one");
	proc_line(s.coordinator, "waiting for 1 more peer:", WAIT);
	struct proc *two = help_swarm_peer(&s, "two");
	proc_line(s.coordinator, "round 1: ", WAIT);
	proc_signal(two, SIGINT);
	proc_line(s.coordinator, "waiting for 1 more peer:", WAIT);
	proc_signal(one, SIGINT);
	proc_wait(one, WAIT);
	proc_line(s.coordinator, "waiting for 2 more peers", WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_is_left_out_is_named, proc_teardown),
		cmocka_unit_test_teardown(a_wrong_place_is_named_with_the_right_one, proc_teardown),
		cmocka_unit_test_teardown(a_text_that_is_none_is_remarked, proc_teardown),
		cmocka_unit_test_teardown(a_port_in_use_is_named_with_its_option, proc_teardown),
		cmocka_unit_test_teardown(a_join_that_fails_says_why, proc_teardown),
		cmocka_unit_test_teardown(a_coordinator_that_waits_says_for_whom, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
