/* status.json: what is written is read, and a file that is not one is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "peer/statusfile.h"
#include "tests/help_peer.h"

static struct why why;

static struct statusfile example(void)
{
	return (struct statusfile){.pid = 4711,
		.written_s = 1700000000,
		.run = "d2b30e2fe2e9",
		.name = "na\xc3\xafve \"one\"",
		.state = "working",
		.coordinator = "::1",
		.reason = "",
		.last_refusal = "wrong_round: too late",
		.rate = "k 32 of 4096, two",
		.member = UINT32_MAX,
		.round = 12,
		.steps_done = 3,
		.steps = 20,
		.sequence = 24,
		.state_round = 11,
		.state_hash = "5f1e",
		.tokens = INT64_MAX,
		.tokens_per_s = 1234.5,
		.loss = 2.25,
		.bytes_up = 1,
		.bytes_down = 2};
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	struct statusfile s = example(), t;
	const char *dir = help_peer_path(".");
	help_peer_fine(statusfile_write(dir, &s, &why), &why);
	help_peer_fine(statusfile_read(dir, &t, &why), &why);
	assert_int_equal(t.pid, s.pid);
	assert_int_equal(t.written_s, s.written_s);
	assert_string_equal(t.run, s.run);
	assert_string_equal(t.name, s.name);
	assert_string_equal(t.state, s.state);
	assert_string_equal(t.coordinator, s.coordinator);
	assert_string_equal(t.reason, s.reason);
	assert_string_equal(t.last_refusal, s.last_refusal);
	assert_string_equal(t.rate, s.rate);
	assert_true(t.member == s.member && t.round == s.round && t.steps_done == s.steps_done);
	assert_true(t.steps == s.steps && t.sequence == s.sequence && t.tokens == s.tokens);
	assert_true(t.state_round == s.state_round);
	assert_string_equal(t.state_hash, s.state_hash);
	assert_true(t.tokens_per_s == s.tokens_per_s && t.loss == s.loss);
	assert_true(t.bytes_up == s.bytes_up && t.bytes_down == s.bytes_down);
	s.round++;
	help_peer_fine(statusfile_write(dir, &s, &why), &why);
	help_peer_fine(statusfile_read(dir, &t, &why), &why);
	assert_int_equal(t.round, 13);
	assert_false(file_exists(help_peer_path("status.json.next")));
}

/* Whatever a peer has to say of itself, the file can be read. */
static void odd_values_are_written_readably(void **state)
{
	(void)state;
	struct statusfile s = example(), t;
	const char *dir = help_peer_path(".");
	memset(s.reason, 'x', sizeof s.reason - 2);
	s.reason[sizeof s.reason - 2] = (char)0xc3; /* a character cut in two */
	s.last_refusal[0] = '\n';
	s.loss = (double)NAN;
	s.tokens_per_s = (double)INFINITY;
	s.bytes_up = UINT64_MAX;
	help_peer_fine(statusfile_write(dir, &s, &why), &why);
	help_peer_fine(statusfile_read(dir, &t, &why), &why);
	assert_int_equal(strlen(t.reason), sizeof s.reason - 1);
	assert_int_equal(t.reason[sizeof s.reason - 2], '?');
	assert_int_equal(t.last_refusal[0], '?');
	assert_true(t.loss == 0 && t.tokens_per_s == 0);
	assert_true(t.bytes_up == INT64_MAX);
}

static void nobody_has_run_here(void **state)
{
	(void)state;
	struct statusfile t;
	assert_int_equal(statusfile_read(help_peer_path("."), &t, &why), ERR_missing);
}

/* One mistake each, in a file that is right otherwise. */
static void a_file_that_is_not_one_is_refused(void **state)
{
	(void)state;
	static const char *const swaps[][2] = {{"\"pid\":4711", "\"pid\":0"},
		{"\"pid\":4711", "\"pid\":-1"}, {"\"pid\":4711", "\"pid\":4294967297"},
		{"\"pid\":4711", "\"pid\":\"4711\""}, {"\"pid\":4711,", ""},
		{"\"round\":12", "\"round\":-12"}, {"\"round\":12", "\"round\":1.5"},
		{"\"member\":4294967295", "\"member\":4294967296"},
		{"\"loss\":2.25", "\"loss\":1e301"}, {"\"loss\":2.25", "\"loss\":null"},
		{"\"state\":\"working\"", "\"state\":\"working for a very long time\""}, {"{", "["},
		{"}", ""}, {"}", "}}"}};
	struct statusfile s = example(), t;
	const char *dir = help_peer_path("."), *path = help_peer_path("status.json");
	uint8_t *good;
	size_t n;
	help_peer_fine(statusfile_write(dir, &s, &why), &why);
	help_peer_fine(file_read(path, STATUSFILE_MAX, &good, &n, &why), &why);
	for (size_t i = 0; i < sizeof swaps / sizeof *swaps; i++) {
		const char *at = strstr((const char *)good, swaps[i][0]);
		assert_non_null(at);
		struct buf b;
		buf_init(&b, STATUSFILE_MAX);
		buf_printf(&b, "%.*s%s%s", (int)(at - (const char *)good), (const char *)good,
			swaps[i][1], at + strlen(swaps[i][0]));
		help_peer_fine(file_write(path, b.data, b.len, 0644, &why), &why);
		buf_release(&b);
		if (statusfile_read(dir, &t, &why) != ERR_syntax)
			fail_msg("%s was taken", swaps[i][1]);
		help_peer_told(&why, ERR_syntax, "status.json");
		assert_int_equal(t.pid, 0);
	}
	free(good);
}

static void a_large_or_unreadable_file_is_refused(void **state)
{
	(void)state;
	struct statusfile t;
	char *large = calloc(1, STATUSFILE_MAX + 1);
	assert_non_null(large);
	memset(large, ' ', STATUSFILE_MAX + 1);
	help_peer_fine(
		file_write(help_peer_path("status.json"), large, STATUSFILE_MAX + 1, 0644, &why),
		&why);
	free(large);
	assert_int_equal(statusfile_read(help_peer_path("."), &t, &why), ERR_toobig);
	help_peer_fine(file_write(help_peer_path("status.json"), "", 0, 0644, &why), &why);
	assert_int_equal(statusfile_read(help_peer_path("."), &t, &why), ERR_syntax);
}

static void a_folder_that_cannot_be_written_is_named(void **state)
{
	(void)state;
	struct statusfile s = example();
	assert_int_equal(statusfile_write(help_peer_path("none"), &s, &why), ERR_missing);
	help_peer_told(&why, ERR_missing, "none/status.json");
	/* something else stands where the file belongs */
	assert_int_equal(mkdir(help_peer_path("status.json"), 0755), 0);
	assert_int_not_equal(statusfile_write(help_peer_path("."), &s, &why), ERR_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_written_is_read),
		TEST(odd_values_are_written_readably),
		TEST(nobody_has_run_here),
		TEST(a_file_that_is_not_one_is_refused),
		TEST(a_large_or_unreadable_file_is_refused),
		TEST(a_folder_that_cannot_be_written_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
