/* Peers behind home routers, on emulated links: they train together with one that is reached, by
 * way of it; who listens and is not reached hears so, and is in nobody's way.  As root. */
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
#define SCRIPT "tests/wan/wan.sh"

/* Two at one home, one at another, one in the open. */
static const char bed[] = "node coordinator cloud\n"
			  "node p1 home up=20 down=100\n"
			  "node p2 home up=20 down=100\n"
			  "node p3 flat up=20 down=100\n"
			  "node p4 open up=50 down=100\n"
			  "link home home\n"
			  "link cloud home delay=10\n"
			  "link cloud flat delay=15\n"
			  "link cloud open delay=5\n"
			  "link home flat delay=12\n"
			  "link home open delay=8\n"
			  "link flat open delay=9\n"
			  "nat home\n"
			  "nat flat\n";

static const char *const timed[] = {"timed", "round.seconds=1", "round.peers_min=2", NULL};

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

static struct proc *peer(const struct swarm *s, const char *node, const char *listen)
{
	const char *dir = proc_text("%s/%s", s->scratch, node);
	if (listen)
		return AT(node, "shoal-peer", "join", s->link, "--dir", dir, "--name", node,
			"--threads", "1", "--listen", listen);
	return AT(node, "shoal-peer", "join", s->link, "--dir", dir, "--name", node, "--threads",
		"1");
}

static int open_bed(void **state)
{
	(void)state;
	setenv("WAN_NAME", "nat", 1);
	struct proc *p = PROC_START(SCRIPT, "allowed");
	if (proc_wait(p, 20) == 77)
		return 0;
	const char *file = proc_text("%s/nat.bed", proc_scratch());
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

/* Shards whose update came from a peer. */
static uint64_t stopped(struct swarm *s)
{
	const char *line = help_swarm_stop(s);
	help_swarm_verify(s, line);
	return strtoull(help_run_value(line, "aggregated"), NULL, 10);
}

static void all_deliver(struct proc *const *peers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		proc_line(peers[i], "contribution delivered", WAIT);
}

static void private_peers_exchange_through_the_one_that_is_reached(void **state)
{
	(void)state;
	struct swarm s;
	need_bed();
	setenv("LOG", "coord:3,peer:2", 1);
	coordinator(&s);
	struct proc *peers[] = {peer(&s, "p1", NULL), peer(&s, "p2", NULL), peer(&s, "p3", NULL),
		peer(&s, "p4", "10.77.0.5:7440")};
	unsetenv("LOG");
	all_deliver(peers, 4);
	proc_line(s.coordinator, "1 aggregators by lot of", WAIT);
	for (int i = 0; i < 3; i++)
		proc_line(peers[i], "for its updates", WAIT);
	for (int i = 0; i < 3; i++) /* rounds go on with it, */
		proc_line(s.coordinator, "4 members, ", WAIT);
	proc_signal(peers[3], SIGKILL); /* and without it */
	proc_line(s.coordinator, "3 members, ", WAIT);
	assert_true(stopped(&s) > 2);
}

static void who_is_not_reached_hears_so(void **state)
{
	(void)state;
	struct swarm s;
	need_bed();
	coordinator(&s);
	struct proc *peers[] = {peer(&s, "p1", "172.17.0.1:7440"), /* as every bridge has it */
		peer(&s, "p3", "10.77.0.4:7440"), peer(&s, "p4", NULL)};
	all_deliver(peers, 3);
	proc_line(peers[0], "no other peer has reached 172.17.0.1:7440", WAIT);
	proc_line(peers[1], "no other peer has reached 10.77.0.4:7440", WAIT);
	assert_int_equal(stopped(&s), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			private_peers_exchange_through_the_one_that_is_reached, open_bed,
			close_bed),
		cmocka_unit_test_setup_teardown(who_is_not_reached_hears_so, open_bed, close_bed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
