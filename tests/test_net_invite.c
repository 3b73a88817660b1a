/* Invites and statements: round trip, dates, and everything that a hand or a network does to them.
 * SECURITY.md, invariants 5, 7 and 8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "net/backoff.h"
#include "net/base64.h"
#include "net/invite.h"
#include "net/signed.h"
#include "net/statement.h"

#define NOW 2000000000u

static struct sign_key *key;
static struct sign_public pub;
static struct hash run;

static enum err open_at(const char *text, uint64_t now, struct why *why)
{
	struct invite i;
	return invite_open(text, &run, &pub, now, &i, why);
}

static void test_invite_round_trip(void **state)
{
	struct invite in, out;
	char text[INVITE_TEXT];
	struct why why;
	(void)state;
	invite_make(NOW + 3600, 12, &in);
	invite_text(&in, &run, key, text);
	assert_int_equal(strlen(text), INVITE_TEXT - 1);
	assert_int_equal(invite_form(text, &why), ERR_OK);
	assert_int_equal(invite_open(text, &run, &pub, NOW, &out, &why), ERR_OK);
	assert_string_equal(out.id, in.id);
	assert_int_equal(out.uses, 12);
	assert_int_equal(out.expires_s, NOW + 3600);
	invite_make(0, 0, &out);
	assert_string_not_equal(out.id, in.id);
}

static void test_invite_expires(void **state)
{
	struct invite i;
	char text[INVITE_TEXT];
	struct why why;
	(void)state;
	invite_make(NOW, 1, &i);
	invite_text(&i, &run, key, text);
	assert_int_equal(open_at(text, NOW + INVITE_SLACK_S, &why), ERR_OK);
	assert_int_equal(open_at(text, NOW + INVITE_SLACK_S + 1, &why), ERR_invite);
	assert_int_equal(open_at(text, NOW + 3 * 3600, &why), ERR_invite);
	assert_non_null(strstr(why.text, "3h 00m ago"));
	assert_int_equal(open_at(text, UINT64_MAX, &why), ERR_invite);
	invite_make(0, 1, &i);
	invite_text(&i, &run, key, text);
	assert_int_equal(open_at(text, UINT64_MAX, &why), ERR_OK);
}

static void test_invite_of_somebody_else(void **state)
{
	struct invite i;
	char text[INVITE_TEXT];
	struct why why;
	struct hash other = hash_of("b", 1);
	struct sign_key *stranger = sign_make();
	(void)state;
	invite_make(0, 1, &i);
	invite_text(&i, &other, key, text);
	assert_int_equal(open_at(text, NOW, &why), ERR_wrong_run);
	invite_text(&i, &run, stranger, text);
	assert_int_equal(open_at(text, NOW, &why), ERR_signature);
	// The same first bytes do not make the same run.
	other = run;
	other.b[31] ^= 1;
	invite_text(&i, &other, key, text);
	assert_int_equal(open_at(text, NOW, &why), ERR_signature);
	sign_free(stranger);
}

static void test_invite_altered(void **state)
{
	struct invite i;
	char text[2 * INVITE_TEXT], whole[INVITE_TEXT];
	struct why why;
	(void)state;
	invite_make(NOW + 10, 1, &i);
	invite_text(&i, &run, key, whole);
	for (size_t at = 0; at < INVITE_TEXT - 1; at++) {
		memcpy(text, whole, sizeof whole);
		text[at] = text[at] == 'A' ? 'B' : 'A';
		assert_int_not_equal(open_at(text, NOW, &why), ERR_OK);
		text[at] = '*';
		assert_int_equal(open_at(text, NOW, &why), ERR_syntax);
		text[at] = 0;
		assert_int_equal(open_at(text, NOW, &why), ERR_syntax);
		assert_non_null(strstr(why.text, "characters instead of"));
	}
	snprintf(text, sizeof text, "%s%s", whole, whole);
	assert_int_equal(invite_form(text, &why), ERR_syntax);
	memcpy(text, whole, sizeof whole);
	text[0] = 'B'; // another version
	assert_int_equal(invite_form(text, &why), ERR_syntax);
	assert_non_null(strstr(why.text, "version"));
}

static enum err statement_at(
	const char *text, const struct statement *expected, uint64_t now, struct why *why)
{
	struct statement out;
	return statement_open(text, strlen(text), expected, now, &out, why);
}

static struct statement make_statement(void)
{
	struct statement s = {.run = run,
		.key = pub,
		.spki = hash_of("tls", 3),
		.from_s = NOW,
		.to_s = NOW + STATEMENT_VALID_S};
	memset(s.curve, 7, sizeof s.curve);
	return s;
}

static void test_statement(void **state)
{
	struct statement s = make_statement(), out;
	char *text = statement_make(&s, key);
	struct why why;
	(void)state;
	assert_true(strlen(text) < STATEMENT_MAX);
	assert_int_equal(statement_open(text, strlen(text), &s, NOW, &out, &why), ERR_OK);
	assert_memory_equal(out.curve, s.curve, sizeof s.curve);
	assert_true(hash_equal(&out.spki, &s.spki));
	assert_int_equal(out.to_s, s.to_s);
	assert_int_equal(statement_at(text, &s, NOW - STATEMENT_SLACK_S, &why), ERR_OK);
	assert_int_equal(statement_at(text, &s, NOW - STATEMENT_SLACK_S - 1, &why), ERR_range);
	assert_non_null(strstr(why.text, "clock"));
	assert_int_equal(statement_at(text, &s, s.to_s + STATEMENT_SLACK_S, &why), ERR_OK);
	assert_int_equal(statement_at(text, &s, s.to_s + STATEMENT_SLACK_S + 1, &why), ERR_range);
	assert_non_null(strstr(why.text, "clock"));
	assert_int_equal(statement_at(text, &s, 0, &why), ERR_range);
	struct statement other = s;
	other.run.b[5] ^= 1;
	assert_int_equal(statement_at(text, &other, NOW, &why), ERR_wrong_run);
	other = s;
	other.key.b[5] ^= 1;
	assert_int_equal(statement_at(text, &other, NOW, &why), ERR_signature);
	text[20] ^= 1;
	assert_int_not_equal(statement_at(text, &s, NOW, &why), ERR_OK);
	free(text);
}

static void test_statement_that_lacks_something(void **state)
{
	static const char *const names[] = {"run", "key", "curve", "spki", "from", "to"};
	struct statement s = make_statement();
	struct why why;
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char *whole = statement_make(&s, key);
		json_t *doc = json_loads(whole, 0, NULL), *body = json_object_get(doc, "body");
		json_object_del(body, names[i]);
		char *text = signed_make("statement", body, key);
		assert_int_equal(statement_at(text, &s, NOW, &why), ERR_syntax);
		assert_non_null(strstr(why.text, names[i]));
		free(text);
		json_decref(doc);
		free(whole);
	}
	char *large = malloc(STATEMENT_MAX + 2);
	memset(large, ' ', STATEMENT_MAX + 1);
	large[STATEMENT_MAX + 1] = 0;
	assert_int_equal(statement_at(large, &s, NOW, &why), ERR_syntax);
	free(large);
}

static void test_base64(void **state)
{
	uint8_t in[40], out[40];
	char text[BASE64_TEXT(40)];
	(void)state;
	for (size_t n = 0; n <= sizeof in; n++) {
		for (size_t i = 0; i < n; i++)
			in[i] = (uint8_t)(i * 37 + n);
		base64_encode(in, n, text);
		assert_int_equal(strlen(text), BASE64_TEXT(n) - 1);
		assert_int_equal(base64_decode(text, strlen(text), out, n), ERR_OK);
		assert_memory_equal(in, out, n);
		assert_int_equal(base64_decode(text, strlen(text), out, n + 3), ERR_syntax);
	}
	base64_encode("\xfb\xff", 2, text);
	assert_string_equal(text, "-_8");
	assert_int_equal(base64_decode("-_9", 3, out, 2), ERR_syntax); // unused bits are set
	assert_int_equal(base64_decode("-/8", 3, out, 2), ERR_syntax);
	assert_int_equal(base64_decode("-_8=", 4, out, 2), ERR_syntax);
	assert_int_equal(base64_decode("-\0008", 3, out, 2), ERR_syntax);
}

static void test_backoff(void **state)
{
	struct backoff a, b;
	uint64_t most = 30 * CLOCK_SECOND, expected = CLOCK_SECOND / 2;
	bool differs = false;
	(void)state;
	backoff_init(&a, 1, expected, most);
	backoff_init(&b, 2, expected, most);
	for (int i = 0; i < 20; i++) {
		uint64_t x = backoff_next(&a), y = backoff_next(&b);
		assert_true(x >= expected / 2 && x <= expected);
		assert_true(y >= expected / 2 && y <= expected);
		differs = differs || x != y;
		expected = expected * 2 < most ? expected * 2 : most;
	}
	assert_true(differs);
	backoff_reset(&a);
	assert_true(backoff_next(&a) <= CLOCK_SECOND / 2);
	backoff_init(&a, 1, CLOCK_SECOND, UINT64_MAX);
	for (int i = 0; i < 100; i++)
		assert_true(backoff_next(&a) >= CLOCK_SECOND / 2);
	backoff_init(&a, 1, 0, 0);
	assert_int_equal(backoff_next(&a), 0);
}

static int setup(void **state)
{
	(void)state;
	key = sign_make();
	pub = sign_public_of(key);
	run = hash_of("a", 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sign_free(key);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_invite_round_trip),
		cmocka_unit_test(test_invite_expires),
		cmocka_unit_test(test_invite_of_somebody_else),
		cmocka_unit_test(test_invite_altered),
		cmocka_unit_test(test_statement),
		cmocka_unit_test(test_statement_that_lacks_something),
		cmocka_unit_test(test_base64),
		cmocka_unit_test(test_backoff),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
