/* Lines of what a path names in a JSON text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/json_line.h"

static const char text[] = "{ \"a\": 1,\n"
			   "  \"b\": {\"c\": \"}]\\\"{\\n\", \"list\": [\n"
			   "    {\"x\": [1, 2]},\n"
			   "    [3,\n"
			   "     4], true, -1.5e3,\n"
			   "    {\"name\": \"d.e\",\n"
			   "     \"y\":\n"
			   "       null}\n"
			   "  ]},\n"
			   "  \"z\" : {}\n"
			   "}\n";

static void name_the_line(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		size_t line;
	} rows[] = {
		{"a", 1},
		{"b", 2},
		{"b.c", 2},
		{"b.list", 2},
		{"b.list[0]", 3},
		{"b.list[0].x[1]", 3},
		{"b.list[1]", 4},
		{"b.list[1][1]", 5},
		{"b.list[2]", 5},
		{"b.list[4]", 6},
		{"b.list[4].y", 7},
		{"b.list[4](d.e).y", 7},
		{"z", 10},
		/* What is not there is where it should be. */
		{"b.list[4].w", 6},
		{"b.list[4](d.e).w.v", 6},
		{"b.list[5]", 2},
		{"b.list[99999999999999999999]", 2},
		{"b.list[", 2},
		{"b.list[1", 2},
		{"b.list[1]]", 4},
		{"b.list.x", 2},
		{"z.a", 10},
		{"a.b", 1},
		{"c", 0},
		{"", 0},
		{"[0]", 0},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t line = json_line_of(text, strlen(text), rows[i].path, strlen(rows[i].path));
		if (line != rows[i].line)
			fail_msg("%s: line %zu, not %zu", rows[i].path, line, rows[i].line);
	}
}

/* Any beginning of the text, and what is no JSON, is survived. */
static void survive_damage(void **state)
{
	(void)state;
	static const char *const paths[] = {"b.list[4].y", "z", "b.c", "b.list[1][1]"};
	for (size_t n = 0; n <= strlen(text); n++)
		for (size_t i = 0; i < 4; i++)
			assert_true(json_line_of(text, n, paths[i], strlen(paths[i])) <= 10);
	static const char *const wrong[] = {
		"", "[", "]", "{", "{\"a\"", "{\"a\":", "{\"a\":]", "{\"a\" 1}", "\"\\", "{]"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_true(json_line_of(wrong[i], strlen(wrong[i]), "a.b[1]", 6) <= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_the_line),
		cmocka_unit_test(survive_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
