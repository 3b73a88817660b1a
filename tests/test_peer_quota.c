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

static enum quota_unit unit;

static void open_at(struct quota *q, uint64_t most, uint64_t wall_s)
{
	struct why why;
	const struct quota_wish wish = {most, unit};
	if (quota_open(q, dir, &wish, wall_s, &why))
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
	assert_non_null(strstr(text, "the month's quota of 100 MB"));
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
	static const char *const bad[] = {"", "{", "{}",
		"{\"unit\":\"month\",\"period\":-1,\"bytes\":0}",
		"{\"unit\":\"week\",\"period\":1,\"bytes\":0}",
		"{\"unit\":\"day\",\"period\":1,\"bytes\":1e30}",
		"{\"unit\":\"day\",\"period\":1,\"bytes\":0,\"more\":1}", "[]"};
	char path[64];
	snprintf(path, sizeof path, "%s/quota.json", dir);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct quota q;
		struct why why = {0};
		assert_int_equal(file_write(path, bad[i], strlen(bad[i]), 0600, &why), ERR_OK);
		const struct quota_wish wish = {MB, QUOTA_month};
		assert_int_not_equal(quota_open(&q, dir, &wish, JANUARY_2027, &why), ERR_OK);
		assert_true(why.text[0]);
	}
	(void)unlink(path);
}

static void a_day_is_one_in_utc(void **state)
{
	(void)state;
	struct quota q;
	char text[QUOTA_TEXT];
	unit = QUOTA_day;
	open_at(&q, 3 * MB, JANUARY_2027 - 60);
	assert_int_equal(quota_left_s(&q), 60);
	quota_count(&q, 3 * MB, JANUARY_2027 - 1);
	assert_true(quota_spent(&q, text));
	assert_non_null(strstr(text, "the day's quota of 3 MB"));
	assert_non_null(strstr(text, "on 2027-01-01 at 0:00"));
	quota_close(&q);
	/* The same folder with a month's quota counts from nothing. */
	unit = QUOTA_month;
	open_at(&q, 3 * MB, JANUARY_2027 - 1);
	assert_int_equal(q.used, 0);
	unit = QUOTA_day;
	open_at(&q, 3 * MB, JANUARY_2027 - 1);
	assert_true(quota_spent(&q, text));
	quota_count(&q, 0, JANUARY_2027);
	assert_false(quota_spent(&q, text));
	assert_int_equal(quota_left_s(&q), 86400);
	unit = QUOTA_month;
}

static void little_traffic_is_written_in_time(void **state)
{
	(void)state;
	struct quota q, after;
	open_at(&q, 1000 * MB, JANUARY_2027 + 60 * 86400);
	quota_count(&q, 1000, JANUARY_2027 + 60 * 86400 + QUOTA_SAVE_S - 1);
	open_at(&after, 1000 * MB, q.now_s);
	assert_int_equal(after.used, 0);
	quota_count(&q, 1500, JANUARY_2027 + 60 * 86400 + QUOTA_SAVE_S);
	open_at(&after, 1000 * MB, q.now_s); /* as after a kill */
	assert_int_equal(after.used, 1500);
}

static void what_a_user_writes_is_read(void **state)
{
	(void)state;
	struct quota_wish w;
	struct why why;
	static const char *const wrong[] = {"", "50G", "/day", "50G/", "50G/week", "50G/month ",
		"1/day", "x/month", "11111111111111111111111111111111111111111111111111G/day"};
	assert_int_equal(quota_parse("50G/month", "--quota", &w, &why), ERR_OK);
	assert_int_equal(w.most, 50ull << 30);
	assert_int_equal(w.unit, QUOTA_month);
	assert_int_equal(quota_parse("2.5M/day", "--quota", &w, &why), ERR_OK);
	assert_int_equal(w.most, 5ull << 19);
	assert_int_equal(w.unit, QUOTA_day);
	assert_int_equal(quota_parse("0", "--quota", &w, &why), ERR_OK);
	assert_int_equal(w.most, 0);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		why = (struct why){0};
		assert_int_not_equal(quota_parse(wrong[i], "--quota", &w, &why), ERR_OK);
		assert_non_null(strstr(why.text, "--quota"));
	}
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
		cmocka_unit_test(a_day_is_one_in_utc),
		cmocka_unit_test(little_traffic_is_written_in_time),
		cmocka_unit_test(what_a_user_writes_is_read),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
