/* By way of a proxy, of either kind: what is written as one, links and HTTPS through it, and what
 * is said when it does not let them through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "net/https_client.h"
#include "tests/help_net.h"
#include "tests/help_proxy.h"

#define LARGE ((size_t)6 << 20)

static struct help_net_end coordinator, peer;
static struct help_proxy *by;
static struct proxy proxy;

static const char *const schemes[] = {[HELP_PROXY_socks] = "socks5h", [HELP_PROXY_http] = "http"};

static int setup(void **state)
{
	(void)state;
	help_net_init(&coordinator, LINK_coordinator);
	help_net_init(&peer, LINK_peer);
	by = help_proxy_start(0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	help_net_stop(&peer);
	help_net_stop(&coordinator);
	help_proxy_end();
	return 0;
}

static void use(const char *scheme, const char *user, uint16_t port)
{
	char text[200];
	struct why why = {0};
	snprintf(text, sizeof text, "%s://%s127.0.0.1:%u", scheme, user, port);
	if (proxy_parse(text, &proxy, &why))
		fail_msg("%s", why.text);
}

static void says(const struct why *why, const char *part)
{
	if (!strstr(why->text, part))
		fail_msg("\"%s\" is not in: %s", part, why->text);
	if (strstr(why->text, "geheim"))
		fail_msg("the password is in: %s", why->text);
}

/* ---- what is written */

static void what_is_a_proxy(void **state)
{
	(void)state;
	static const struct {
		const char *text, *shown, *user, *password;
	} good[] = {{"socks5h://127.0.0.1:1080", "socks5h://127.0.0.1:1080", "", ""},
		{"SOCKS5H://proxy.example.org:1/", "socks5h://proxy.example.org:1", "", ""},
		{"http://[::1]:3128", "http://[::1]:3128", "", ""},
		{"http://me:geheim@a:80", "http://a:80", "me", "geheim"},
		{"http://me@a:80", "http://a:80", "me", ""},
		{"http://m%40e:g%3a%25%2F@a:80", "http://a:80", "m@e", "g:%/"},
		{"http://me:a@b@c:80", "http://c:80", "me", "a@b"}};
	static const char *const bad[] = {"", "a", "a:80", "127.0.0.1:1080", "socks5h://",
		"socks5h://a", "socks5h://a:0", "socks5h://a:70000", "socks5h://a:1/path",
		"socks5://a:1", "socks4://a:1", "https://a:1", "http:/a:1", "http://:80",
		"http://me:geheim@", "http://me:geheim@a", "http://@a:80", "http://:geheim@a:80",
		"http://me:geheim%@a:80", "http://me:geheim%0@a:80", "http://me:geheim%00@a:80",
		"socks5://me:geheim@a:1", "me:geheim@a:80", "http://me:geheim@a b:80"};
	struct why why = {0};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		if (proxy_parse(good[i].text, &proxy, &why))
			fail_msg("%s is refused: %s", good[i].text, why.text);
		assert_string_equal(proxy.shown, good[i].shown);
		assert_string_equal(proxy.user, good[i].user);
		assert_string_equal(proxy.password, good[i].password);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (proxy_parse(bad[i], &proxy, &why) != ERR_usage)
			fail_msg("%s is taken", bad[i]);
		says(&why, "roxy");
	}
	char text[700];
	for (int n = 255; n < 257; n++) {
		snprintf(text, sizeof text, "http://%0*d:%0*d@a:80", n, 1, n, 2);
		assert_int_equal(proxy_parse(text, &proxy, &why), n > 255 ? ERR_usage : ERR_OK);
	}
}

/* ---- links */

static void connect_to(const char *host)
{
	char address[64];
	shoal_hello hello = help_net_hello(1);
	snprintf(address, sizeof address, "%s:%u", host, link_port(coordinator.link));
	link_connect(peer.link, coordinator.keys.public_key, address, &hello);
}

static void start(void)
{
	peer.config.proxy = &proxy;
	help_net_start(&coordinator);
	help_net_start(&peer);
	help_net_admit(&coordinator, peer.keys.public_key);
}

static void greet(void)
{
	link_event_free(help_net_wait(&coordinator, LINK_connected));
	help_net_welcome(&coordinator, peer.keys.public_key);
	link_event_free(help_net_wait(&peer, LINK_connected));
}

static void push(struct help_net_end *from, struct help_net_end *to, uint64_t seed)
{
	struct shared *s = help_net_bytes(seed, LARGE);
	help_net_push(from, to->keys.public_key, s);
	struct link_event *e = help_net_wait(to, LINK_object);
	assert_int_equal(e->payload_len, LARGE);
	assert_memory_equal(e->payload, shared_data(s), LARGE);
	link_answer(to->link, e->key, e->ref, ERR_OK, NULL);
	link_event_free(e);
	help_net_expect(from, LINK_delivered);
	shared_drop(s);
}

/* A name that nobody but the proxy knows; both ways; its end, and its coming back. */
static void a_link_goes_through(enum help_proxy_kind kind)
{
	const uint16_t port = help_proxy_port(by);
	use(schemes[kind], "", port);
	start();
	connect_to(HELP_PROXY_NAME);
	greet();
	push(&peer, &coordinator, 1);
	push(&coordinator, &peer, 2);
	assert_int_equal(help_proxy_opened(by, kind), 1);
	assert_int_equal(help_proxy_opened(by, !kind), 0);
	assert_true(help_proxy_bytes(by) > 2 * LARGE);

	help_proxy_stop(by);
	struct link_event *e = help_net_wait(&peer, LINK_lost);
	link_event_free(e);
	e = help_net_wait(&peer, LINK_waiting); /* of the connection that ended */
	link_event_free(e);
	e = help_net_wait(&peer, LINK_waiting); /* of the next attempt */
	says(&e->why, "nothing listens at the proxy ");
	link_event_free(e);

	by = help_proxy_start(port);
	greet();
	push(&peer, &coordinator, 3);
	shoal_header bye = msg_bye("the last word");
	link_send(peer.link, coordinator.keys.public_key, &bye, NULL);
	help_net_stop(&peer);
	do {
		e = help_net_wait(&coordinator, LINK_lost);
		const bool last = !strcmp(e->why.text, "the last word");
		link_event_free(e);
		if (last)
			return;
	} while (true);
}

static void a_link_goes_through_socks(void **state)
{
	(void)state;
	a_link_goes_through(HELP_PROXY_socks);
}

static void a_link_goes_through_connect(void **state)
{
	(void)state;
	a_link_goes_through(HELP_PROXY_http);
}

static void waits_because(const char *host, const char *part)
{
	connect_to(host);
	struct link_event *e = help_net_wait(&peer, LINK_waiting);
	says(&e->why, part);
	link_event_free(e);
	link_forget(peer.link, coordinator.keys.public_key);
}

static void a_link_that_is_not_let_through(enum help_proxy_kind kind)
{
	use(schemes[kind], "", help_proxy_port(by));
	peer.config.connect_ns = CLOCK_SECOND;
	start();
	waits_because("unknown.invalid", "does not reach unknown.invalid:");
	help_proxy_mood(by, HELP_PROXY_denies);
	waits_because(HELP_PROXY_NAME, "does not allow connections to " HELP_PROXY_NAME);
	help_proxy_mood(by, HELP_PROXY_lost);
	waits_because(HELP_PROXY_NAME, "does not reach " HELP_PROXY_NAME);
	help_proxy_mood(by, HELP_PROXY_silent);
	waits_because(HELP_PROXY_NAME, "does not say whether it reaches " HELP_PROXY_NAME);
	help_proxy_mood(by, HELP_PROXY_strange);
	waits_because(HELP_PROXY_NAME, kind ? "does not speak HTTP" : "does not speak SOCKS 5");
	help_proxy_mood(by, HELP_PROXY_open);
	help_proxy_password(by, "me:geheim");
	waits_because(HELP_PROXY_NAME, "wants a user and a password");
	help_proxy_password(by, NULL);
	connect_to(HELP_PROXY_NAME); /* nothing of it is remembered */
	greet();
}

static void socks_does_not_let_through(void **state)
{
	(void)state;
	a_link_that_is_not_let_through(HELP_PROXY_socks);
}

static void connect_does_not_let_through(void **state)
{
	(void)state;
	a_link_that_is_not_let_through(HELP_PROXY_http);
}

static void a_link_with_a_password(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		use(schemes[kind], "me:geheim@", help_proxy_port(by));
		help_proxy_password(by, "me:nicht");
		start();
		waits_because(HELP_PROXY_NAME, "does not take the user and the password");
		help_proxy_password(by, "me:geheim");
		connect_to(HELP_PROXY_NAME);
		greet();
		teardown(NULL);
		setup(NULL);
	}
}

static void a_proxy_that_is_not_there(void **state)
{
	(void)state;
	use("socks5h", "", help_proxy_port(by));
	snprintf(proxy.shown, sizeof proxy.shown, "socks5h://unknown.invalid:1080");
	start();
	waits_because(
		HELP_PROXY_NAME, "the name of the proxy socks5h://unknown.invalid:1080 is not");
}

/* Many at once, and ended while they are opened. */
static void ways_that_nobody_waits_for(void **state)
{
	(void)state;
	use("http", "", help_proxy_port(by));
	help_proxy_mood(by, HELP_PROXY_silent);
	start();
	for (uint8_t i = 0; i < 40; i++) {
		uint8_t key[LINK_KEY];
		shoal_hello hello = help_net_hello(1);
		memcpy(key, coordinator.keys.public_key, sizeof key);
		key[5] ^= i;
		link_connect(peer.link, key, "127.0.0.1:9", &hello);
		if (i % 2)
			link_forget(peer.link, key);
	}
	help_proxy_mood(by, HELP_PROXY_open);
	help_net_stop(&peer);
}

/* ---- HTTPS */

static void https_says(const char *host, const char *part)
{
	struct joinlink l = {.port = link_port(coordinator.link)};
	struct https_client_config config;
	struct https_client *c;
	struct statement s;
	struct why why = {0};
	snprintf(l.host, sizeof l.host, "%s", host);
	https_client_config_init(&config, &l);
	config.connect_ns = 700 * CLOCK_MS;
	config.proxy = &proxy;
	assert_int_equal(https_client_new(&config, &c, &why), ERR_OK);
	assert_int_not_equal(https_client_contact(c, &l, 2000000000u, &s, &why), ERR_OK);
	says(&why, part);
	https_client_free(c);
}

static void https_goes_by_it_too(void **state)
{
	(void)state;
	help_net_start(&coordinator);
	for (int kind = 0; kind < 2; kind++) {
		use(schemes[kind], "", help_proxy_port(by));
		help_proxy_mood(by, HELP_PROXY_open);
		const uint64_t before = help_proxy_opened(by, kind);
		https_says(HELP_PROXY_NAME, "TLS"); /* it is the port of links that it comes to */
		https_says("127.0.0.1", "TLS");     /* who names a proxy means it */
		assert_int_equal(help_proxy_opened(by, kind), before + 2);
		help_proxy_mood(by, HELP_PROXY_denies);
		https_says(HELP_PROXY_NAME, "does not allow connections to " HELP_PROXY_NAME);
		help_proxy_mood(by, HELP_PROXY_lost);
		https_says(HELP_PROXY_NAME, "does not reach " HELP_PROXY_NAME);
		help_proxy_mood(by, HELP_PROXY_silent);
		https_says(HELP_PROXY_NAME, "does not say whether it reaches");
		help_proxy_mood(by, HELP_PROXY_strange);
		https_says(HELP_PROXY_NAME, "does not speak ");
		help_proxy_mood(by, HELP_PROXY_open);
		help_proxy_password(by, "me:geheim");
		https_says(HELP_PROXY_NAME, "wants a user and a password");
		use(schemes[kind], "me:falsch@", help_proxy_port(by));
		https_says(HELP_PROXY_NAME, "does not take the user and the password");
		use(schemes[kind], "me:geheim@", help_proxy_port(by));
		https_says(HELP_PROXY_NAME, "TLS");
		help_proxy_password(by, NULL);
	}
	const uint16_t port = help_proxy_port(by);
	help_proxy_stop(by);
	use("http", "", port);
	https_says(HELP_PROXY_NAME, "nothing listens at the proxy http://127.0.0.1:");
	use("socks5h", "", port);
	https_says(HELP_PROXY_NAME, "nothing listens at the proxy socks5h://127.0.0.1:");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_a_proxy),
		TEST(a_link_goes_through_socks),
		TEST(a_link_goes_through_connect),
		TEST(socks_does_not_let_through),
		TEST(connect_does_not_let_through),
		TEST(a_link_with_a_password),
		TEST(a_proxy_that_is_not_there),
		TEST(ways_that_nobody_waits_for),
		TEST(https_goes_by_it_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
