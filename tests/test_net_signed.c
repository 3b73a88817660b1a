/* Signed documents: what passes, and everything that does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "net/signed.h"

static struct sign_key *key;
static struct sign_public pub;

static int setup(void **state)
{
	(void)state;
	key = sign_make();
	pub = sign_public_of(key);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sign_free(key);
	return 0;
}

static json_t *sample(void)
{
	return json_pack("{s:i, s:s, s:[i, i], s:{s:b}, s:f}", "round", 3, "name", "h\xc3\xa4\"\n",
		"list", 1, 2, "deep", "yes", 1, "rate", 0.1);
}

static enum err open_as(const char *type, const char *text, json_t **body, struct why *why)
{
	*why = (struct why){0};
	return signed_open(text, strlen(text), type, pub.b, body, why);
}

static void assert_refused(const char *type, const char *text, enum err code, const char *part)
{
	json_t *body = (json_t *)&key;
	struct why why;
	assert_int_equal(open_as(type, text, &body, &why), code);
	assert_null(body);
	assert_int_equal(why.code, code);
	if (!strstr(why.text, part))
		fail_msg("\"%s\" does not say \"%s\"", why.text, part);
}

/* text with its first old replaced by new; caller frees. */
static char *replaced(const char *text, const char *old, const char *new)
{
	const char *at = strstr(text, old);
	assert_non_null(at);
	return alloc_must_printf("%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static void what_was_signed_comes_back(void **state)
{
	(void)state;
	json_t *in = sample(), *body;
	struct why why;
	char *text = signed_make("plan", in, key);
	assert_int_equal(open_as("plan", text, &body, &why), ERR_OK);
	assert_true(json_equal(in, body));
	json_decref(body);
	char *again = signed_make("plan", in, key);
	assert_string_equal(text, again);
	free(again);
	free(text);
	json_decref(in);
}

static void an_empty_body_is_a_body(void **state)
{
	(void)state;
	json_t *in = json_object(), *body;
	struct why why;
	char *text = signed_make("head", in, key);
	assert_int_equal(open_as("head", text, &body, &why), ERR_OK);
	assert_int_equal(json_object_size(body), 0);
	json_decref(body);
	free(text);
	json_decref(in);
}

/* Whoever pretty-prints a document, or a proxy that reorders members, does not break it. */
static void layout_does_not_matter(void **state)
{
	(void)state;
	json_t *in = sample(), *body;
	struct why why;
	char *text = signed_make("plan", in, key);
	assert_int_equal(json_parse(text, strlen(text), SIGNED_MAX, &body, &why), ERR_OK);
	char *pretty = json_dumps(body, JSON_INDENT(3) | JSON_ENSURE_ASCII);
	json_decref(body);
	assert_string_not_equal(text, pretty);
	assert_int_equal(open_as("plan", pretty, &body, &why), ERR_OK);
	assert_true(json_equal(in, body));
	json_decref(body);
	free(pretty);
	free(text);
	json_decref(in);
}

static void what_was_altered_is_refused(void **state)
{
	(void)state;
	json_t *in = sample();
	char *text = signed_make("plan", in, key);
	static const char *const changes[][2] = {
		{"\"round\":3", "\"round\":4"},
		{"\"round\":3", "\"round\":3.0"},
		{"\"round\":3", "\"round\":\"3\""},
		{"[1,2]", "[2,1]"},
		{"[1,2]", "[1,2,3]"},
		{"true", "false"},
		{"\"round\":3", "\"round\":3,\"more\":0"},
		{"\"name\"", "\"Name\""},
	};
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		char *bad = replaced(text, changes[i][0], changes[i][1]);
		assert_refused("plan", bad, ERR_signature, "not the run key's");
		free(bad);
	}
	char *bad = replaced(text, "\"round\":3", "\"round\":3,\"round\":3");
	assert_refused("plan", bad, ERR_syntax, "duplicate");
	free(bad);
	free(text);
	json_decref(in);
}

static void another_type_is_refused(void **state)
{
	(void)state;
	json_t *in = sample();
	char *text = signed_make("plan", in, key);
	assert_refused("head", text, ERR_magic, "type \"plan\" where \"head\" was expected");
	/* Saying that it is one does not make it one. */
	char *lie = replaced(text, "\"type\":\"plan\"", "\"type\":\"head\"");
	assert_refused("head", lie, ERR_signature, "signature of the head document");
	free(lie);
	free(text);
	json_decref(in);
}

static void another_key_is_refused(void **state)
{
	(void)state;
	struct sign_key *other = sign_make();
	json_t *in = sample();
	char *text = signed_make("plan", in, other);
	assert_refused("plan", text, ERR_signature, "not the run key's");
	free(text);
	json_decref(in);
	sign_free(other);
}

static void what_is_no_document_is_refused(void **state)
{
	(void)state;
#define HEX32 "00000000000000000000000000000000"
#define HEX HEX32 HEX32 HEX32 HEX32
	static const struct {
		const char *text;
		enum err code;
	} bad[] = {
		{"", ERR_truncated},
		{"{", ERR_truncated},
		{"null", ERR_syntax},
		{"[]", ERR_syntax},
		{"{}", ERR_syntax},
		{"{\"body\":{},\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":{},\"signature\":\"" HEX "\"}", ERR_syntax},
		{"{\"signature\":\"" HEX "\",\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":[],\"signature\":\"" HEX "\",\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":null,\"signature\":\"" HEX "\",\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":{},\"signature\":\"\",\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":{},\"signature\":\"" HEX "0\",\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":{},\"signature\":\"" HEX32 "\",\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":{},\"signature\":\"G" HEX32 HEX32 HEX32
		 "0000000000000000000000000000000\",\"type\":\"plan\"}",
			ERR_syntax},
		{"{\"body\":{},\"signature\":7,\"type\":\"plan\"}", ERR_syntax},
		{"{\"body\":{},\"signature\":\"" HEX "\",\"type\":7}", ERR_syntax},
		{"{\"body\":{},\"signature\":\"" HEX "\",\"type\":\"plan\"}", ERR_signature},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_refused("plan", bad[i].text, bad[i].code, "");
}

static void a_document_beyond_the_limit_is_refused_unread(void **state)
{
	(void)state;
	size_t n = SIGNED_MAX + 1;
	char *text = alloc_must(n + 1);
	memset(text, ' ', n);
	text[n] = 0;
	memcpy(text, "{}", 2);
	assert_refused("plan", text, ERR_toobig, "at most");
	free(text);
}

static void hex_is_lower_case_and_exact(void **state)
{
	(void)state;
	uint8_t b[4];
	char hex[9];
	assert_int_equal(signed_unhex("00ff10a9", b, 4), ERR_OK);
	assert_memory_equal(b, "\x00\xff\x10\xa9", 4);
	signed_hex(b, 4, hex);
	assert_string_equal(hex, "00ff10a9");
	signed_hex(b, 0, hex);
	assert_string_equal(hex, "");
	assert_int_equal(signed_unhex("", b, 0), ERR_OK);
	static const char *const bad[] = {"00FF10A9", "00ff10a", "00ff10a90", "00ff10a9 ",
		" 0ff10a9", "0x0f10a9", "00ff\n0a9", "00ff10a\xb9", ""};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(signed_unhex(bad[i], b, 4), ERR_syntax);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_signed_comes_back),
		cmocka_unit_test(an_empty_body_is_a_body),
		cmocka_unit_test(layout_does_not_matter),
		cmocka_unit_test(what_was_altered_is_refused),
		cmocka_unit_test(another_type_is_refused),
		cmocka_unit_test(another_key_is_refused),
		cmocka_unit_test(what_is_no_document_is_refused),
		cmocka_unit_test(a_document_beyond_the_limit_is_refused_unread),
		cmocka_unit_test(hex_is_lower_case_and_exact),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
