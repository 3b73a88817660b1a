/* Connections by real sockets on this machine; its addresses 127.0.0.* stand for visitors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "net/guard.h"

#define EACH 3u
#define ALL 8u
#define MOST 16

static struct guard *g;
static int listener, port, from[MOST], taken[MOST], n;

static struct sockaddr_in address(const char *text, int at_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at_port)};
	assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
	return a;
}

static int setup(void **state)
{
	const struct guard_limits limits = {.connections_most = ALL,
		.strangers_each = EACH,
		.silent_ns = CLOCK_SECOND,
		.unseen_most = 1000};
	struct sockaddr_in a = address("127.0.0.1", 0);
	socklen_t len = sizeof a;
	(void)state;
	n = 0;
	g = guard_new(&limits);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(listener, MOST), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	port = ntohs(a.sin_port);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < n; i++) {
		close(from[i]);
		close(taken[i]);
	}
	close(listener);
	guard_free(g);
	return 0;
}

/* The number of a new connection. */
static int come(const char *visitor)
{
	const struct sockaddr_in to = address("127.0.0.1", port), own = address(visitor, 0);
	assert_true(n < MOST);
	from[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(from[n], (const struct sockaddr *)&own, sizeof own), 0);
	assert_int_equal(connect(from[n], (const struct sockaddr *)&to, sizeof to), 0);
	taken[n] = accept(listener, NULL, NULL);
	assert_true(taken[n] >= 0);
	guard_accepted(g, taken[n], 1);
	return n++;
}

static bool is_cut(int i)
{
	char byte;
	return recv(from[i], &byte, 1, MSG_DONTWAIT) == 0;
}

static void strangers_at_one_address_are_bounded(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < EACH; i++)
		assert_false(is_cut(come("127.0.0.1")));
	assert_true(is_cut(come("127.0.0.1")));
	assert_false(is_cut(come("127.0.0.2"))); /* which is nothing to another one */
	assert_int_equal(guard_cuts(g), 1);
}

static void members_at_one_address_are_not(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < ALL; i++) {
		const int c = come("127.0.0.1");
		assert_false(is_cut(c));
		guard_seen(g, taken[c], 1, 1);
	}
	assert_true(is_cut(come("127.0.0.2"))); /* but all together are */
}

static void who_goes_makes_room(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < EACH; i++)
		come("127.0.0.1");
	guard_gone(g, taken[0]);
	assert_false(is_cut(come("127.0.0.1")));
	assert_true(is_cut(come("127.0.0.1")));
	assert_int_equal(guard_count(g), EACH + 1); /* until it is seen to be gone */
}

static void who_is_silent_is_cut(void **state)
{
	(void)state;
	const int silent = come("127.0.0.1"), speaks = come("127.0.0.1");
	guard_seen(g, taken[speaks], 1, CLOCK_SECOND);
	guard_tick(g, CLOCK_SECOND + 2);
	assert_true(is_cut(silent));
	assert_false(is_cut(speaks));
}

static void bytes_without_a_message_are_bounded(void **state)
{
	(void)state;
	static char bytes[5000];
	const int c = come("127.0.0.1");
	assert_int_equal(send(from[c], bytes, 500, 0), 500);
	guard_tick(g, 2);
	assert_false(is_cut(c));
	assert_int_equal(send(from[c], bytes, sizeof bytes, 0), sizeof bytes);
	guard_tick(g, 2);
	assert_true(is_cut(c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(strangers_at_one_address_are_bounded),
		T(members_at_one_address_are_not),
		T(who_goes_makes_room),
		T(who_is_silent_is_cut),
		T(bytes_without_a_message_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
