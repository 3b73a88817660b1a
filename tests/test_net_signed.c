/* Signed documents: what is changed, of another type or another key is refused.
 * SECURITY.md, invariants 1 and 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "net/signed.h"
#include "base/text.h"

static struct sign_key *key;
static struct sign_public pub;

static enum err open_text(const char *text, const char *type, struct why *why)
{
	json_t *body;
	enum err e = signed_open(text, strlen(text), type, pub.b, &body, why);
	assert_true(e ? !body : json_is_object(body));
	json_decref(body);
	return e;
}

static void test_round_trip(void **state)
{
	json_t *in = json_pack(
		       "{s:i, s:s, s:[n, b, f]}", "round", 3, "name", "Zürich", "list", 1, 0.5),
	       *out;
	char *text = signed_make("plan", in, key);
	struct why why = {0};
	(void)state;
	assert_non_null(in);
	assert_int_equal(signed_open(text, strlen(text), "plan", pub.b, &out, &why), ERR_OK);
	assert_true(json_equal(in, out));
	json_decref(out);
	json_decref(in);
	free(text);
}

static void test_no_byte_can_change(void **state)
{
	json_t *in = json_pack("{s:i, s:s}", "round", 3, "name", "x");
	char *text = signed_make("plan", in, key);
	struct why why = {0};
	(void)state;
	for (size_t i = 0; text[i]; i++)
		for (int bit = 0; bit < 7; bit++) {
			text[i] = (char)(text[i] ^ 1 << bit);
			if (text[i])
				assert_int_not_equal(open_text(text, "plan", &why), ERR_OK);
			text[i] = (char)(text[i] ^ 1 << bit);
		}
	assert_int_equal(open_text(text, "plan", &why), ERR_OK);
	assert_int_equal(open_text(text, "head", &why), ERR_magic);
	json_decref(in);
	free(text);
}

static void test_types_are_not_mixed_up(void **state)
{
	json_t *in = json_pack("{s:i}", "round", 3);
	char *text = signed_make("plan", in, key);
	struct why why = {0};
	(void)state;
	memcpy(strstr(text, "\"plan\""), "\"head\"", 6);
	assert_int_equal(open_text(text, "head", &why), ERR_signature);
	json_decref(in);
	free(text);
}

static void test_another_key(void **state)
{
	struct sign_key *stranger = sign_make();
	json_t *in = json_pack("{s:i}", "round", 3);
	char *text = signed_make("plan", in, stranger);
	struct why why = {0};
	(void)state;
	assert_int_equal(open_text(text, "plan", &why), ERR_signature);
	assert_non_null(strstr(why.text, "must be signed by"));
	json_decref(in);
	free(text);
	sign_free(stranger);
}

static void test_malformed(void **state)
{
	static const char *const texts[] = {"", "{", "[]", "{}", "null", "{\"body\":{}}",
		"{\"body\":[],\"signature\":\"\",\"type\":\"plan\"}",
		"{\"body\":{},\"signature\":\"00\",\"type\":\"plan\"}",
		"{\"body\":{},\"signature\":5,\"type\":\"plan\"}",
		"{\"body\":{},\"signature\":\"\",\"type\":7}"};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct why why = {0};
		assert_int_not_equal(open_text(texts[i], "plan", &why), ERR_OK);
		assert_true(why.text[0] != 0);
	}
}

static void test_hex(void **state)
{
	uint8_t b[2] = {0x0f, 0xa0}, out[2];
	char text[5];
	(void)state;
	text_hex(b, 2, text);
	assert_string_equal(text, "0fa0");
	assert_int_equal(text_unhex(text, out, 2), ERR_OK);
	assert_memory_equal(out, b, 2);
	assert_int_equal(text_unhex("0FA0", out, 2), ERR_syntax);
	assert_int_equal(text_unhex("0fa", out, 2), ERR_syntax);
	assert_int_equal(text_unhex("0fa00", out, 2), ERR_syntax);
	assert_int_equal(text_unhex("0fg0", out, 2), ERR_syntax);
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_no_byte_can_change),
		cmocka_unit_test(test_types_are_not_mixed_up),
		cmocka_unit_test(test_another_key),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_hex),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
