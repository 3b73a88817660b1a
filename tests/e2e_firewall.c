/* A firewall that lets some in and others not, on emulated links: who cannot reach an aggregator
 * says so and delivers by the coordinator; nothing is lost by it.  As root. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 90
#define NAMED_WITHIN 30 /* seconds */
#define SCRIPT "tests/wan/wan.sh"

/* p1 listens; what comes from p3 does not arrive there, and the other way round. */
static const char bed[] = "node coordinator cloud\n"
			  "node p1 open up=50 down=100\n"
			  "node p2 near up=50 down=100\n"
			  "node p3 barred up=50 down=100\n"
			  "link cloud open delay=5\n"
			  "link cloud near delay=8\n"
			  "link cloud barred delay=10\n"
			  "link open near delay=4\n"
			  "link open barred delay=6\n"
			  "link near barred delay=5\n";

static const char *const timed[] = {"timed", "round.seconds=1", "round.peers_min=3", NULL};

static struct proc *at(const char *node, const char *const *words)
{
	const char *argv[32] = {SCRIPT, "run", node};
	size_t n = 3;
	argv[n++] = proc_program(words[0]);
	for (size_t i = 1; words[i] && n < 31; i++)
		argv[n++] = words[i];
	return proc_start(argv);
}
#define AT(node, ...) at(node, (const char *const[]){__VA_ARGS__, NULL})

static void coordinator(struct swarm *s)
{
	*s = (struct swarm){.scratch = proc_scratch()};
	s->data = help_run_data(s->scratch);
	s->spec = help_run_spec(s->scratch, s->data, timed);
	s->dir = proc_text("%s/coordinator", s->scratch);
	s->link = proc_text("%s/join.link", s->scratch);
	s->coordinator = AT("coordinator", "shoal-coordinator", "serve", s->spec, "--data", s->data,
		"--dir", s->dir, "--address", "10.77.0.1", "--port", "7433", "--link-port", "7434",
		"--invite-file", s->link, "--plan", "random");
	proc_line(s->coordinator, "join link:", WAIT);
}

static struct proc *peer(const struct swarm *s, const char *node)
{
	return AT(node, "shoal-peer", "join", s->link, "--dir",
		proc_text("%s/%s", s->scratch, node), "--name", node, "--threads", "1");
}

static struct proc *listener(const struct swarm *s, const char *node, const char *address)
{
	return AT(node, "shoal-peer", "join", s->link, "--dir",
		proc_text("%s/%s", s->scratch, node), "--name", node, "--threads", "1", "--listen",
		address);
}

static int open_bed(void **state)
{
	(void)state;
	setenv("WAN_NAME", "firewall", 1);
	struct proc *p = PROC_START(SCRIPT, "allowed");
	if (proc_wait(p, 20) == 77)
		return 0;
	const char *file = proc_text("%s/firewall.bed", proc_scratch());
	help_run_write(file, bed);
	PROC_RUN(0, 30, SCRIPT, "up", file);
	return 0;
}

static int close_bed(void **state)
{
	struct proc *p = PROC_START(SCRIPT, "down");
	(void)proc_wait(p, 20);
	unsetenv("WAN_NAME");
	return proc_teardown(state);
}

static void need_bed(void)
{
	struct proc *p = PROC_START(SCRIPT, "nodes");
	if (proc_wait(p, 20) == 0)
		return;
	fprintf(stderr, "SKIP: network namespaces are not allowed here\n");
	skip();
}

static void who_cannot_reach_an_aggregator_delivers_by_the_coordinator(void **state)
{
	(void)state;
	struct swarm s;
	need_bed();
	PROC_RUN(0, 20, SCRIPT, "tell", "cut", "open", "barred");
	setenv("LOG", "coord:3,peer:2", 1);
	coordinator(&s);
	struct proc *peers[] = {
		listener(&s, "p1", "10.77.0.2:7440"), peer(&s, "p2"), peer(&s, "p3")};
	unsetenv("LOG");
	proc_line(s.coordinator, "1 aggregators by lot of", WAIT);
	proc_line(peers[2],
		"no link to member 1 at 10.77.0.2:7440: 10.77.0.2:7440 does not answer: it is off, "
		"the name or address is wrong, or a firewall drops the connection",
		NAMED_WITHIN);
	for (int i = 0; i < 3; i++) /* nobody is left out */
		proc_line(s.coordinator, "3 members, ", WAIT);
	const char *line = help_swarm_stop(&s);
	help_swarm_verify(&s, line);
	assert_true(strtoull(help_run_value(line, "aggregated"), NULL, 10) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			who_cannot_reach_an_aggregator_delivers_by_the_coordinator, open_bed,
			close_bed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
