/* The roster: found by number and by either key, written and read back, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "net/roster.h"
#include "net/signed.h"

static const struct hash run = {{7}}, other_run = {{8}};

/* Keys that are a function of seed. */
static struct roster_member member(uint32_t number, uint64_t seed)
{
	struct roster_member m = {.number = number};
	for (uint64_t i = 0; i < SIGN_PUBLIC; i++) {
		m.sign.b[i] = (uint8_t)rng_u32(seed, 1, i);
		m.curve[i] = (uint8_t)rng_u32(seed, 2, i);
	}
	snprintf(m.name, sizeof m.name, "peer %u", number);
	return m;
}

static struct roster *made(const struct roster_member *members, size_t n, uint64_t version)
{
	struct roster *r;
	struct why why;
	if (roster_new(&run, version, members, n, &r, &why))
		fail_msg("%s", why.text);
	return r;
}

static void assert_same(const struct roster *a, const struct roster *b)
{
	assert_int_equal(roster_version(a), roster_version(b));
	assert_int_equal(roster_count(a), roster_count(b));
	for (size_t i = 0; i < roster_count(a); i++) {
		const struct roster_member *x = roster_at(a, i), *y = roster_at(b, i);
		assert_int_equal(x->number, y->number);
		assert_int_equal(x->removed, y->removed);
		assert_string_equal(x->name, y->name);
		assert_memory_equal(x->sign.b, y->sign.b, SIGN_PUBLIC);
		assert_memory_equal(x->curve, y->curve, ROSTER_CURVE);
	}
}

static void a_member_is_found_by_number_and_keys(void **state)
{
	(void)state;
	enum { N = 1000 };
	struct roster_member *m = alloc_must_zero(N, sizeof *m);
	for (uint32_t i = 0; i < N; i++)
		m[i] = member((i * 7919u + 3) % 100003u, i); /* in no order */
	struct roster *r = made(m, N, 5);
	assert_int_equal(roster_count(r), N);
	assert_int_equal(roster_version(r), 5);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(roster_by_number(r, m[i].number)->number, m[i].number);
		assert_int_equal(roster_by_curve(r, m[i].curve)->number, m[i].number);
		assert_int_equal(roster_by_sign(r, m[i].sign.b)->number, m[i].number);
		assert_null(roster_by_curve(r, m[i].sign.b));
		assert_null(roster_by_sign(r, m[i].curve));
	}
	for (size_t i = 1; i < N; i++)
		assert_true(roster_at(r, i - 1)->number < roster_at(r, i)->number);
	assert_null(roster_at(r, N));
	assert_null(roster_by_number(r, 100003));
	roster_free(r);
	free(m);
}

static void nobody_is_on_an_empty_roster(void **state)
{
	(void)state;
	struct roster_member m = member(1, 1);
	struct roster *r = made(NULL, 0, 0);
	assert_int_equal(roster_count(r), 0);
	assert_null(roster_at(r, 0));
	assert_null(roster_by_number(r, 0));
	assert_null(roster_by_curve(r, m.curve));
	assert_null(roster_by_sign(r, m.sign.b));
	roster_free(r);
	roster_free(NULL);
}

static void it_survives_being_signed_sent_and_read(void **state)
{
	(void)state;
	struct roster_member m[3] = {member(9, 1), member(0, 2), member(UINT32_MAX - 1, 3)};
	m[1].removed = true;
	snprintf(m[2].name, sizeof m[2].name, "h\xc3\xa4lga's \"box\"");
	struct roster *r = made(m, 3, 12345678901ull), *back;
	struct sign_key *key = sign_make();
	struct sign_public pub = sign_public_of(key);
	struct why why;
	json_t *body = roster_json(r), *got;
	char *text = signed_make("roster", body, key);
	json_decref(body);
	assert_int_equal(signed_open(text, strlen(text), "roster", pub.b, &got, &why), ERR_OK);
	assert_int_equal(roster_parse(got, &run, &back, &why), ERR_OK);
	assert_same(r, back);
	assert_true(roster_by_number(back, 0)->removed);
	roster_free(back);
	assert_int_equal(roster_parse(got, &other_run, &back, &why), ERR_wrong_run);
	json_decref(got);
	free(text);
	roster_free(r);
	sign_free(key);
}

/* The largest roster, with the longest names, is a document within the limit. */
static void the_largest_roster_fits(void **state)
{
	(void)state;
	struct roster_member *m = alloc_must_zero(ROSTER_MAX + 1, sizeof *m);
	for (uint32_t i = 0; i <= ROSTER_MAX; i++) {
		m[i] = member(UINT32_MAX - 1 - i, i);
		memset(m[i].name, '"', ROSTER_NAME - 1);
	}
	struct roster *r = made(m, ROSTER_MAX, UINT32_MAX), *back, *none;
	struct why why;
	struct sign_key *key = sign_make();
	struct sign_public pub = sign_public_of(key);
	json_t *body = roster_json(r), *got;
	char *text = signed_make("roster", body, key);
	json_decref(body);
	assert_true(strlen(text) <= SIGNED_MAX);
	assert_int_equal(signed_open(text, strlen(text), "roster", pub.b, &got, &why), ERR_OK);
	assert_int_equal(roster_parse(got, &run, &back, &why), ERR_OK);
	assert_same(r, back);
	json_decref(got);
	free(text);
	roster_free(back);
	roster_free(r);
	sign_free(key);
	assert_int_equal(roster_new(&run, 1, m, ROSTER_MAX + 1, &none, &why), ERR_toobig);
	free(m);
}

static void numbers_and_keys_are_unique(void **state)
{
	(void)state;
	struct roster_member m[3] = {member(1, 1), member(2, 2), member(3, 3)}, bad[3];
	struct roster *r;
	struct why why;
	memcpy(bad, m, sizeof bad);
	bad[2].number = 1;
	assert_int_equal(roster_new(&run, 1, bad, 3, &r, &why), ERR_exists);
	assert_non_null(strstr(why.text, "number 1"));
	memcpy(bad, m, sizeof bad);
	memcpy(bad[2].curve, bad[0].curve, ROSTER_CURVE);
	assert_int_equal(roster_new(&run, 1, bad, 3, &r, &why), ERR_exists);
	memcpy(bad, m, sizeof bad);
	bad[0].sign = bad[1].sign;
	assert_int_equal(roster_new(&run, 1, bad, 3, &r, &why), ERR_exists);
}

#define HEX32 "0123456789abcdef0123456789abcdef"
#define KEY_A "aa" HEX32 "0123456789abcdef0123456789abcd"
#define KEY_B "bb" HEX32 "0123456789abcdef0123456789abcd"
#define RUN \
	"07000000000000000000000000000000" \
	"00000000000000000000000000000000"
#define HEAD "{\"run\":\"" RUN "\",\"version\":1,\"members\":["
#define MEMBER(number, sign, curve, name, more) \
	"{\"number\":" number ",\"sign\":\"" sign "\",\"curve\":\"" curve "\",\"name\":" name \
	",\"removed\":false" more "}"

static void what_is_malformed_is_refused_with_its_place(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum err code;
		const char *part;
	} bad[] = {
		{"{}", ERR_syntax, "members"},
		{"{\"run\":\"" RUN "\",\"version\":1}", ERR_syntax, "members"},
		{"{\"run\":\"" RUN "\",\"version\":-1,\"members\":[]}", ERR_syntax, "version"},
		{"{\"run\":\"" RUN "\",\"version\":1,\"members\":{}}", ERR_syntax, "members"},
		{"{\"run\":\"" RUN "\",\"version\":1,\"members\":[],\"x\":1}", ERR_syntax, "x"},
		{"{\"run\":\"07\",\"version\":1,\"members\":[]}", ERR_syntax, "run"},
		{HEAD "7]}", ERR_syntax, "members.0"},
		{HEAD "null]}", ERR_syntax, "members.0"},
		{HEAD "{}]}", ERR_syntax, "members.0"},
		{HEAD MEMBER("1", KEY_A, KEY_A, "\"a\"", ",\"x\":1") "]}", ERR_syntax,
			"members.0.x"},
		{HEAD MEMBER("1", KEY_A, KEY_A, "\"\"", "") "]}", ERR_syntax, "name"},
		{HEAD MEMBER("1", KEY_A, KEY_A, "\"a\\n\"", "") "]}", ERR_syntax, "name"},
		{HEAD MEMBER("1", KEY_A, KEY_A, "\"\\u001b[31m\"", "") "]}", ERR_syntax, "name"},
		{HEAD MEMBER("1", KEY_A, KEY_A, "\"" HEX32 HEX32 "x\"", "") "]}", ERR_syntax,
			"name"},
		{HEAD MEMBER("1", KEY_A, "aa", "\"a\"", "") "]}", ERR_syntax, "curve"},
		{HEAD MEMBER("1", "", KEY_A, "\"a\"", "") "]}", ERR_syntax, "sign"},
		{HEAD MEMBER("-1", KEY_A, KEY_A, "\"a\"", "") "]}", ERR_syntax, "number"},
		{HEAD MEMBER("4294967295", KEY_A, KEY_A, "\"a\"", "") "]}", ERR_syntax, "number"},
		{HEAD MEMBER("1", KEY_A, KEY_A, "\"a\"", "") "," MEMBER(
			 "1", KEY_B, KEY_B, "\"b\"", "") "]}",
			ERR_exists, "number 1"},
		{HEAD MEMBER("1", KEY_A, KEY_A, "\"a\"", "") "," MEMBER(
			 "2", KEY_A, KEY_B, "\"b\"", "") "]}",
			ERR_exists, "same key"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct why why;
		json_t *body;
		struct roster *r;
		assert_int_equal(
			json_parse(bad[i].text, strlen(bad[i].text), 1 << 20, &body, &why), ERR_OK);
		enum err e = roster_parse(body, &run, &r, &why);
		if (e != bad[i].code || !strstr(why.text, bad[i].part))
			fail_msg("%s: %s \"%s\"", bad[i].text, err_name(e), why.text);
		json_decref(body);
	}
}

/* Ten thousand mistakes are one sentence, and not much memory. */
static void many_mistakes_are_one_sentence(void **state)
{
	(void)state;
	json_t *list = json_array(), *body;
	for (int i = 0; i < 10000; i++)
		json_array_append_new(list, json_integer(i));
	body = json_pack("{s:s, s:i, s:o}", "run", RUN, "version", 1, "members", list);
	struct roster *r;
	struct why why;
	assert_int_equal(roster_parse(body, &run, &r, &why), ERR_syntax);
	assert_non_null(strstr(why.text, "members.0"));
	for (int i = 10000; i <= (int)ROSTER_MAX; i++)
		json_array_append_new(list, json_integer(i));
	assert_int_equal(roster_parse(body, &run, &r, &why), ERR_syntax);
	json_decref(body);
}

static void a_name_is_printable_and_short(void **state)
{
	(void)state;
	assert_true(roster_name_ok("a"));
	assert_true(roster_name_ok("Helga's box (2)"));
	assert_true(roster_name_ok("\xd0\xbf\xd0\xb8\xd0\xbd\xd0\xb3"));
	assert_true(roster_name_ok(HEX32 HEX32));
	assert_false(roster_name_ok(""));
	assert_false(roster_name_ok(HEX32 HEX32 "0"));
	assert_false(roster_name_ok("a\tb"));
	assert_false(roster_name_ok("\x1b[31m"));
	assert_false(roster_name_ok("\xff"));
	assert_false(roster_name_ok("\xc2\x9b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_is_found_by_number_and_keys),
		cmocka_unit_test(nobody_is_on_an_empty_roster),
		cmocka_unit_test(it_survives_being_signed_sent_and_read),
		cmocka_unit_test(the_largest_roster_fits),
		cmocka_unit_test(numbers_and_keys_are_unique),
		cmocka_unit_test(what_is_malformed_is_refused_with_its_place),
		cmocka_unit_test(many_mistakes_are_one_sentence),
		cmocka_unit_test(a_name_is_printable_and_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
