/* Options from each source, and each mistake in each source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/option.h"
#include "tests/help_base.h"

static bool fast;
static int64_t peers;
static double lr;
static const char *place;
static uint64_t memory, grace, up;

static const struct option_row rows[] = {
	{"fast", OPTION_flag, &fast, "no", 0, 0, "no checks"},
	{"min-peers", OPTION_int, &peers, "3", 1, 100, "peers needed"},
	{"lr", OPTION_real, &lr, "0.001", 0, 1, "learning rate"},
	{"place", OPTION_text, &place, NULL, 0, 0, "where"},
	{"memory", OPTION_bytes, &memory, "512M", 0, 0, "most memory"},
	{"grace", OPTION_seconds, &grace, "1.5s", 0.5, 7200, "time to wait"},
	{"up", OPTION_rate, &up, "20M", 0, 1e9, "of the link"},
};
#define ROWS (sizeof rows / sizeof rows[0])

static const char *words[2];
static size_t n_words;
static struct why why;

static enum err read_args(const char *const *args)
{
	char *argv[20] = {(char *)(uintptr_t) "serve"};
	int argc = 1;
	for (; args[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)args[argc - 1];
	why = (struct why){0};
	struct option_args a = {.argc = argc, .argv = argv, .words = words, .max_words = 2};
	enum err err = option_read(rows, ROWS, &a, &why);
	n_words = a.n_words;
	return err;
}

#define READ(...) read_args((const char *const[]){__VA_ARGS__, NULL})

static void assert_mistake(enum err got, enum err code, const char *text)
{
	assert_int_equal(got, code);
	assert_int_equal(why.code, code);
	assert_string_equal(why.text, text);
}

static void clear_env(void)
{
	static const char *const names[] = {"SHOAL_FAST", "SHOAL_MIN_PEERS", "SHOAL_LR",
		"SHOAL_PLACE", "SHOAL_MEMORY", "SHOAL_GRACE", "SHOAL_UP", "SHOAL_CONFIG"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		unsetenv(names[i]);
}

static int setup(void **state)
{
	clear_env();
	place = NULL;
	return help_base_setup(state);
}

static int teardown(void **state)
{
	clear_env();
	return help_base_teardown(state);
}

static const char *config(const char *text)
{
	help_base_write("c.conf", text, strlen(text));
	return help_base_path("c.conf");
}

static void defaults_come_first(void **state)
{
	(void)state;
	assert_int_equal(READ(NULL), ERR_OK);
	assert_false(fast);
	assert_int_equal(peers, 3);
	assert_true(lr == 0.001);
	assert_null(place);
	assert_int_equal(memory, 512 << 20);
	assert_int_equal(grace, 1500 * CLOCK_MS);
	assert_int_equal(up, 20000000);
	assert_int_equal(n_words, 0);
}

static void the_nearer_source_wins(void **state)
{
	(void)state;
	const char *file = config("# a comment\nmin-peers = 4\nlr=0.5\n  place: at home ; note\n\n"
				  "memory = 1G\r\ngrace = 2m\nfast = yes\n");
	assert_int_equal(READ("--config", file), ERR_OK);
	assert_true(fast);
	assert_int_equal(peers, 4);
	assert_true(lr == 0.5);
	assert_string_equal(place, "at home");
	assert_int_equal(memory, 1 << 30);
	assert_int_equal(grace, 120 * CLOCK_SECOND);

	setenv("SHOAL_MIN_PEERS", "5", 1);
	setenv("SHOAL_LR", "", 1); // as if unset
	setenv("SHOAL_CONFIG", file, 1);
	assert_int_equal(READ("--memory=2K"), ERR_OK);
	assert_int_equal(peers, 5);
	assert_true(lr == 0.5);
	assert_int_equal(memory, 2048);

	assert_int_equal(READ("--min-peers", "6", "--fast=no", "--min-peers=7"), ERR_OK);
	assert_int_equal(peers, 7);
	assert_false(fast);
	const char *other = help_base_path("other.conf");
	help_base_write("other.conf", "\xef\xbb\xbfmin-peers = 9", 16);
	unsetenv("SHOAL_MIN_PEERS");
	assert_int_equal(READ("--config", other), ERR_OK);
	assert_int_equal(peers, 9);
}

static void words_are_kept_apart(void **state)
{
	(void)state;
	assert_int_equal(READ("link", "--fast", "-"), ERR_OK);
	assert_true(fast);
	assert_int_equal(n_words, 2);
	assert_string_equal(words[0], "link");
	assert_string_equal(words[1], "-");
	assert_int_equal(READ("--", "--fast"), ERR_OK);
	assert_false(fast);
	assert_string_equal(words[0], "--fast");
	assert_int_equal(READ("--place", "-5", "--lr", "1e-3"), ERR_OK);
	assert_string_equal(place, "-5");
	assert_int_equal(READ("--place="), ERR_OK);
	assert_string_equal(place, "");
	assert_mistake(
		READ("a", "b", "c"), ERR_usage, "unexpected \"c\"; at most 2 words are taken here");
}

static void command_line_mistakes_are_named(void **state)
{
	(void)state;
	assert_mistake(READ("--min-pears", "3"), ERR_usage,
		"unknown option --min-pears; did you mean --min-peers?");
	assert_mistake(
		READ("--confg=x"), ERR_usage, "unknown option --confg; did you mean --config?");
	assert_mistake(READ("--what-is-this"), ERR_usage,
		"unknown option --what-is-this; --help lists the known ones");
	assert_mistake(READ("--=x"), ERR_usage, "unknown option --; --help lists the known ones");
	assert_mistake(READ("-lr"), ERR_usage, "unknown option -lr; options start with two dashes");
	assert_mistake(READ("--lr"), ERR_usage, "--lr needs a value");
	assert_mistake(READ("--lr", "--fast"), ERR_usage, "--lr needs a value");
	assert_mistake(READ("--config"), ERR_usage, "--config needs a value");
	assert_mistake(READ("--fast=maybe"), ERR_syntax, "--fast: \"maybe\" is not yes or no");
	assert_mistake(READ("--min-peers", "\x1b[1m"), ERR_syntax,
		"--min-peers: \"?[1m\" is not a whole number");
	assert_mistake(READ("--min-peers", "101"), ERR_range,
		"--min-peers: 101 is out of range; give a whole number from 1 to 100");
	assert_mistake(READ("--grace=3h"), ERR_range,
		"--grace: 3h is out of range; give a time such as 90, 500ms, 5m or 2h from 0.5 to "
		"7200");
}

static void numbers_are_read_strictly(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		const char *bad[14];
	} cases[] = {
		{"min-peers", {"", " 3", "3 ", "3.0", "0x3", "3a", "--3", "+",
				      "99999999999999999999", "1e1", "three", NULL}},
		{"lr", {"", "nan", "inf", "0x1p-3", "1e999", "1e", ".", " 0.5", "0.5 ", "0,5",
			       "1.2.3", NULL}},
		{"memory", {"", "M", "-1", "1X", "1MM", "1 M", "1e3", "99999999T",
				   "18446744073709551616", "0x10", "1.5.5M", "nanM", NULL}},
		{"grace",
			{"", "s", "-1s", "5x", "5 m", "99999999999d", "1e3s", "m5", "5ms5", NULL}},
		{"up", {"", "M", "-1", "20Mbit", "20T", "1 M", "99999999999G", NULL}},
		{"fast", {"", "y", "2", "yess", NULL}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (const char *const *bad = cases[i].bad; *bad; bad++) {
			char *arg = alloc_must_printf("--%s=%s", cases[i].name, *bad);
			if (READ(arg) != ERR_syntax)
				fail_msg("%s was not refused: %s", arg, why.text);
			free(arg);
		}
	}
	assert_int_equal(
		READ("--memory=18446744073709551615", "--lr=1E-3", "--min-peers=+7"), ERR_OK);
	assert_true(memory == UINT64_MAX && lr == 0.001 && peers == 7);
	assert_int_equal(READ("--memory=1.5k", "--grace=500ms"), ERR_OK);
	assert_int_equal(memory, 1536);
	assert_int_equal(grace, 500 * CLOCK_MS);
	assert_int_equal(READ("--grace=.5", "--memory=0"), ERR_OK);
	assert_int_equal(grace, 500 * CLOCK_MS);
	assert_int_equal(READ("--grace=1h", "--up=1.5k"), ERR_OK);
	assert_int_equal(up, 1500);
	assert_int_equal(grace, 3600 * CLOCK_SECOND);
}

static void environment_mistakes_are_named(void **state)
{
	(void)state;
	setenv("SHOAL_MIN_PEERS", "many", 1);
	assert_mistake(READ(NULL), ERR_syntax, "SHOAL_MIN_PEERS: \"many\" is not a whole number");
	setenv("SHOAL_MIN_PEERS", "0", 1);
	assert_mistake(READ("--min-peers=5"), ERR_range,
		"SHOAL_MIN_PEERS: 0 is out of range; give a whole number from 1 to 100");
	unsetenv("SHOAL_MIN_PEERS");
	setenv("SHOAL_CONFIG", "/none/such", 1);
	assert_mistake(READ(NULL), ERR_missing,
		"cannot read /none/such: No such file or directory; check that the name is right");
}

static void file_mistake(const char *text, enum err code, const char *told)
{
	const char *file = config(text);
	char *full = alloc_must_printf("%s%s", file, told);
	assert_mistake(READ("--config", file), code, full);
	free(full);
}

static void config_mistakes_are_named(void **state)
{
	(void)state;
	file_mistake("\nmin-peers = 0\n", ERR_range,
		" line 2: min-peers: 0 is out of range; give a whole number from 1 to 100");
	file_mistake("lr = 1\n\n# x\nmin-pers = 3\n", ERR_usage,
		" line 4: unknown option min-pers; did you mean min-peers?");
	file_mistake("config = x\n", ERR_usage,
		" line 1: unknown option config; --help lists the known ones");
	file_mistake("[net]\nlr = 1\n", ERR_usage,
		" line 2: sections such as [net] are not used; remove it");
	file_mistake("lr = 1\nlr = 2\n", ERR_duplicate, " line 2: lr was already set on line 1");
	file_mistake("place = a\n   b\n", ERR_syntax, " line 2 is not name = value");
	file_mistake("lr = 0.5\nnonsense\n", ERR_syntax, " line 2 is not name = value");
	file_mistake("= 5\n", ERR_usage, " line 1: unknown option ; --help lists the known ones");
	file_mistake("lr =\n", ERR_syntax, " line 1: lr: \"\" is not a number");
	char big[400] = "place = ";
	memset(big + 8, 'x', 300);
	file_mistake(big, ERR_toobig, " line 1 is longer than 198 bytes; shorten it");

	help_base_write("nul", "lr = 0.5\nplace = a\0b\n", 21);
	assert_int_equal(READ("--config", help_base_path("nul")), ERR_syntax);
	assert_non_null(strstr(why.text, "line 2 holds a NUL byte"));
	assert_int_equal(READ("--config", help_base_path("")), ERR_io);
	assert_int_equal(READ("--config", "/dev/zero"), ERR_toobig);
	alloc_fail_at(1);
	assert_int_equal(READ("--config", config("lr = 0.5\n")), ERR_nomem);
	alloc_fail_at(0);
	// A line of the greatest length that goes through is not cut.
	memset(big + 8, 'x', 190);
	big[198] = '\0';
	assert_int_equal(READ("--config", config(big)), ERR_OK);
	assert_int_equal(strlen(place), 190);
}

static void a_wrong_default_is_our_mistake(void **state)
{
	(void)state;
	int64_t n = 0;
	const struct option_row bad = {"n", OPTION_int, &n, "9", 1, 5, "x"};
	char *argv[] = {(char *)(uintptr_t) "x", NULL};
	assert_int_equal(option_read(&bad, 1, &(struct option_args){.argc = 1, .argv = argv}, &why),
		ERR_range);
	assert_non_null(strstr(why.text, "built-in default of n"));
}

static void print_to(const char *name)
{
	FILE *f = fopen(help_base_path(name), "we");
	assert_non_null(f);
	option_print(rows, ROWS, f);
	fclose(f);
}

static void what_is_printed_reads_the_same(void **state)
{
	(void)state;
	assert_int_equal(READ("--fast", "--min-peers=100", "--lr=0.1", "--place=a = b:c # d;e",
				 "--memory=1536K", "--grace=1.000000001s", "--up=56k"),
		ERR_OK);
	print_to("one");
	assert_string_equal(help_base_read("one", NULL),
		"fast = yes\nmin-peers = 100\nlr = 0.1\nplace = a = b:c # d;e\nmemory = 1536K\n"
		"grace = 1000000001ns\nup = 56k\n");
	assert_int_equal(READ("--config", help_base_path("one")), ERR_OK);
	print_to("two");
	assert_string_equal(help_base_read("one", NULL), help_base_read("two", NULL));
	assert_true(lr == 0.1);

	place = NULL;
	assert_int_equal(READ("--lr=0.3333333333333333", "--memory=0"), ERR_OK);
	print_to("three");
	assert_string_equal(help_base_read("three", NULL),
		"fast = no\nmin-peers = 3\nlr = 0.3333333333333333\n# place is not set\nmemory = "
		"0\n"
		"grace = 1500ms\nup = 20M\n");
	assert_int_equal(READ("--config", help_base_path("three")), ERR_OK);
	static const char *const odd[] = {" x", "x ", "a\nb", "a ;b", ";", "\t"};
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		assert_int_equal(READ("--place", odd[i]), ERR_OK);
		print_to("odd");
		assert_non_null(strstr(help_base_read("odd", NULL), "# place cannot stand"));
	}
}

static const char *by;
static const struct option_row with_url = {"by", OPTION_url, &by, NULL, 0, 0, "proxy"};

static enum err read_url(char *first, char *second)
{
	char *argv[] = {(char *)(uintptr_t) "serve", first, second, NULL};
	struct option_args a = {.argc = 1 + !!first + !!second, .argv = argv};
	why = (struct why){0};
	by = NULL;
	return option_read(&with_url, 1, &a, &why);
}

static const char *printed_url(void)
{
	FILE *f = fopen(help_base_path("url"), "we");
	assert_non_null(f);
	option_print(&with_url, 1, f);
	fclose(f);
	return help_base_read("url", NULL);
}

static void a_password_stays_out_of_sight(void **state)
{
	(void)state;
	static const char secret[] = "http://me:geheim@a:1";
	char one[] = "--by=http://me:geheim@a:1", two[] = "--by", three[] = "http://me:geheim@a:1";
	assert_int_equal(read_url(one, NULL), ERR_usage);
	assert_non_null(strstr(why.text, "SHOAL_BY"));
	assert_null(strstr(why.text, "geheim"));
	assert_null(strstr(one, "geheim"));
	assert_int_equal(read_url(two, three), ERR_usage);
	assert_string_equal(three, "");
	assert_null(by);

	setenv("SHOAL_BY", secret, 1);
	const char *where = getenv("SHOAL_BY");
	assert_int_equal(read_url(NULL, NULL), ERR_OK);
	assert_string_equal(by, secret);
	assert_null(getenv("SHOAL_BY"));
	assert_string_equal(where, "");
	assert_string_equal(printed_url(), "# by is set with a password, and not shown\n");

	char file[] = "--config", *path = (char *)(uintptr_t)config("by = http://me:geheim@a:1\n");
	assert_int_equal(read_url(file, path), ERR_OK);
	assert_string_equal(by, secret);
	assert_string_equal(printed_url(), "# by is set with a password, and not shown\n");

	char plain[] = "--by=http://a:1";
	assert_int_equal(read_url(plain, NULL), ERR_OK);
	assert_string_equal(printed_url(), "by = http://a:1\n");
	setenv("SHOAL_BY", "http://b:1", 1);
	assert_int_equal(read_url(NULL, NULL), ERR_OK);
	assert_string_equal(printed_url(), "by = http://b:1\n");
	assert_string_equal(getenv("SHOAL_BY"), "http://b:1");
	unsetenv("SHOAL_BY");
}

static void the_help_lists_every_row(void **state)
{
	(void)state;
	FILE *f = fopen(help_base_path("help"), "we");
	assert_non_null(f);
	option_help(rows, ROWS, f);
	fclose(f);
	assert_string_equal(help_base_read("help", NULL),
		"  --fast                     no checks (default no)\n"
		"  --min-peers N              peers needed (default 3)\n"
		"  --lr X                     learning rate (default 0.001)\n"
		"  --place TEXT               where\n"
		"  --memory SIZE              most memory (default 512M)\n"
		"  --grace TIME               time to wait (default 1.5s)\n"
		"  --up RATE                  of the link (default 20M)\n"
		"  --config FILE              read options from FILE (name = value)\n");
}

#define with_folder(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_folder(defaults_come_first),
		with_folder(the_nearer_source_wins),
		with_folder(words_are_kept_apart),
		with_folder(command_line_mistakes_are_named),
		with_folder(numbers_are_read_strictly),
		with_folder(environment_mistakes_are_named),
		with_folder(config_mistakes_are_named),
		with_folder(a_wrong_default_is_our_mistake),
		with_folder(what_is_printed_reads_the_same),
		with_folder(a_password_stays_out_of_sight),
		with_folder(the_help_lists_every_row),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
