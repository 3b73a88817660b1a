/* Signed documents as others see them: the bytes that a second program must find, the largest one
 * there is, and one that says the same in another layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "net/roster.h"
#include "net/signed.h"

static const struct hash run = {{7}};

/* SECURITY.md, 2: Ed25519 over SHA-256(purpose, a zero byte, bytes).  Made by another program from
 * these words: key 01 02 03 00 ..., purpose "shoal test 1". */
static void the_signature_is_what_security_md_says(void **state)
{
	(void)state;
	static const uint8_t secret[SIGN_SECRET] = {1, 2, 3};
	static const char expected[] =
		"{\"body\":{\"a\":1},\"signature\":"
		"\"8874a0cc75b7e596770ca1229dd4c24947116ec915618059a118c00c89d42121"
		"f6a619ec469ee04588076ba0ffc1a7bc6fa6ee8bade3c86c2db5b6e426c95c05\","
		"\"type\":\"test\"}";
	struct sign_key *key;
	assert_int_equal(sign_load(secret, &key), ERR_OK);
	json_t *body = json_pack("{s:i}", "a", 1);
	char *text = signed_make("test", body, key);
	assert_string_equal(text, expected);
	free(text);
	json_decref(body);
	sign_free(key);
}

/* Whoever pretty-prints a document, or a proxy that reorders members, does not break it. */
static void layout_does_not_matter(void **state)
{
	(void)state;
	struct sign_key *key = sign_make();
	struct sign_public pub = sign_public_of(key);
	json_t *in = json_pack("{s:i, s:s, s:[i, i], s:f}", "round", 3, "name", "h\xc3\xa4\"\n",
		"list", 1, 2, "rate", 0.1);
	json_t *doc, *body;
	struct why why;
	char *text = signed_make("plan", in, key);
	assert_int_equal(json_parse(text, strlen(text), SIGNED_MAX, &doc, &why), ERR_OK);
	char *pretty = json_dumps(doc, JSON_INDENT(3) | JSON_ENSURE_ASCII);
	assert_string_not_equal(text, pretty);
	assert_int_equal(signed_open(pretty, strlen(pretty), "plan", pub.b, &body, &why), ERR_OK);
	assert_true(json_equal(in, body));
	json_decref(body);
	json_decref(doc);
	free(pretty);
	free(text);
	json_decref(in);
	sign_free(key);
}

static struct roster_member member(uint32_t number, uint64_t seed)
{
	struct roster_member m = {.number = number};
	for (uint64_t i = 0; i < SIGN_PUBLIC; i++) {
		m.sign.b[i] = (uint8_t)rng_u32(seed, 1, i);
		m.curve[i] = (uint8_t)rng_u32(seed, 2, i);
	}
	memset(m.name, '"', ROSTER_NAME - 1); /* each takes two bytes in JSON */
	return m;
}

static void the_largest_roster_is_a_document(void **state)
{
	(void)state;
	struct roster_member *m = alloc_must_zero(ROSTER_MAX + 1, sizeof *m);
	for (uint32_t i = 0; i <= ROSTER_MAX; i++)
		m[i] = member(UINT32_MAX - 1 - i, i);
	struct roster *r, *back;
	struct why why;
	struct sign_key *key = sign_make();
	struct sign_public pub = sign_public_of(key);
	assert_int_equal(roster_new(&run, 1, m, ROSTER_MAX + 1, &r, &why), ERR_toobig);
	assert_int_equal(roster_new(&run, UINT32_MAX, m, ROSTER_MAX, &r, &why), ERR_OK);
	json_t *body = roster_json(r), *got;
	char *text = signed_make("roster", body, key);
	json_decref(body);
	assert_true(strlen(text) <= SIGNED_MAX);
	assert_int_equal(signed_open(text, strlen(text), "roster", pub.b, &got, &why), ERR_OK);
	assert_int_equal(roster_parse(got, &run, &back, &why), ERR_OK);
	json_decref(got);
	free(text);
	assert_int_equal(roster_count(back), ROSTER_MAX);
	for (uint32_t i = 0; i < ROSTER_MAX; i++) {
		assert_int_equal(roster_by_curve(back, m[i].curve)->number, m[i].number);
		assert_int_equal(roster_by_sign(back, m[i].sign.b)->number, m[i].number);
	}
	roster_free(back);
	roster_free(r);
	sign_free(key);
	free(m);
}

/* Ten thousand mistakes are one sentence, and not much memory. */
static void many_mistakes_are_one_sentence(void **state)
{
	(void)state;
	char hex[HASH_HEX];
	hash_hex(&run, hex);
	json_t *list = json_array();
	json_t *body = json_pack("{s:s, s:i, s:o}", "run", hex, "version", 1, "members", list);
	for (int i = 0; i < 10000; i++)
		json_array_append_new(list, json_integer(i));
	struct roster *r;
	struct why why;
	assert_int_equal(roster_parse(body, &run, &r, &why), ERR_syntax);
	assert_non_null(strstr(why.text, "members.0"));
	while (json_array_size(list) <= ROSTER_MAX)
		json_array_append_new(list, json_integer(1));
	assert_int_equal(roster_parse(body, &run, &r, &why), ERR_syntax);
	assert_non_null(strstr(why.text, "members"));
	json_decref(body);
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
		uint8_t signature[SIGN_BYTES];
		sign_bytes(j->key, "test", &i, sizeof i, signature);
		j->bad += sign_verify(p.b, "test", &i, sizeof i, signature) != ERR_OK;
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
		cmocka_unit_test(the_signature_is_what_security_md_says),
		cmocka_unit_test(layout_does_not_matter),
		cmocka_unit_test(the_largest_roster_is_a_document),
		cmocka_unit_test(many_mistakes_are_one_sentence),
		cmocka_unit_test(one_key_serves_several_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
