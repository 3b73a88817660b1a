/* What a spec's words come to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "round/exchange.h"

static void nothing_is_merged_that_may_lose_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *rule, *values;
		enum spec_merged says;
		uint32_t merged;
	} rows[] = {{"diloco", "int8", SPEC_int8, VALUES_int8},
		{"sparseloco", "bf16", SPEC_int4, VALUES_int4}, {"mean_R", "int8", SPEC_never, 0},
		{"diloco", "f32", SPEC_int8, 0}, {"average", "f32", SPEC_int8, 0}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct spec s = {.outer = {.lr = 1, .merged = rows[i].says},
			.codec = {.select = "all", .chunk = 4096}};
		struct exchange x;
		snprintf(s.outer.rule, sizeof s.outer.rule, "%s", rows[i].rule);
		snprintf(s.codec.values, sizeof s.codec.values, "%s", rows[i].values);
		assert_int_equal(exchange_find(&s, &x, NULL), ERR_OK);
		assert_int_equal(x.merged, rows[i].merged);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_merged_that_may_lose_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
