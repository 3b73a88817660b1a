/* The router is asked to open a port: what it is asked for, what it may answer, and a run whose
 * peers reach each other by it.  As root, in a network namespace with a router that is played. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/help_igd.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 90

static bool possible;

static int enter(void **state)
{
	(void)state;
	possible = help_igd_net();
	if (!possible)
		fprintf(stderr, "SKIP: network namespaces are not allowed here\n");
	else if (!help_igd_library())
		fprintf(stderr, "SKIP: libminiupnpc17 is not installed\n");
	return 0;
}

static void need_router(void)
{
	if (!possible || !help_igd_library())
		skip();
	help_igd_start();
}

static int teardown(void **state)
{
	help_igd_stop();
	return proc_teardown(state);
}

static void a_port_is_opened_and_closed(void **state)
{
	(void)state;
	need_router();
	struct proc *p = PROC_RUN(0, 30, "shoal-peer", "upnp", "--port", "7441");
	const char *said = proc_text("%s", proc_out(p)),
		   *at = "mapped " HELP_IGD_OUTER " 7441 1200 ";
	assert_int_equal(strncmp(said, at, strlen(at)), 0);
	struct help_igd_seen seen = help_igd_seen();
	assert_true(seen.open && seen.adds == 1);
	assert_int_equal(seen.inner, 7441);
	assert_int_equal(seen.outer, 7441);
	assert_int_equal(seen.lease_s, 1200);
	const char *router =
		proc_text("%.*s", (int)strcspn(said + strlen(at), "\n"), said + strlen(at));
	help_igd_mood(HELP_IGD_silent); /* it need not be searched for again */
	PROC_RUN(0, 30, "shoal-peer", "upnp", "--port", "7441", "--router", router, "--remove");
	seen = help_igd_seen();
	assert_true(!seen.open && seen.removes == 1);
	PROC_RUN(1, 30, "shoal-peer", "upnp", "--port", "7441", "--router", router, "--remove");
}

/* Where it is installed nothing is left of it for this one process. */
static void a_library_that_is_missing_is_named(void **state)
{
	(void)state;
	if (!possible)
		skip();
	const char *script = proc_text(
		"unshare -m sh -c 'for f in $(ls /usr/lib/*/libminiupnpc.so.* /usr/lib/"
		"libminiupnpc.so.* 2>/dev/null); do mount --bind /dev/null $f || exit 77; done; "
		"exec %s upnp --port 7441'",
		proc_program("shoal-peer"));
	struct proc *p = PROC_START("/bin/sh", "-c", script);
	if (proc_wait(p, 30) == 77) {
		fprintf(stderr, "SKIP: nothing may be mounted here\n");
		skip();
	}
	assert_int_equal(proc_wait(p, 30), 1);
	assert_non_null(strstr(proc_err(p), "apt-get install libminiupnpc17"));
}

/* Each is a sentence within seconds, and a process that ends by itself. */
static void whatever_a_router_answers(void **state)
{
	(void)state;
	static const struct {
		enum help_igd_mood mood;
		const char *says;
	} rows[] = {{HELP_IGD_silent, "no router of this network answers to UPnP"},
		{HELP_IGD_forbids, "lets nobody open ports by UPnP"},
		{HELP_IGD_full, "has given port 7441 and those after it to another machine"},
		{HELP_IGD_double_nat, "100.64.9.9 is none of the internet's"},
		{HELP_IGD_strange, "calls \"999.1?[31m\" its outer address, which is none"},
		{HELP_IGD_no_router, "is no router that opens ports"},
		{HELP_IGD_garbage, "is no router that opens ports"}, {HELP_IGD_endless, "router"},
		{HELP_IGD_drips, "has not answered in time"}};
	need_router();
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		help_igd_mood(rows[i].mood);
		struct proc *p = PROC_START("shoal-peer", "upnp", "--port", "7441");
		const int status = proc_wait(p, 30);
		if (status != 1 || !strstr(proc_err(p), rows[i].says))
			fail_msg("\"%s\" is not in: %d %s", rows[i].says, status, proc_err(p));
		assert_int_equal(help_igd_seen().adds, 0);
	}
	help_igd_mood(HELP_IGD_long_names); /* cut somewhere, so that it may come to either */
	struct proc *p = PROC_START("shoal-peer", "upnp", "--port", "7441");
	assert_true(proc_wait(p, 30) <= 1);
	help_igd_mood(HELP_IGD_taken);
	p = PROC_RUN(0, 30, "shoal-peer", "upnp", "--port", "7441");
	assert_non_null(strstr(proc_out(p), "mapped " HELP_IGD_OUTER " 7442 "));
	help_igd_mood(HELP_IGD_for_ever);
	PROC_RUN(0, 30, "shoal-peer", "upnp", "--port", "7441");
	assert_int_equal(help_igd_seen().lease_s, 0);
}

static const char *const timed[] = {"timed", "round.seconds=1", "round.peers_min=2", NULL};

static struct proc *listener(const struct swarm *s, const char *name)
{
	setenv("SHOAL_LISTEN", "*:0", 1);
	setenv("SHOAL_UPNP", "yes", 1);
	struct proc *p = help_swarm_peer(s, name);
	unsetenv("SHOAL_LISTEN");
	unsetenv("SHOAL_UPNP");
	return p;
}

static void peers_come_in_by_the_router(void **state)
{
	(void)state;
	struct swarm s;
	need_router();
	setenv("SHOAL_PLAN", "random", 1);
	help_swarm_start_at(&s, HELP_IGD_INNER, timed);
	unsetenv("SHOAL_PLAN");
	struct proc *first = listener(&s, "first");
	proc_line(first, "giving to other peers at an address that the router is asked for", WAIT);
	proc_line(first, "the router passes connections to " HELP_IGD_OUTER ":", WAIT);
	setenv("LOG", "peer:2", 1);
	struct proc *second = help_swarm_peer(&s, "second");
	unsetenv("LOG");
	proc_line(second, " at " HELP_IGD_OUTER ":", WAIT);
	assert_true(help_igd_seen().open);
	proc_signal(first, SIGINT);
	assert_int_equal(proc_wait(first, WAIT), 130);
	assert_false(help_igd_seen().open);
	assert_int_equal(help_igd_seen().removes, 1);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* Training does not wait for it. */
static void a_hostile_router_is_in_nobodys_way(void **state)
{
	(void)state;
	static const char *const alone[] = {"timed", "round.seconds=1", NULL};
	static const enum help_igd_mood moods[] = {HELP_IGD_endless, HELP_IGD_double_nat};
	static const char *const says[] = {"training goes on without it", "(double NAT)"};
	need_router();
	for (int i = 0; i < 2; i++) {
		struct swarm s;
		help_igd_mood(moods[i]);
		help_swarm_start_at(&s, HELP_IGD_INNER, alone);
		struct proc *p = listener(&s, "one");
		help_swarm_goes_on(&s, "one", 0, WAIT);
		proc_line(p, says[i], WAIT);
		help_swarm_goes_on(&s, "one", help_swarm_tokens(&s, "one"), WAIT);
		proc_signal(p, SIGINT);
		assert_int_equal(proc_wait(p, WAIT), 130);
		assert_int_equal(help_igd_seen().adds, 0);
		help_swarm_verify(&s, help_swarm_stop(&s));
	}
}

static void what_does_not_fit_is_said_at_once(void **state)
{
	(void)state;
	const char *dir = proc_text("%s/peer", proc_scratch());
	struct proc *p = PROC_RUN(2, 30, "shoal-peer", "join", "link", "--dir", dir, "--upnp");
	assert_non_null(strstr(proc_err(p), "--listen '*:7435' --upnp"));
	p = PROC_RUN(2, 30, "shoal-peer", "join", "link", "--dir", dir, "--listen", "*:7435");
	assert_non_null(strstr(proc_err(p), "names no host"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_port_is_opened_and_closed, teardown),
		cmocka_unit_test_teardown(a_library_that_is_missing_is_named, teardown),
		cmocka_unit_test_teardown(whatever_a_router_answers, teardown),
		cmocka_unit_test_teardown(peers_come_in_by_the_router, teardown),
		cmocka_unit_test_teardown(a_hostile_router_is_in_nobodys_way, teardown),
		cmocka_unit_test_teardown(what_does_not_fit_is_said_at_once, teardown),
	};
	return cmocka_run_group_tests(tests, enter, NULL);
}
