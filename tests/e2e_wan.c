/* The emulated links of tests/wan: a mistake in a topology is named, and a bed gives what it
 * promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/help_proc.h"
#include "tests/help_run.h"

#define SCRIPT "tests/wan/wan.sh"
#define EMULATOR "tests/wan/emulator"

static const char *file_of(const char *text)
{
	const char *path = proc_text("%s/some.bed", proc_scratch());
	help_run_write(path, text);
	return path;
}

static void refused(const char *text, const char *part)
{
	struct proc *p = PROC_RUN(1, 10, proc_program(EMULATOR), "nodes", file_of(text));
	if (!strstr(proc_err(p), part))
		fail_msg("\"%s\" is not in: %s", part, proc_err(p));
}

static void mistakes_are_named(void **state)
{
	(void)state;
	refused("node coordinator x\nnode p1 x upp=3\nlink x x\n", "line 2: unknown key upp=");
	refused("node coordinator x\n\nnode p1 x up=fast\n", "line 3: up=fast is no number");
	refused("node coordinator x\nnode p1 x loss=1.5\n", "line 2: loss=1.5 must be 0 to 1");
	refused("node coordinator x delay=nan\n", "line 1: delay=nan must be");
	refused("node coordinator x\nnode coordinator x\n", "line 2: a second node");
	refused("node coordinator x\nlink x y delay=1\n", "line 2: no node is at a site \"y\"");
	refused("node coordinator x\nnode p1 y\n", "have no link: add link x y");
	refused("node p1 x\n", "there is no node \"coordinator\"");
	refused("nod p1 x\n", "line 1: a line begins with node, link or nat");
}

static int clean_up(void **state)
{
	struct proc *p = PROC_START(SCRIPT, "down");
	(void)proc_wait(p, 20);
	return proc_teardown(state);
}

static void a_bed_gives_what_it_promises(void **state)
{
	(void)state;
	struct proc *p = PROC_START(SCRIPT, "allowed");
	if (proc_wait(p, 20) == 77)
		skip();
	const char *bed = file_of("node coordinator x\nnode p1 y up=8 down=16\n"
				  "link x y delay=15\n");
	p = PROC_RUN(0, 60, SCRIPT, "measure", bed);
	const char *line = proc_line(p, "wan: ok", 1);
	assert_true(strtod(help_run_value(line, "rtt_ms"), NULL) >= 30);
	assert_true(strtod(help_run_value(line, "up_mbit"), NULL) <= 8.4);
	PROC_RUN(0, 20, SCRIPT, "up", bed);
	PROC_RUN(0, 20, SCRIPT, "run", "p1", "true");
	PROC_RUN(0, 20, SCRIPT, "tell", "cut", "p1");
	PROC_RUN(1, 20, SCRIPT, "tell", "cut", "nobody");
	PROC_RUN(0, 20, SCRIPT, "down");
	PROC_RUN(1, 20, SCRIPT, "nodes");
}

static int without_namespaces(void **state)
{
	(void)state;
	return setenv("WAN_PLAIN", "1", 1);
}

static int clean_up_plain(void **state)
{
	int failed = clean_up(state);
	return unsetenv("WAN_PLAIN") || failed;
}

static void without_namespaces_peers_send_slowly(void **state)
{
	(void)state;
	struct proc *p = PROC_RUN(77, 20, SCRIPT, "allowed");
	p = PROC_RUN(0, 20, SCRIPT, "up",
		file_of("node coordinator x\nnode p1 y up=8 down=16\nlink x y delay=15\n"));
	assert_non_null(strstr(proc_err(p), "only what peers send is slowed"));
	PROC_RUN(1, 20, SCRIPT, "up", "home");
	p = PROC_RUN(
		0, 20, SCRIPT, "run", "p1", proc_program("shoal-peer"), "join", "--print-config");
	proc_line(p, "max-up = 8M", 1);
	proc_line(p, "send-delay = 30ms", 1);
	p = PROC_RUN(0, 20, SCRIPT, "run", "coordinator", "env");
	assert_null(strstr(proc_out(p), "SHOAL_MAX_UP"));
	p = PROC_RUN(0, 20, SCRIPT, "address", "p1");
	proc_line(p, "127.0.0.1", 1);
	PROC_RUN(1, 20, SCRIPT, "tell", "cut", "p1");
	PROC_RUN(0, 20, SCRIPT, "down");
	PROC_RUN(1, 20, SCRIPT, "nodes");
}

int main(void)
{
	char name[32];
	snprintf(name, sizeof name, "t%d", (int)getpid());
	setenv("WAN_NAME", name, 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(mistakes_are_named, proc_teardown),
		cmocka_unit_test_teardown(a_bed_gives_what_it_promises, clean_up),
		cmocka_unit_test_setup_teardown(
			without_namespaces_peers_send_slowly, without_namespaces, clean_up_plain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
