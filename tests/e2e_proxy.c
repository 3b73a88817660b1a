/* Peers behind a proxy, with real processes: the coordinator is named by a name that the proxy
 * alone knows, so what arrives has gone through it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/help_proxy.h"
#include "tests/help_relay.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 120
#define SECRET "geheim-4711"

static const char *const two[] = {"round.peers_min=2", NULL};
static const char *const timed[] = {"timed", "round.seconds=1", NULL};

static int teardown(void **state)
{
	help_proxy_end();
	unsetenv("SHOAL_PROXY");
	unsetenv("SHOAL_PLAN");
	unsetenv("LOG");
	return relay_teardown(state);
}

static const char *url(const struct help_proxy *by, const char *scheme, const char *user)
{
	return proc_text("%s://%s127.0.0.1:%u", scheme, user, help_proxy_port(by));
}

/* By way of the proxy that SHOAL_PROXY names. */
static struct proc *behind(const struct swarm *s, const char *name, const char *proxy)
{
	struct swarm through = *s;
	through.link = relay_link(s->link, HELP_PROXY_NAME);
	setenv("SHOAL_PROXY", proxy, 1);
	struct proc *p = help_swarm_peer(&through, name);
	unsetenv("SHOAL_PROXY");
	return p;
}

static void both_kinds_carry_a_run(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, two);
	struct help_proxy *by = help_proxy_start(0), *other = help_proxy_start(0);
	struct proc *peers[] = {behind(&s, "socks", url(by, "socks5h", "")),
		behind(&s, "http", url(other, "http", ""))};
	proc_line(peers[0], proc_text("through the proxy %s", url(by, "socks5h", "")), WAIT);
	const char *line = help_swarm_finish(&s, WAIT);
	for (int i = 0; i < 2; i++)
		help_swarm_ends(peers[i], WAIT);
	assert_string_equal(help_run_value(line, "peers"), "2");
	help_swarm_verify(&s, line);
	assert_true(help_proxy_opened(by, HELP_PROXY_socks) >= 2); /* HTTPS, and the link */
	assert_true(help_proxy_opened(other, HELP_PROXY_http) >= 2);
	/* data, contributions and updates */
	assert_true(help_proxy_bytes(by) > 50000 && help_proxy_bytes(other) > 50000);
}

static const char *environment_of(const struct proc *p)
{
	static char text[65536];
	FILE *f = fopen(proc_text("/proc/%d/environ", (int)proc_pid(p)), "r");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : '\n';
	text[n] = 0;
	return text;
}

static void a_password_is_used_and_never_shown(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct help_proxy *by = help_proxy_start(0);
	help_proxy_password(by, "me:" SECRET);
	struct proc *p = behind(&s, "without", url(by, "http", ""));
	proc_line(p, "wants a user and a password", WAIT);
	proc_signal(p, SIGINT);
	setenv("LOG", "net:5,peer:5", 1);
	struct proc *peers[] = {behind(&s, "socks", url(by, "socks5h", "me:" SECRET "@")),
		behind(&s, "http", url(by, "http", "me:" SECRET "@"))};
	unsetenv("LOG");
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "http" : "socks";
		help_swarm_goes_on(&s, name, 0, WAIT);
		assert_null(strstr(environment_of(peers[i]), SECRET));
		const char *status = help_run_read(proc_text("%s/%s/status.json", s.scratch, name));
		assert_null(strstr(status, SECRET));
		assert_null(strstr(help_swarm_says(&s, name, "round", WAIT), SECRET));
		proc_signal(peers[i], SIGINT);
		assert_int_equal(proc_wait(peers[i], WAIT), 130);
		assert_null(strstr(proc_err(peers[i]), SECRET));
		assert_null(strstr(proc_out(peers[i]), SECRET));
	}
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void what_does_not_fit_is_said_at_once(void **state)
{
	(void)state;
	static const char with[] = "http://me:" SECRET "@127.0.0.1:3128";
	const char *dir = proc_text("%s/peer", proc_scratch());
	struct proc *p =
		PROC_RUN(2, 30, "shoal-peer", "join", "link", "--dir", dir, "--proxy", with);
	assert_non_null(strstr(proc_err(p), "SHOAL_PROXY"));
	assert_null(strstr(proc_err(p), SECRET));
	p = PROC_RUN(2, 30, "shoal-peer", "join", "link", "--dir", dir, "--proxy",
		"http://127.0.0.1:3128", "--listen", "127.0.0.1:7435");
	assert_non_null(strstr(proc_err(p), "exclude each other"));
	p = PROC_RUN(2, 30, "shoal-peer", "join", "link", "--dir", dir, "--proxy", "ftp://a:1");
	assert_non_null(strstr(proc_err(p), "socks5h://HOST:PORT"));

	const char *conf = proc_text("%s/peer.conf", proc_scratch());
	help_run_write(conf, proc_text("proxy = %s\n", with));
	p = PROC_RUN(0, 30, "shoal-peer", "join", "--config", conf, "--print-config");
	assert_non_null(strstr(proc_out(p), "# proxy is set with a password, and not shown"));
	assert_null(strstr(proc_out(p), SECRET));
	help_run_write(conf, "proxy = http://127.0.0.1:3128\n");
	p = PROC_RUN(0, 30, "shoal-peer", "join", "--config", conf, "--print-config");
	assert_non_null(strstr(proc_out(p), "proxy = http://127.0.0.1:3128"));
}

static void a_proxy_that_dies_is_found_again(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct help_proxy *by = help_proxy_start(0);
	const uint16_t port = help_proxy_port(by);
	const char *kinds[] = {"socks5h", "http"};
	for (int i = 0; i < 2; i++)
		behind(&s, kinds[i], url(by, kinds[i], ""));
	for (int i = 0; i < 2; i++)
		help_swarm_goes_on(&s, kinds[i], 0, WAIT);
	help_proxy_stop(by);
	for (int i = 0; i < 2; i++)
		help_swarm_says(&s, kinds[i],
			proc_text("nothing listens at the proxy %s://127.0.0.1:%u", kinds[i], port),
			WAIT);
	by = help_proxy_start(port);
	for (int i = 0; i < 2; i++)
		help_swarm_goes_on(&s, kinds[i], help_swarm_tokens(&s, kinds[i]), WAIT);
	assert_true(help_proxy_opened(by, HELP_PROXY_socks) > 0);
	assert_true(help_proxy_opened(by, HELP_PROXY_http) > 0);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

static void a_port_that_is_not_allowed_is_named(void **state)
{
	(void)state;
	struct swarm s;
	help_swarm_start(&s, timed);
	struct help_proxy *by = help_proxy_start(0);
	help_proxy_ports(by, s.port, 0);
	behind(&s, "one", url(by, "http", ""));
	help_swarm_says(&s, "one",
		proc_text("does not allow connections to " HELP_PROXY_NAME ":%u", s.link_port),
		WAIT);
	help_proxy_ports(by, 0, 0);
	help_swarm_goes_on(&s, "one", 0, WAIT);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

/* Aggregators are reached through it as well; where it does not let that be, the coordinator takes
 * the contributions. */
static void other_peers_are_reached_by_it_or_not_at_all(void **state)
{
	(void)state;
	struct swarm s;
	setenv("SHOAL_PLAN", "random", 1);
	help_swarm_start(&s, timed);
	unsetenv("SHOAL_PLAN");
	setenv("LOG", "peer:2", 1);
	for (int i = 0; i < 2; i++) {
		setenv("SHOAL_LISTEN", "127.0.0.1:0", 1);
		struct proc *p = help_swarm_peer(&s, proc_text("open%d", i));
		unsetenv("SHOAL_LISTEN");
		proc_line(p, "linked with the coordinator", WAIT);
	}
	struct help_proxy *by = help_proxy_start(0), *strict = help_proxy_start(0);
	help_proxy_ports(strict, s.port, s.link_port);
	struct proc *free = behind(&s, "free", url(by, "socks5h", ""));
	struct proc *bound = behind(&s, "bound", url(strict, "http", ""));
	unsetenv("LOG");
	proc_line(free, "linked with member", WAIT);
	assert_true(help_proxy_opened(by, HELP_PROXY_socks) >= 3);
	proc_line(bound, "does not allow connections to 127.0.0.1:", WAIT);
	help_swarm_goes_on(&s, "free", help_swarm_tokens(&s, "free"), WAIT);
	help_swarm_goes_on(&s, "bound", help_swarm_tokens(&s, "bound"), WAIT);
	assert_true(help_proxy_denied(strict) > 0);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(both_kinds_carry_a_run, teardown),
		cmocka_unit_test_teardown(a_password_is_used_and_never_shown, teardown),
		cmocka_unit_test_teardown(what_does_not_fit_is_said_at_once, teardown),
		cmocka_unit_test_teardown(a_proxy_that_dies_is_found_again, teardown),
		cmocka_unit_test_teardown(a_port_that_is_not_allowed_is_named, teardown),
		cmocka_unit_test_teardown(other_peers_are_reached_by_it_or_not_at_all, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
