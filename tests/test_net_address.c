/* Which texts from outside may be connected to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "net/address.h"

static void addresses(void **state)
{
	(void)state;
	static const char *const good[] = {"127.0.0.1:7435", "peer.example.org:1", "a:65535",
		"[::1]:80", "[fe80::1:2]:7435", "[::ffff:10.0.0.1]:7435"};
	static const char *const bad[] = {"", ":1", "a", "a:", "a:0", "a:65536", "a:100000", "a:1 ",
		"a:-1", "a b:1", "a;b:1", "a/b:1", "*:1", "[]:1", "[::1]", "[::1:1", "[::1]1",
		"[a;b]:1", "::1:80", "a:1:2", "tcp://a:1", "a:1\n"};
	char longest[2 * ADDRESS_MAX];
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		if (!address_ok(good[i]))
			fail_msg("%s is refused", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (address_ok(bad[i]))
			fail_msg("%s is taken", bad[i]);
	memset(longest, 'a', sizeof longest);
	memcpy(longest + ADDRESS_MAX - 3, ":1", 3); /* 255 bytes */
	assert_true(address_ok(longest));
	memset(longest, 'a', sizeof longest);
	memcpy(longest + ADDRESS_MAX - 2, ":1", 3);
	assert_false(address_ok(longest));
}

static void some_are_nowhere(void **state)
{
	(void)state;
	static const char *const good[] = {"127.0.0.1:1", "[::1]:1", "10.0.0.255:1", "223.1.1.1:1",
		"peer.example.org:1", "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1", "169.253.0.1:1"};
	static const char *const bad[] = {"0.0.0.0:1", "0.1.2.3:1", "224.0.0.1:1", "239.9.9.9:1",
		"255.255.255.255:1", "240.0.0.1:1", "169.254.1.1:1", "[::]:1", "[ff02::1]:1",
		"[fe80::1]:1", "[febf::1]:1", "[::ffff:0.0.0.0]:1", "[::ffff:224.0.0.1]:1",
		"[:::::]:1"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		if (address_nowhere(good[i]))
			fail_msg("%s is nowhere", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!address_nowhere(bad[i]))
			fail_msg("%s is somewhere", bad[i]);
}

static void brackets_where_they_are_needed(void **state)
{
	(void)state;
	static const struct {
		const char *host, *is;
	} rows[] = {{"*", "*:80"}, {"127.0.0.1", "127.0.0.1:80"},
		{"peer.example.org", "peer.example.org:80"}, {"::", "[::]:80"}, {"::1", "[::1]:80"},
		{"[::1]", "[::1]:80"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char out[ADDRESS_MAX];
		address_join(rows[i].host, 80, out, sizeof out);
		assert_string_equal(out, rows[i].is);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(addresses),
		cmocka_unit_test(some_are_nowhere),
		cmocka_unit_test(brackets_where_they_are_needed)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
