/* Signatures: a known answer, tampering, purposes kept apart.  SECURITY.md, invariant 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "net/sign.h"
#include "base/text.h"

static void test_public_key_of_rfc_8032(void **state)
{
	// RFC 8032, 7.1, test 1.
	uint8_t secret[SIGN_SECRET], public_key[SIGN_PUBLIC], again[SIGN_SECRET];
	struct sign_key *k;
	(void)state;
	assert_int_equal(text_unhex("9d61b19deffd5a60ba844af492ec2cc4"
				    "4449c5697b326919703bac031cae7f60",
				 secret, sizeof secret),
		ERR_OK);
	assert_int_equal(text_unhex("d75a980182b10ab7d54bfed3c964073a"
				    "0ee172f3daa62325af021a68f707511a",
				 public_key, sizeof public_key),
		ERR_OK);
	assert_int_equal(sign_load(secret, &k), ERR_OK);
	assert_memory_equal(sign_public_of(k).b, public_key, sizeof public_key);
	sign_store(k, again);
	assert_memory_equal(again, secret, sizeof secret);
	sign_free(k);
	sign_free(NULL);
}

static void test_every_bit_counts(void **state)
{
	struct sign_key *k = sign_make();
	struct sign_public p = sign_public_of(k);
	uint8_t text[] = "forty-two tokens", s[SIGN_BYTES];
	(void)state;
	sign_bytes(k, "test 1", text, sizeof text, s);
	assert_int_equal(sign_verify(p.b, "test 1", text, sizeof text, s), ERR_OK);
	for (size_t i = 0; i < 8 * sizeof s; i++) {
		s[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(sign_verify(p.b, "test 1", text, sizeof text, s), ERR_signature);
		s[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	for (size_t i = 0; i < 8 * sizeof text; i++) {
		text[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(sign_verify(p.b, "test 1", text, sizeof text, s), ERR_signature);
		text[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	assert_int_equal(sign_verify(p.b, "test 1", text, sizeof text - 1, s), ERR_signature);
	sign_free(k);
}

static void test_a_purpose_is_signed_too(void **state)
{
	struct sign_key *k = sign_make(), *other = sign_make();
	struct sign_public p = sign_public_of(k), q = sign_public_of(other);
	uint8_t s[SIGN_BYTES];
	(void)state;
	sign_bytes(k, "plan", "ab", 3, s);
	assert_int_equal(sign_verify(p.b, "head", "ab", 3, s), ERR_signature);
	assert_int_equal(sign_verify(q.b, "plan", "ab", 3, s), ERR_signature);
	// Purpose and text cannot be cut at another place.
	sign_bytes(k, "plan", "\0ab", 3, s);
	assert_int_equal(sign_verify(p.b, "plan\0", "ab", 2, s), ERR_signature);
	sign_bytes(k, "a", "bc", 2, s);
	assert_int_equal(sign_verify(p.b, "ab", "c", 1, s), ERR_signature);
	sign_bytes(k, "nothing", NULL, 0, s);
	assert_int_equal(sign_verify(p.b, "nothing", NULL, 0, s), ERR_OK);
	memset(p.b, 0xff, sizeof p.b); // no point of the curve
	assert_int_equal(sign_verify(p.b, "nothing", NULL, 0, s), ERR_signature);
	sign_free(other);
	sign_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_public_key_of_rfc_8032),
		cmocka_unit_test(test_every_bit_counts),
		cmocka_unit_test(test_a_purpose_is_signed_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
