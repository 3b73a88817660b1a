/* A run over IPv6 alone: joining, training, peers that others reach, page, tools. */
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 120

static const char *const timed[] = {"timed", "round.seconds=1", "round.peers_min=3", NULL};

static void need_ipv6(void)
{
	const struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool has = fd >= 0 && !bind(fd, (const struct sockaddr *)&here, sizeof here);
	if (fd >= 0)
		close(fd);
	if (has)
		return;
	fprintf(stderr, "SKIP: this machine has no ::1\n");
	skip();
}

static struct proc *peer(const struct swarm *s, const char *name, const char *listen)
{
	setenv("LOG", "peer:2", 1);
	setenv("SHOAL_LISTEN", listen, 1); /* empty: not set */
	struct proc *p = help_swarm_peer(s, name);
	unsetenv("SHOAL_LISTEN");
	unsetenv("LOG");
	return p;
}

static const char *join_link(const struct swarm *s)
{
	return help_run_read(s->link);
}

/* Updates have come from a peer that others reach. */
static void until_aggregated(const struct swarm *s)
{
	const uint64_t deadline = clock_now_ns() + WAIT * CLOCK_SECOND;
	for (json_int_t n = 0; n < 2;) {
		json_t *doc = help_swarm_get(s, "/api/v1/topology.json");
		n = json_integer_value(json_object_get(doc, "aggregated"));
		json_decref(doc);
		if (clock_now_ns() > deadline)
			fail_msg("no peer aggregates:\n%s", proc_err(s->coordinator));
		poll(NULL, 0, 50); /* between two looks */
	}
}

static void three_peers_train_over_ipv6_alone(void **state)
{
	(void)state;
	struct swarm s;
	need_ipv6();
	setenv("SHOAL_PLAN", "random", 1);
	help_swarm_start_at(&s, "[::1]", timed);
	unsetenv("SHOAL_PLAN");
	assert_non_null(strstr(join_link(&s), proc_text("shoal://[::1]:%u/", s.port)));
	struct proc *p = PROC_RUN(0, 30, "shoal-coordinator", "status", s.link);
	assert_non_null(strstr(proc_out(p), "waiting for 3 more peers"));
	PROC_RUN(0, 30, "shoal-coordinator", "invite", "create", s.dir);

	struct proc *peers[] = {
		peer(&s, "one", "[::1]:0"), peer(&s, "two", "[::1]:0"), peer(&s, "three", "")};
	proc_line(peers[2], "linked with the coordinator at [::1]:", WAIT);
	proc_line(peers[2], " at [::1]:", WAIT); /* linked with another member */
	until_aggregated(&s);
	for (int i = 0; i < 3; i++) {
		proc_signal(peers[i], SIGINT);
		assert_int_equal(proc_wait(peers[i], WAIT), 130);
		assert_null(strstr(proc_err(peers[i]), "is passed over"));
		assert_null(strstr(proc_err(peers[i]), "127.0.0.1"));
	}
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* As an operator writes it, and for visitors of both kinds. */
static void every_address_is_served(void **state)
{
	(void)state;
	struct swarm s;
	need_ipv6();
	setenv("SHOAL_PUBLIC_ADDRESS", "::1", 1);
	s = (struct swarm){.scratch = proc_scratch(), .host = "::"};
	s.data = help_run_data(s.scratch);
	s.spec = help_run_spec(s.scratch, s.data, NULL);
	s.dir = proc_text("%s/coordinator", s.scratch);
	s.link = proc_text("%s/join.link", s.scratch);
	s.coordinator = PROC_START("shoal-coordinator", "serve", s.spec, "--data", s.data, "--dir",
		s.dir, "--address", "::", "--port", "0", "--link-port", "0", "--invite-file",
		s.link, "--exit-at-end");
	unsetenv("SHOAL_PUBLIC_ADDRESS");
	const char *page = proc_line(s.coordinator, "page: https://[::1]:", WAIT);
	s.port = (uint16_t)strtoul(strrchr(page, ':') + 1, NULL, 10);
	static const char *const hosts[] = {"[::1]", "127.0.0.1", "localhost"};
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		s.host = hosts[i];
		json_t *doc = help_swarm_get(&s, "/api/v1/overview.json");
		if (!doc)
			fail_msg("nobody answers at %s", hosts[i]);
		json_decref(doc);
	}
	struct proc *p = peer(&s, "one", "");
	const char *line = help_swarm_finish(&s, WAIT);
	help_swarm_ends(p, WAIT);
	help_swarm_verify(&s, line);
}

/* Without IPv4 the join link names the address that the machine has. */
static void a_machine_without_ipv4_names_its_own_address(void **state)
{
	(void)state;
	struct swarm s;
	need_ipv6();
	if (unshare(CLONE_NEWNET)) {
		fprintf(stderr, "SKIP: network namespaces are not allowed here\n");
		skip();
	}
	PROC_RUN(0, 30, "/bin/sh", "-c",
		"ip link set lo up && ip addr del 127.0.0.1/8 dev lo && "
		"ip link add out type veth peer name far && ip link set far up && "
		"ip link set out up && "
		"ip addr add 2001:db8::7/64 dev out nodad");
	s = (struct swarm){.scratch = proc_scratch()};
	s.data = help_run_data(s.scratch);
	s.spec = help_run_spec(s.scratch, s.data, NULL);
	s.dir = proc_text("%s/coordinator", s.scratch);
	s.link = proc_text("%s/join.link", s.scratch);
	s.coordinator = PROC_START("shoal-coordinator", "serve", s.spec, "--data", s.data, "--dir",
		s.dir, "--invite-file", s.link, "--exit-at-end");
	proc_line(s.coordinator, "page: https://[2001:db8::7]:7433/", WAIT);
	proc_line(s.coordinator, "join link:", WAIT);
	assert_non_null(strstr(join_link(&s), "shoal://[2001:db8::7]:7433/"));
	struct proc *p = peer(&s, "one", "[2001:db8::7]:7435");
	const char *line = help_swarm_finish(&s, WAIT);
	help_swarm_ends(p, WAIT);
	help_swarm_verify(&s, line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(three_peers_train_over_ipv6_alone, proc_teardown),
		cmocka_unit_test_teardown(every_address_is_served, proc_teardown),
		/* the last: there is no way back out of the namespace */
		cmocka_unit_test_teardown(
			a_machine_without_ipv4_names_its_own_address, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
