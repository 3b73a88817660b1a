/* Errors, the sentences that carry them, texts from outside, memory, version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "base/version.h"

static void codes_have_names(void **state)
{
	(void)state;
	assert_string_equal(err_name(ERR_OK), "ok");
	assert_string_equal(err_name(ERR_wrong_round), "wrong_round");
	assert_string_equal(err_text(ERR_nomem), "out of memory");
	assert_string_equal(err_name((enum err)9999), "unknown");
	assert_string_equal(err_text((enum err)9999), "unknown");
	// These numbers are on the wire.
	assert_int_equal(ERR_nomem, 1);
	assert_int_equal(ERR_not_finite, 26);
	assert_int_equal(ERR_refused, 35);
}

static void errno_becomes_a_code(void **state)
{
	(void)state;
	static const struct {
		int from;
		enum err to;
	} map[] = {{0, ERR_OK}, {ENOSPC, ERR_full}, {EDQUOT, ERR_full}, {ENOENT, ERR_missing},
		{EACCES, ERR_permission}, {EROFS, ERR_permission}, {EEXIST, ERR_exists},
		{ENOMEM, ERR_nomem}, {EIO, ERR_io}, {99999, ERR_io}};
	for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
		assert_int_equal(err_from_errno(map[i].from), map[i].to);
}

static void a_sentence_is_safe(void **state)
{
	(void)state;
	struct why why;
	assert_int_equal(err_why(NULL, ERR_range, "nobody listens"), ERR_range);
	assert_int_equal(err_why(&why, ERR_range, "x is \"%s\"", "a\x1b[31m\nb"), ERR_range);
	assert_int_equal(why.code, ERR_range);
	assert_string_equal(why.text, "x is \"a?[31m;b\"");
	// Mistakes come a line each.
	err_why(&why, ERR_syntax, "%s", "a: missing\nb: missing\n");
	assert_string_equal(why.text, "a: missing;b: missing");
	// A sentence may be built on the one before.
	err_why(&why, ERR_io, "first");
	err_why(&why, ERR_io, "then: %s", why.text);
	assert_string_equal(why.text, "then: first");
	// Too long: cut at the end of the field, also in the middle of a character.
	char big[1000];
	memset(big, 'a', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	memcpy(big + sizeof why.text - 2, "\xc3\xa9", 2);
	err_why(&why, ERR_io, "%s", big);
	assert_int_equal(strlen(why.text), sizeof why.text - 1);
	assert_int_equal(why.text[sizeof why.text - 2], '?');
}

static void text_is_cleaned(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{"", ""},
		{"plain", "plain"},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9f", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9f"},
		{"a\tb\x7f", "a?b?"},
		{"\xc2\x9b", "??"},           // C1: a terminal's escape
		{"\xff\xfe", "??"},           // never in UTF-8
		{"\xc0\xaf", "??"},           // longer than needed
		{"\xed\xa0\x80", "???"},      // a surrogate
		{"\xf4\x90\x80\x80", "????"}, // beyond the last code point
		{"\xe2\x82", "??"},           // cut off
		{"\xc3 x", "? x"},
		{"\xf8\x88\x80\x80\x80", "?????"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char text[32];
		memset(text, 0, sizeof text);
		memcpy(text, cases[i][0], strlen(cases[i][0]));
		text_clean(text);
		assert_string_equal(text, cases[i][1]);
	}
}

static void the_nearest_name_is_found(void **state)
{
	(void)state;
	static const char *const names[] = {"min-peers", "max-peers", "lr", "data"};
	assert_string_equal(text_nearest("min-pears", names, 4), "min-peers");
	assert_string_equal(text_nearest("minpeers", names, 4), "min-peers");
	assert_string_equal(text_nearest("dta", names, 4), "data");
	assert_string_equal(text_nearest("l", names, 4), "lr");
	assert_null(text_nearest("completely-else", names, 4));
	assert_null(text_nearest("", names, 4));
	assert_null(text_nearest("x", names, 0));
	char big[4000];
	memset(big, 'm', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	assert_null(text_nearest(big, names, 4));
}

static void memory_can_be_refused(void **state)
{
	(void)state;
	void *p = alloc_try(SIZE_MAX / 2, 4);
	assert_null(p);
	p = alloc_try(0, 8);
	assert_non_null(p);
	free(p);

	alloc_fail_at(2);
	char *a = alloc_try(4, 4), *b = alloc_try(4, 4), *c = alloc_try(4, 4);
	assert_non_null(a);
	assert_null(b);
	assert_non_null(c);
	for (int i = 0; i < 16; i++)
		assert_int_equal(a[i], 0);
	assert_int_equal(alloc_tries(), 3);
	alloc_fail_at(1);
	assert_null(alloc_try_resize(a, 100, 1));
	a[15] = 1; // still there
	alloc_fail_at(0);
	assert_int_equal(alloc_tries(), 0);
	char *bigger = alloc_try_resize(a, 100, 1);
	assert_non_null(bigger);
	assert_int_equal(bigger[15], 1);
	assert_null(alloc_try_resize(bigger, SIZE_MAX, 2));
	free(bigger);
	free(c);
}

static void our_own_small_things_are_made(void **state)
{
	(void)state;
	char *text = alloc_must_printf("%d-%s", 7, "x");
	assert_string_equal(text, "7-x");
	char *copy = alloc_must_strdup(text);
	assert_string_equal(copy, text);
	copy = alloc_must_resize(copy, 10, 10);
	assert_string_equal(copy, text);
	uint64_t *zero = alloc_must_zero(3, sizeof *zero);
	assert_true(zero[0] == 0 && zero[2] == 0);
	void *empty = alloc_must(0);
	assert_non_null(empty);
	free(empty);
	free(zero);
	free(copy);
	free(text);
}

static void our_own_overflow_ends_the_process(void **state)
{
	(void)state;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		// The sanitizers' own handlers would turn the signal into an exit status.
		sigaction(SIGABRT, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
		close(STDERR_FILENO);
		volatile size_t huge = SIZE_MAX / 2;
		free(alloc_must_zero(huge, 4));
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void an_arena_is_zeroed_and_aligned(void **state)
{
	(void)state;
	struct arena a;
	assert_int_equal(arena_init(&a, SIZE_MAX), ERR_nomem);
	assert_int_equal(arena_init(&a, (size_t)1 << 62), ERR_nomem);
	assert_null(a.base);
	arena_release(&a);
	assert_int_equal(arena_init(&a, 10000), ERR_OK);
	assert_true(a.size >= 10000);
	assert_int_equal((uintptr_t)a.base % 64, 0);
	assert_int_equal(a.base[0] | a.base[9999], 0);
	memset(a.base, 1, a.size);
	arena_release(&a);
	arena_release(&a);
	arena_release(NULL);
}

static void the_build_has_a_name(void **state)
{
	(void)state;
	assert_true(strlen(version_text()) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_have_names),
		cmocka_unit_test(errno_becomes_a_code),
		cmocka_unit_test(a_sentence_is_safe),
		cmocka_unit_test(text_is_cleaned),
		cmocka_unit_test(the_nearest_name_is_found),
		cmocka_unit_test(memory_can_be_refused),
		cmocka_unit_test(our_own_small_things_are_made),
		cmocka_unit_test(our_own_overflow_ends_the_process),
		cmocka_unit_test(an_arena_is_zeroed_and_aligned),
		cmocka_unit_test(the_build_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
