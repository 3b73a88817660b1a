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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(addresses)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
