/* Room on disk: zeros, apart from other room, nothing left behind, and sentences when there is
 * none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/scratch.h"
#include "tests/help_base.h"

#define BYTES 100001u /* no whole page */

static void room_is_zero_and_leaves_nothing(void **state)
{
	(void)state;
	void *a = NULL, *b = NULL;
	struct why why;
	assert_int_equal(scratch_take(help_base_path(""), BYTES, &a, &why), ERR_OK);
	assert_int_equal(scratch_take(help_base_path(""), BYTES, &b, &why), ERR_OK);
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(((const char *)a)[i], 0);
	memset(a, 1, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(((const char *)b)[i], 0);
	assert_int_equal(help_base_entries(""), 0);
	scratch_release(a, BYTES);
	scratch_release(b, BYTES);
	scratch_release(NULL, 0);
}

static void none_is_told(void **state)
{
	(void)state;
	void *at = NULL;
	struct why why = {0};
	assert_int_equal(scratch_take(help_base_path("no"), BYTES, &at, &why), ERR_missing);
	assert_non_null(strstr(why.text, "/no"));
	/* More than any disk: refused before anything is mapped. */
	why = (struct why){0};
	assert_int_not_equal(scratch_take(help_base_path(""), (size_t)1 << 62, &at, &why), ERR_OK);
	assert_true(strlen(why.text) > 0);
	assert_null(at);
	assert_int_equal(help_base_entries(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			room_is_zero_and_leaves_nothing, help_base_setup, help_base_teardown),
		cmocka_unit_test_setup_teardown(none_is_told, help_base_setup, help_base_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
