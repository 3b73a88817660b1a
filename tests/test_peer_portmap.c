/* The port that a router keeps open for a peer: opened, asked for again, closed; and a router that
 * is a nuisance.  The router is played, in a network namespace, as root. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "peer/portmap.h"
#include "tests/help_igd.h"

#define WAIT (30 * CLOCK_SECOND)

static bool possible;
static char program[512];
static struct mailbox *mail;
static struct portmap_config config;
static struct portmap *map;

static int enter(void **state)
{
	(void)state;
	const char *bin = getenv("SHOAL_BIN");
	snprintf(program, sizeof program, "%s/shoal-peer", bin ? bin : ".");
	possible = bin && help_igd_net() && help_igd_library();
	if (!possible)
		fprintf(stderr, "SKIP: without network namespaces, libminiupnpc17 or SHOAL_BIN\n");
	return 0;
}

static int setup(void **state)
{
	(void)state;
	mail = mailbox_new();
	portmap_config_init(&config);
	config.results = mail;
	config.program = program;
	config.port = 7441;
	config.again_ns = CLOCK_SECOND / 5;
	if (possible)
		help_igd_start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	portmap_free(map);
	map = NULL;
	help_igd_stop();
	mailbox_free(mail);
	return 0;
}

static void start(void)
{
	struct why why = {0};
	if (!possible)
		skip();
	if (portmap_new(&config, &map, &why))
		fail_msg("%s", why.text);
}

static struct portmap_result next(void)
{
	struct mail *m = mailbox_wait(mail, WAIT);
	assert_non_null(m);
	assert_int_equal(m->kind, PORTMAP_result);
	const struct portmap_result r = *(struct portmap_result *)m;
	m->drop(m);
	return r;
}

static void what_an_answer_is(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "mapped", "mapped 203.0.113.7 7441 1200\n",
		"mapped 203.0.113.7 7441 1200 http://a/", "mapped 203.0.113.7 0 1200 http://a/\n",
		"mapped 203.0.113.7 70000 1200 http://a/\n",
		"mapped 203.0.113.7 7441 1200 https://a/\n", "mapped 10.0.0.1 7441 9 http://a/\n",
		"mapped 203.0.113.777 7441 9 http://a/\n", "mapped evil.example 7441 9 http://a/\n",
		"mapped 203.0.113.7 7441 9 http://a/ b\n",
		"mapped 203.0.113.7 7441 9 http://a/\nmore\n",
		"mapped 203.0.113.7 7441 9 http://a/\x1b[1m\n",
		"mapped 203.0.113.7 7441 9 http://a/`x`\n", " mapped x\n"};
	struct portmap_answer a;
	assert_true(portmap_parse("mapped 203.0.113.7 7442 1200 http://10.0.0.1:5/d.xml\n", &a));
	assert_string_equal(a.host, "203.0.113.7");
	assert_int_equal(a.port, 7442);
	assert_int_equal(a.lease_s, 1200);
	assert_string_equal(a.router, "http://10.0.0.1:5/d.xml");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (portmap_parse(bad[i], &a))
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(a.port, 0);
	}
	char text[800];
	for (int n = 248; n < 251; n++) { /* 7 before them, and 255 in all */
		snprintf(text, sizeof text, "mapped 203.0.113.7 1 9 http://%0*d\n", n, 1);
		assert_int_equal(portmap_parse(text, &a), n == 248);
	}
}

static void what_is_public(void **state)
{
	(void)state;
	static const char *const yes[] = {"1.0.0.1", "9.255.255.255", "11.0.0.0", "100.63.255.255",
		"100.128.0.0", "128.0.0.1", "172.15.255.255", "172.32.0.0", "192.167.0.1",
		"192.169.0.1", "203.0.113.7", "223.255.255.254"};
	static const char *const no[] = {"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255",
		"100.64.0.0", "100.127.255.255", "127.0.0.1", "169.254.1.1", "172.16.0.1",
		"172.31.255.255", "192.168.0.1", "192.168.255.255", "192.0.0.1", "198.18.0.1",
		"198.19.0.1", "224.0.0.1", "255.255.255.255"};
	struct in_addr a;
	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
		if (inet_pton(AF_INET, yes[i], &a) != 1 || !portmap_is_public(a))
			fail_msg("%s", yes[i]);
	for (size_t i = 0; i < sizeof no / sizeof *no; i++)
		if (inet_pton(AF_INET, no[i], &a) != 1 || portmap_is_public(a))
			fail_msg("%s", no[i]);
}

static void until_added(unsigned n)
{
	const uint64_t deadline = clock_now_ns() + WAIT;
	while (help_igd_seen().adds < n) {
		if (clock_now_ns() > deadline)
			fail_msg("asked for %u times, not %u", help_igd_seen().adds, n);
		poll(NULL, 0, 10); /* between two looks */
	}
}

static void a_port_is_kept_open_and_closed_at_the_end(void **state)
{
	(void)state;
	config.lease_ns = CLOCK_SECOND;
	start();
	const struct portmap_result r = next();
	assert_true(r.mapped);
	assert_string_equal(r.address, HELP_IGD_OUTER ":7441");
	until_added(3);
	assert_int_equal(help_igd_seen().lease_s, 1);
	assert_null(mailbox_take(mail)); /* the same again is no news */
	portmap_free(map);
	map = NULL;
	assert_false(help_igd_seen().open);
	assert_int_equal(help_igd_seen().removes, 1);
}

static void a_router_that_refuses_is_asked_again(void **state)
{
	(void)state;
	help_igd_mood(HELP_IGD_forbids);
	config.lease_ns = CLOCK_SECOND;
	start();
	struct portmap_result r = next();
	assert_false(r.mapped);
	assert_non_null(strstr(r.why.text, "lets nobody open ports"));
	help_igd_mood(HELP_IGD_good);
	r = next();
	assert_true(r.mapped);
	help_igd_mood(HELP_IGD_double_nat); /* it has got another line */
	r = next();
	assert_false(r.mapped);
	assert_non_null(strstr(r.why.text, "double NAT"));
}

/* Nobody waits for one that never ends: not the asking, and not the end. */
static void a_router_without_end_is_left(void **state)
{
	(void)state;
	help_igd_mood(HELP_IGD_drips);
	config.ask_most_ns = 2 * CLOCK_SECOND;
	config.again_ns = 60 * CLOCK_SECOND;
	start();
	const struct portmap_result r = next();
	assert_false(r.mapped);
	assert_int_equal(r.why.code, ERR_timeout);
	assert_non_null(strstr(r.why.text, "has not answered within 2 s"));
	portmap_free(map);
	map = NULL;

	help_igd_mood(HELP_IGD_good);
	config.ask_most_ns = 10 * CLOCK_SECOND;
	config.end_most_ns = CLOCK_SECOND;
	start();
	assert_true(next().mapped);
	help_igd_mood(HELP_IGD_drips);
	const uint64_t before = clock_now_ns();
	portmap_free(map);
	map = NULL;
	assert_true(clock_now_ns() - before < 10 * CLOCK_SECOND);
}

static void a_program_that_is_not_there(void **state)
{
	(void)state;
	config.program = "/nowhere/shoal-peer";
	start();
	const struct portmap_result r = next();
	assert_false(r.mapped);
	assert_true(r.why.text[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_answer_is),
		cmocka_unit_test(what_is_public),
		TEST(a_port_is_kept_open_and_closed_at_the_end),
		TEST(a_router_that_refuses_is_asked_again),
		TEST(a_router_without_end_is_left),
		TEST(a_program_that_is_not_there),
	};
	return cmocka_run_group_tests(tests, enter, NULL);
}
