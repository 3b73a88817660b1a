/* JSON from outside: strict, bounded, and every mistake with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json.h"

static json_t *parsed(const char *text)
{
	json_t *doc;
	struct why why;
	if (json_parse(text, strlen(text), 1 << 20, &doc, &why) != ERR_OK)
		fail_msg("%s: %s", text, why.text);
	return doc;
}

static void assert_refused(const char *text, size_t n, enum err code, const char *part)
{
	json_t *doc;
	struct why why = {0};
	assert_int_equal(json_parse(text, n, 1 << 20, &doc, &why), code);
	assert_null(doc);
	if (!strstr(why.text, part))
		fail_msg("\"%s\" does not say \"%s\"", why.text, part);
}

static void what_is_not_json_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum err code;
		const char *part;
	} bad[] = {
		{"", ERR_truncated, "empty"},
		{"{", ERR_truncated, "line 1, column 1"},
		{"{\"a\":\n [1, 2", ERR_truncated, "line 2"},
		{"{\"a\": \"x", ERR_truncated, "line 1"},
		{"{\"a\": 1}\n x", ERR_syntax, "line 2"},
		{"{\"a\": 1, \"a\": 2}", ERR_syntax, "duplicate"},
		{"{\"a\": {\"b\": 1, \"b\": 1}}", ERR_syntax, "duplicate"},
		{"{a: 1}", ERR_syntax, "line 1"},
		{"{\"a\": 01}", ERR_syntax, "line 1"},
		{"{\"a\": +1}", ERR_syntax, "line 1"},
		{"{\"a\": NaN}", ERR_syntax, "NaN"},
		{"{\"a\": Infinity}", ERR_syntax, "line 1"},
		{"{\"a\": 1e999}", ERR_syntax, "overflow"},
		{"{\"a\": 9223372036854775808}", ERR_syntax, "big"},
		{"{\"a\": \"\xff\"}", ERR_syntax, "byte 0xff"},
		{"{\"a\": \"\\u0000\"}", ERR_syntax, "\\u0000"},
		{"{\"a\\u0000b\": 1}", ERR_syntax, "line 1"},
		{"{\"a\": \"\\ud800\"}", ERR_syntax, "line 1"},
		{"{\"a\": 1,}", ERR_syntax, "line 1"},
		{"// no\n{}", ERR_syntax, "line 1"},
		{"\"alone\"", ERR_syntax, "'{' expected"},
		{"3", ERR_syntax, "'{' expected"},
		{"\xef\xbb\xbf{}", ERR_syntax, "line 1"},
		{"\x1b[31m", ERR_syntax, "?"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_refused(bad[i].text, strlen(bad[i].text), bad[i].code, bad[i].part);
	assert_refused("{}\0", 3, ERR_syntax, "line 1");
	assert_refused(NULL, 0, ERR_truncated, "empty");
	json_t *doc;
	struct why why;
	assert_int_equal(json_parse("{    }", 6, 5, &doc, &why), ERR_toobig);
	assert_string_equal(why.text, "JSON of 6 bytes, at most 5 are allowed");
}

/* depth times open, then close; the text in static memory. */
static const char *nested(size_t depth, const char *open, char close)
{
	static char text[400000];
	size_t n = strlen(open);
	assert_true(depth * (n + 1) < sizeof text);
	for (size_t i = 0; i < depth; i++)
		memcpy(text + i * n, open, n);
	memset(text + depth * n, close, depth);
	text[depth * (n + 1)] = '\0';
	return text;
}

static void nesting_is_bounded(void **state)
{
	(void)state;
	json_decref(parsed(nested(64, "[", ']')));
	const char *text = nested(65, "[", ']');
	assert_refused(
		text, strlen(text), ERR_toobig, "line 1, column 65: JSON nested deeper than 64");
	text = nested(100000, "[", ']');
	assert_refused(text, strlen(text), ERR_toobig, "nested");
	text = nested(65, "\n{\"a\":[", ']');
	assert_refused(text, strlen(text), ERR_toobig, "line 34, column 1");
	// Brackets in strings do not nest, escaped quotes do not end one.
	json_t *doc =
		parsed("{\"a\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
		       "[[[[[[[[[[[[[[[[[[[[[[\": \"{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{"
		       "{{{{{{{{{{{{{{{{{{{{{{{{{{{{\\\\\"}");
	json_decref(doc);
	// Many side by side are not deep.
	char wide[2000] = "[";
	for (int i = 0; i < 400; i++)
		memcpy(wide + 1 + 3 * i, "[],", 3);
	memcpy(wide + 1 + 1200 - 1, "]", 2);
	json_decref(parsed(wide));
}

static void the_canonical_text_is_one(void **state)
{
	(void)state;
	json_t *doc = parsed(
		"{ \"b\" : [1, 2.50, -0.0, 1E2, true, null],\n\"a\": {\"z\": \"\\u00e9/\\n\","
		" \"B\": {}}}");
	char *text = json_canonical(doc);
	assert_string_equal(text,
		"{\"a\":{\"B\":{},\"z\":\"\xc3\xa9/\\n\"},\"b\":[1,2.5,-0.0,100.0,true,null]}");
	json_t *again = parsed(text);
	char *second = json_canonical(again);
	assert_string_equal(text, second);
	free(second);
	free(text);
	json_decref(again);
	json_decref(doc);
}

static const char *const sizes[] = {"small", "big", NULL};

static void what_is_right_is_given(void **state)
{
	(void)state;
	json_t *doc =
		parsed("{\"i\": -7, \"r\": 2.5, \"w\": 3, \"f\": true, \"t\": \"text\","
		       "\"c\": \"big\", \"h\": \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9c"
		       "b410ff61f20015ad\", \"o\": {\"x\": 1}, \"a\": [1, 2, 3]}");
	struct buf mistakes;
	struct json_in in, inner;
	buf_init(&mistakes, 4000);
	json_in_init(&in, doc, "", &mistakes);
	assert_int_equal(json_get_int(&in, "i", -7, 7, NULL), -7);
	assert_true(json_get_real(&in, "r", 0, 2.5, NULL) == 2.5);
	assert_true(json_get_real(&in, "w", 0, 3, NULL) == 3);
	assert_true(json_get_flag(&in, "f", NULL));
	assert_string_equal(json_get_text(&in, "t", 4, NULL), "text");
	assert_int_equal(json_get_choice(&in, "c", sizes, NULL), 1);
	struct hash h = json_get_hash(&in, "h", true), abc = hash_of("abc", 3);
	assert_true(hash_equal(&h, &abc));
	json_in_init(&inner, json_get_object(&in, "o", true), "o", &mistakes);
	assert_int_equal(json_get_int(&inner, "x", 0, 1, NULL), 1);
	json_in_finish(&inner);
	assert_int_equal(json_array_size(json_get_array(&in, "a", 3, true)), 3);
	// What may be absent, and is.
	const int64_t i = 5;
	const double r = 0.5;
	const bool f = true;
	assert_int_equal(json_get_int(&in, "i2", 0, 9, &i), 5);
	assert_true(json_get_real(&in, "r2", 0, 1, &r) == 0.5);
	assert_true(json_get_flag(&in, "f2", &f));
	assert_string_equal(json_get_text(&in, "t2", 9, "other"), "other");
	assert_int_equal(json_get_choice(&in, "c2", sizes, "big"), 1);
	h = json_get_hash(&in, "h2", false);
	assert_true(hash_is_zero(&h));
	assert_null(json_get_object(&in, "o2", false));
	assert_null(json_get_array(&in, "a2", 3, false));
	json_in_finish(&in);
	assert_true(buf_ok(&mistakes));
	assert_int_equal(mistakes.len, 0);
	buf_release(&mistakes);
	json_decref(doc);
}

static void every_mistake_is_named(void **state)
{
	(void)state;
	json_t *doc =
		parsed("{\"i\": 8, \"i2\": 1.0, \"r\": \"x\", \"r2\": 9, \"f\": 1, \"t\": \"text\","
		       "\"c\": \"huge\", \"h\": \"BA\", \"o\": [], \"a\": [1, 2], \"a2\": {},"
		       "\"lrx\": null, \"zzz\\u001b\": 1}");
	struct buf mistakes;
	struct json_in in;
	const int64_t fallback = 3;
	buf_init(&mistakes, 4000);
	json_in_init(&in, doc, "train", &mistakes);
	assert_int_equal(json_get_int(&in, "i", -7, 7, &fallback), 3);
	assert_int_equal(json_get_int(&in, "i2", -7, 7, NULL), -7);
	assert_true(json_get_real(&in, "r", 0, 1, NULL) == 0);
	assert_true(json_get_real(&in, "r2", 0, 1, NULL) == 0);
	assert_false(json_get_flag(&in, "f", NULL));
	assert_string_equal(json_get_text(&in, "t", 3, NULL), "");
	assert_int_equal(json_get_choice(&in, "c", sizes, "big"), 0);
	struct hash h = json_get_hash(&in, "h", false);
	assert_true(hash_is_zero(&h));
	assert_null(json_get_object(&in, "o", false));
	assert_null(json_get_array(&in, "a", 1, true));
	assert_null(json_get_array(&in, "a2", 1, true));
	assert_true(json_get_real(&in, "lr", 0, 1, NULL) == 0);
	json_in_finish(&in);
	assert_string_equal((char *)mistakes.data,
		"train.i: must be a whole number from -7 to 7, is 8\n"
		"train.i2: must be a whole number from -7 to 7, is 1\n"
		"train.r: must be a number from 0 to 1, is \"x\"\n"
		"train.r2: must be a number from 0 to 1, is 9\n"
		"train.f: must be true or false, is 1\n"
		"train.t: must be a text of at most 3 bytes, is \"text\"\n"
		"train.c: must be one of small, big, is \"huge\"\n"
		"train.h: must be a SHA-256 in 64 lower-case hexadecimal digits, is \"BA\"\n"
		"train.o: must be an object, is an array\n"
		"train.a: must have at most 1 items, has 2\n"
		"train.a2: must be an array, is an object\n"
		"train.lr: is missing\n"
		"train.lrx: is not known here; did you mean lr?\n"
		"train.zzz?: is not known here\n");
	buf_release(&mistakes);
	json_decref(doc);
}

static void the_top_must_be_an_object(void **state)
{
	(void)state;
	json_t *doc = parsed("[1]");
	struct buf mistakes;
	struct json_in in;
	buf_init(&mistakes, 4000);
	json_in_init(&in, doc, "", &mistakes);
	assert_int_equal(json_get_int(&in, "i", 4, 9, NULL), 4);
	assert_string_equal(json_get_text(&in, "t", 4, NULL), "");
	json_in_finish(&in);
	assert_string_equal((char *)mistakes.data, "must be an object\n");
	// An absent object was already told by its parent.
	buf_clear(&mistakes);
	json_in_init(&in, NULL, "x", &mistakes);
	assert_null(json_get_object(&in, "o", true));
	assert_false(json_get_flag(&in, "f", NULL));
	json_in_finish(&in);
	assert_int_equal(mistakes.len, 0);
	json_mistake(&in, "f", "does not fit to %s", "that");
	assert_string_equal((char *)mistakes.data, "x.f: does not fit to that\n");
	buf_release(&mistakes);
	json_decref(doc);
}

static void a_flood_of_mistakes_is_bounded(void **state)
{
	(void)state;
	struct buf text, mistakes;
	buf_init(&text, 1 << 20);
	buf_printf(&text, "{\"first\": 1");
	for (int i = 0; i < 5000; i++)
		buf_printf(&text, ",\"%0100d\": 1", i);
	buf_printf(&text, "}");
	json_t *doc = parsed((char *)text.data);
	struct json_in in;
	buf_init(&mistakes, 1000);
	json_in_init(&in, doc, "", &mistakes);
	json_in_finish(&in);
	assert_false(buf_ok(&mistakes));
	assert_true(mistakes.len > 500 && mistakes.len <= 1000);
	buf_release(&mistakes);
	buf_release(&text);
	json_decref(doc);
}

static void mistakes_come_to_one_sentence(void **state)
{
	(void)state;
	struct buf mistakes;
	struct json_in in;
	struct why why;
	buf_init(&mistakes, 4096);
	json_in_init(&in, NULL, "plan", &mistakes);
	assert_int_equal(json_verdict(&mistakes, "it is malformed", &why), ERR_OK);
	json_mistake(&in, "round", "is missing");
	json_mistake(&in, "steps", "must be a number");
	assert_int_equal(json_verdict(&mistakes, "it is malformed", &why), ERR_syntax);
	assert_string_equal(
		why.text, "it is malformed: plan.round: is missing; plan.steps: must be a number");
	for (int i = 0; i < 100; i++)
		json_mistake(&in, "seconds", "is missing");
	assert_int_equal(json_verdict(&mistakes, "it is malformed", &why), ERR_syntax);
	assert_true(strlen(why.text) < sizeof why.text - 1);
	buf_release(&mistakes);

	buf_init(&mistakes, 4);
	json_mistake(&in, "round", "is missing");
	assert_int_equal(json_verdict(&mistakes, "it is malformed", &why), ERR_nomem);
	buf_release(&mistakes);
}

static void *try_malloc(size_t n)
{
	return alloc_try(n, 1);
}

/* Nothing leaks or crashes whichever allocation of the parser fails. */
static void each_allocation_may_fail(void **state)
{
	(void)state;
	static const char text[] = "{\"a\": [1, 2.5, \"x\", {\"b\": null}], \"c\": true}";
	json_t *doc;
	struct why why;
	enum err err;
	long n = 0;
	json_set_alloc_funcs(try_malloc, free);
	do {
		alloc_fail_at(++n);
		err = json_parse(text, sizeof text - 1, 1000, &doc, &why);
		assert_true((err == ERR_OK) == (doc != NULL));
	} while (err);
	assert_true(n > 10);
	for (n = 1;; n++) {
		alloc_fail_at(n);
		char *canonical = json_canonical(doc);
		bool done = alloc_tries() < n;
		if (done)
			assert_string_equal(
				canonical, "{\"a\":[1,2.5,\"x\",{\"b\":null}],\"c\":true}");
		free(canonical);
		if (done)
			break;
	}
	alloc_fail_at(0);
	json_decref(doc);
	json_set_alloc_funcs(malloc, free);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_json_is_refused),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(the_canonical_text_is_one),
		cmocka_unit_test(what_is_right_is_given),
		cmocka_unit_test(every_mistake_is_named),
		cmocka_unit_test(the_top_must_be_an_object),
		cmocka_unit_test(a_flood_of_mistakes_is_bounded),
		cmocka_unit_test(mistakes_come_to_one_sentence),
		cmocka_unit_test(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
