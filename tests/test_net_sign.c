/* Ed25519 signatures that serve one purpose only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include "base/hash.h"
#include "net/sign.h"
#include "net/signed.h"

static const char text[] = "a line, to be signed";

static void what_was_signed_verifies(void **state)
{
	(void)state;
	struct sign_key *k = sign_make();
	struct sign_public p = sign_public_of(k);
	uint8_t sig[SIGN_BYTES], again[SIGN_BYTES];
	for (size_t n = 0; n <= sizeof text; n++) {
		sign_bytes(k, "test", text, n, sig);
		assert_int_equal(sign_verify(p.b, "test", text, n, sig), ERR_OK);
	}
	sign_bytes(k, "test", text, sizeof text, again);
	assert_memory_equal(sig, again, sizeof sig); /* Ed25519 needs no randomness */
	sign_free(k);
	sign_free(NULL);
}

static void any_changed_bit_is_noticed(void **state)
{
	(void)state;
	struct sign_key *k = sign_make();
	struct sign_public p = sign_public_of(k);
	uint8_t sig[SIGN_BYTES];
	char copy[sizeof text];
	memcpy(copy, text, sizeof text);
	sign_bytes(k, "test", text, sizeof text, sig);
	for (size_t bit = 0; bit < 8 * sizeof sig; bit++) {
		sig[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(sign_verify(p.b, "test", text, sizeof text, sig), ERR_signature);
		sig[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t bit = 0; bit < 8 * sizeof copy; bit++) {
		copy[bit / 8] ^= (char)(1u << bit % 8);
		assert_int_equal(sign_verify(p.b, "test", copy, sizeof copy, sig), ERR_signature);
		copy[bit / 8] ^= (char)(1u << bit % 8);
	}
	for (size_t bit = 0; bit < 8 * sizeof p.b; bit++) {
		p.b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(sign_verify(p.b, "test", text, sizeof text, sig), ERR_signature);
		p.b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(sign_verify(p.b, "test", text, sizeof text - 1, sig), ERR_signature);
	assert_int_equal(sign_verify(p.b, "test", text, sizeof text, sig), ERR_OK);
	sign_free(k);
}

/* Neither another purpose, nor one whose end was moved into the text, takes the signature. */
static void a_signature_serves_its_purpose_only(void **state)
{
	(void)state;
	struct sign_key *k = sign_make();
	struct sign_public p = sign_public_of(k);
	uint8_t sig[SIGN_BYTES];
	sign_bytes(k, "plan", "head of it", 10, sig);
	assert_int_equal(sign_verify(p.b, "plan", "head of it", 10, sig), ERR_OK);
	assert_int_equal(sign_verify(p.b, "head", "head of it", 10, sig), ERR_signature);
	assert_int_equal(sign_verify(p.b, "", "head of it", 10, sig), ERR_signature);
	assert_int_equal(sign_verify(p.b, "planh", "ead of it", 9, sig), ERR_signature);
	assert_int_equal(sign_verify(p.b, "pla", "nhead of it", 11, sig), ERR_signature);
	assert_int_equal(sign_verify(p.b, "", "plan\0head of it", 15, sig), ERR_signature);
	sign_free(k);
}

static void a_key_survives_being_stored(void **state)
{
	(void)state;
	struct sign_key *k = sign_make(), *other = sign_make(), *back;
	uint8_t secret[SIGN_SECRET], a[SIGN_BYTES], b[SIGN_BYTES];
	sign_store(k, secret);
	assert_int_equal(sign_load(secret, &back), ERR_OK);
	struct sign_public p = sign_public_of(k), q = sign_public_of(back),
			   r = sign_public_of(other);
	assert_memory_equal(p.b, q.b, sizeof p.b);
	assert_memory_not_equal(p.b, r.b, sizeof p.b);
	sign_bytes(k, "test", text, sizeof text, a);
	sign_bytes(back, "test", text, sizeof text, b);
	assert_memory_equal(a, b, sizeof a);
	sign_free(k);
	sign_free(back);
	sign_free(other);
}

/* The first test vector of RFC 8032, 7.1: the secret and its public key. */
static void the_public_key_is_the_standards(void **state)
{
	(void)state;
	uint8_t secret[SIGN_SECRET], expected[SIGN_PUBLIC];
	struct sign_key *k;
	assert_int_equal(
		signed_unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
			secret, sizeof secret),
		ERR_OK);
	assert_int_equal(
		signed_unhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
			expected, sizeof expected),
		ERR_OK);
	assert_int_equal(sign_load(secret, &k), ERR_OK);
	struct sign_public p = sign_public_of(k);
	assert_memory_equal(p.b, expected, sizeof expected);
	sign_free(k);
}

/* What is signed is written down in SECURITY.md; a second program must find the same. */
static void the_signature_is_over_the_hash_of_purpose_and_bytes(void **state)
{
	(void)state;
	static const uint8_t secret[SIGN_SECRET] = {1, 2, 3};
	static const char expected[] =
		"8874a0cc75b7e596770ca1229dd4c24947116ec915618059a118c00c89d42121"
		"f6a619ec469ee04588076ba0ffc1a7bc6fa6ee8bade3c86c2db5b6e426c95c05";
	struct sign_key *k;
	uint8_t sig[SIGN_BYTES];
	char hex[2 * SIGN_BYTES + 1];
	assert_int_equal(sign_load(secret, &k), ERR_OK);
	sign_bytes(k, "shoal test 1", "{\"a\":1}", 7, sig);
	signed_hex(sig, sizeof sig, hex);
	assert_string_equal(hex, expected);
	sign_free(k);
}

struct job {
	const struct sign_key *key;
	int bad;
};

static void *sign_many(void *arg)
{
	struct job *j = arg;
	struct sign_public p = sign_public_of(j->key);
	for (uint32_t i = 0; i < 100; i++) {
		uint8_t sig[SIGN_BYTES];
		sign_bytes(j->key, "test", &i, sizeof i, sig);
		j->bad += sign_verify(p.b, "test", &i, sizeof i, sig) != ERR_OK;
	}
	return NULL;
}

static void one_key_serves_several_threads(void **state)
{
	(void)state;
	struct sign_key *k = sign_make();
	struct job jobs[4];
	pthread_t threads[4];
	for (int i = 0; i < 4; i++) {
		jobs[i] = (struct job){.key = k};
		assert_int_equal(pthread_create(&threads[i], NULL, sign_many, &jobs[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(jobs[i].bad, 0);
	}
	sign_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_signed_verifies),
		cmocka_unit_test(any_changed_bit_is_noticed),
		cmocka_unit_test(a_signature_serves_its_purpose_only),
		cmocka_unit_test(a_key_survives_being_stored),
		cmocka_unit_test(the_public_key_is_the_standards),
		cmocka_unit_test(the_signature_is_over_the_hash_of_purpose_and_bytes),
		cmocka_unit_test(one_key_serves_several_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
