/* Which addresses count as one visitor. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "net/visitor.h"

static struct visitor *from(struct visitors *all, const char *text)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return visitor_find(all, (const struct sockaddr *)&v4, CLOCK_SECOND);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return visitor_find(all, (const struct sockaddr *)&v6, CLOCK_SECOND);
}

static void a_customers_net_is_one(void **state)
{
	(void)state;
	struct visitors *all = visitor_table(10, 10);
	struct visitor *one = from(all, "2001:db8:1:2::1");
	assert_ptr_equal(from(all, "2001:db8:1:2:ffff:ffff:ffff:ffff"), one);
	assert_ptr_not_equal(from(all, "2001:db8:1:3::1"), one);
	assert_ptr_not_equal(from(all, "10.0.0.1"), from(all, "10.0.0.2"));
	/* As a socket for both kinds shows it. */
	assert_ptr_equal(from(all, "::ffff:10.0.0.1"), from(all, "10.0.0.1"));
	assert_ptr_not_equal(from(all, "::ffff:10.0.0.1"), from(all, "::ffff:10.0.0.2"));
	visitor_free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_customers_net_is_one)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
