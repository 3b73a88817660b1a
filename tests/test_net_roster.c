/* The roster: who is found by what, what two members may not share, what is refused when read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net/roster.h"

static struct hash run, other_run;

static struct roster_member member(uint32_t number)
{
	struct roster_member m = {.number = number};
	struct hash h = hash_of(&number, sizeof number);
	memcpy(m.sign.b, h.b, 32);
	memcpy(m.curve, h.b, 32);
	m.curve[0] ^= 1;
	snprintf(m.name, sizeof m.name, "peer %u", number);
	return m;
}

static struct roster *three(void)
{
	struct roster_member m[] = {member(7), member(2), member(40)};
	struct roster *r;
	struct why why;
	m[1].removed = true;
	assert_int_equal(roster_new(&run, 5, m, 3, &r, &why), ERR_OK);
	return r;
}

static void check_three(const struct roster *r)
{
	struct roster_member m = member(7);
	assert_int_equal(roster_version(r), 5);
	assert_int_equal(roster_count(r), 3);
	assert_int_equal(roster_at(r, 0)->number, 2);
	assert_true(roster_at(r, 0)->removed);
	assert_int_equal(roster_at(r, 2)->number, 40);
	assert_string_equal(roster_by_number(r, 40)->name, "peer 40");
	assert_null(roster_by_number(r, 3));
	assert_int_equal(roster_by_curve(r, m.curve)->number, 7);
	assert_int_equal(roster_by_sign(r, m.sign.b)->number, 7);
	assert_null(roster_by_curve(r, m.sign.b));
	assert_null(roster_by_sign(r, m.curve));
}

static void test_finds_members(void **state)
{
	struct roster *r = three(), *again;
	struct why why;
	(void)state;
	check_three(r);
	json_t *body = roster_json(r);
	assert_int_equal(roster_parse(body, &run, &again, &why), ERR_OK);
	check_three(again);
	roster_free(again);
	assert_int_equal(roster_parse(body, &other_run, &again, &why), ERR_wrong_run);
	json_decref(body);
	roster_free(r);
}

static void test_empty(void **state)
{
	struct roster *r, *again;
	struct why why;
	(void)state;
	assert_int_equal(roster_new(&run, 0, NULL, 0, &r, &why), ERR_OK);
	json_t *body = roster_json(r);
	assert_int_equal(roster_parse(body, &run, &again, &why), ERR_OK);
	assert_int_equal(roster_count(again), 0);
	assert_null(roster_by_number(again, 0));
	json_decref(body);
	roster_free(again);
	roster_free(r);
}

static void test_members_share_nothing(void **state)
{
	struct roster *r;
	struct why why;
	(void)state;
	for (int what = 0; what < 3; what++) {
		struct roster_member m[] = {member(1), member(2), member(3)};
		if (what == 0)
			m[2].number = 1;
		else if (what == 1)
			memcpy(m[2].curve, m[0].curve, sizeof m[0].curve);
		else
			m[2].sign = m[0].sign;
		assert_int_equal(roster_new(&run, 1, m, 3, &r, &why), ERR_exists);
	}
	assert_int_equal(roster_new(&run, 1, NULL, ROSTER_MAX + 1, &r, &why), ERR_toobig);
}

static void refuse(const char *path, json_t *value, enum err code, const char *says)
{
	struct roster *r = three(), *out = NULL;
	json_t *body = roster_json(r);
	struct why why = {0};
	json_t *at = strchr(path, '.') ? json_array_get(json_object_get(body, "members"), 1) : body;
	const char *name = strchr(path, '.') ? strchr(path, '.') + 1 : path;
	if (value)
		json_object_set_new(at, name, value);
	else
		json_object_del(at, name);
	assert_int_equal(roster_parse(body, &run, &out, &why), code);
	if (!strstr(why.text, says))
		fail_msg("%s: %s", path, why.text);
	json_decref(body);
	roster_free(r);
}

static void test_mistakes_are_named(void **state)
{
	(void)state;
	refuse("run", NULL, ERR_syntax, "run");
	refuse("version", json_integer(-1), ERR_syntax, "version");
	refuse("members", json_object(), ERR_syntax, "members");
	refuse("more", json_true(), ERR_syntax, "more");
	refuse("m.number", json_integer(-1), ERR_syntax, "members.1.number");
	refuse("m.number", json_integer(1ll << 40), ERR_syntax, "members.1.number");
	refuse("m.number", json_integer(2), ERR_exists, "number 2");
	refuse("m.sign", json_string("00"), ERR_syntax, "members.1.sign");
	refuse("m.curve", NULL, ERR_syntax, "members.1.curve");
	refuse("m.removed", json_integer(1), ERR_syntax, "members.1.removed");
	refuse("m.name", json_string(""), ERR_syntax, "members.1.name");
	refuse("m.name", json_string("a\nb"), ERR_syntax, "members.1.name");
	refuse("m.extra", json_string("x"), ERR_syntax, "members.1.extra");
}

static void test_names(void **state)
{
	char text[ROSTER_NAME + 1];
	(void)state;
	assert_true(roster_name_ok("Ada's laptop"));
	assert_true(roster_name_ok("Zürich-3"));
	assert_false(roster_name_ok(""));
	assert_false(roster_name_ok("a\x1b[31m"));
	assert_false(roster_name_ok("a\xff"));
	memset(text, 'a', sizeof text);
	text[ROSTER_NAME] = 0;
	assert_false(roster_name_ok(text));
	text[ROSTER_NAME - 1] = 0;
	assert_true(roster_name_ok(text));
}

static int setup(void **state)
{
	(void)state;
	run = hash_of("a", 1);
	other_run = hash_of("b", 1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_members),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_members_share_nothing),
		cmocka_unit_test(test_mistakes_are_named),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
