/* The bytes of a month. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include "base/file.h"
#include "peer/quota.h"

#define DECEMBER_2026 1796083200ull /* the 1st, 0:00 UTC */
#define JANUARY_2027 (DECEMBER_2026 + 31 * 86400)
#define MB 1000000ull

static char dir[] = "/tmp/shoal-quota-XXXXXX";

static void open_at(struct quota *q, uint64_t most, uint64_t wall_s)
{
	struct why why;
	if (quota_open(q, dir, most, wall_s, &why))
		fail_msg("%s", why.text);
}

static void a_month_is_counted_over_restarts(void **state)
{
	(void)state;
	struct quota q;
	char text[QUOTA_TEXT];
	open_at(&q, 100 * MB, DECEMBER_2026);
	quota_count(&q, 60 * MB, DECEMBER_2026 + 5);
	assert_false(quota_spent(&q, text));
	assert_string_equal(text, "");
	quota_close(&q);
	open_at(&q, 100 * MB, JANUARY_2027 - 1);
	quota_count(&q, 39 * MB, JANUARY_2027 - 1);
	assert_false(quota_spent(&q, text));
	quota_count(&q, 40 * MB, JANUARY_2027 - 1);
	assert_true(quota_spent(&q, text));
	assert_non_null(strstr(text, "0.1 GB"));
	assert_non_null(strstr(text, "2027-01-01"));
	/* The next month begins while it runs. */
	quota_count(&q, 41 * MB, JANUARY_2027);
	assert_false(quota_spent(&q, text));
	assert_int_equal(q.used, MB);
	/* A clock that is set back does not bring December's count back, nor begins it again. */
	quota_count(&q, 42 * MB, DECEMBER_2026);
	assert_int_equal(q.used, 2 * MB);
	quota_close(&q);
	open_at(&q, 100 * MB, JANUARY_2027 + 32 * 86400);
	assert_int_equal(q.used, 0);
}

static void what_is_not_written_is_little(void **state)
{
	(void)state;
	struct quota q, after;
	open_at(&q, 1000 * MB, JANUARY_2027);
	uint64_t before = q.used;
	for (uint64_t n = 0; n <= 100 * MB; n += MB)
		quota_count(&q, n, JANUARY_2027);
	open_at(&after, 1000 * MB, JANUARY_2027); /* as after a kill */
	assert_int_equal(q.used, before + 100 * MB);
	assert_true(after.used <= q.used && after.used + QUOTA_SAVE > q.used);
}

static void without_a_quota_nothing_is_written(void **state)
{
	(void)state;
	struct quota q;
	char text[QUOTA_TEXT], path[64];
	snprintf(path, sizeof path, "%s/quota.json", dir);
	(void)unlink(path);
	open_at(&q, 0, JANUARY_2027);
	quota_count(&q, 1000000 * MB, JANUARY_2027);
	quota_close(&q);
	assert_false(quota_spent(&q, text));
	assert_false(file_exists(path));
}

static void a_damaged_file_is_named(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "{", "{}", "{\"month\":-1,\"bytes\":0}",
		"{\"month\":1,\"bytes\":1e30}", "{\"month\":1,\"bytes\":0,\"more\":1}", "[]"};
	char path[64];
	snprintf(path, sizeof path, "%s/quota.json", dir);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct quota q;
		struct why why = {0};
		assert_int_equal(file_write(path, bad[i], strlen(bad[i]), 0600, &why), ERR_OK);
		assert_int_not_equal(quota_open(&q, dir, MB, JANUARY_2027, &why), ERR_OK);
		assert_true(why.text[0]);
	}
	(void)unlink(path);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	char path[64];
	snprintf(path, sizeof path, "%s/quota.json", dir);
	(void)unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_month_is_counted_over_restarts),
		cmocka_unit_test(what_is_not_written_is_little),
		cmocka_unit_test(without_a_quota_nothing_is_written),
		cmocka_unit_test(a_damaged_file_is_named),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
