/* Hashes against published vectors, random numbers against the authors' own, clock texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "tests/help_base.h"

static void assert_hash(const struct hash *h, const char *expected)
{
	char hex[HASH_HEX];
	hash_hex(h, hex);
	assert_string_equal(hex, expected);
}

static const char *const empty_hex =
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char *const abc_hex =
	"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char *const million_a_hex =
	"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

/* The examples of FIPS 180-2. */
static void known_hashes_come_out(void **state)
{
	(void)state;
	struct hash h = hash_of(NULL, 0);
	assert_hash(&h, empty_hex);
	h = hash_of("abc", 3);
	assert_hash(&h, abc_hex);
	struct hash_state *s = hash_begin();
	char part[1000];
	memset(part, 'a', sizeof part);
	for (int i = 0; i < 1000; i++)
		hash_add(s, part, sizeof part);
	h = hash_end(s);
	assert_hash(&h, million_a_hex);
}

static void pieces_make_the_whole(void **state)
{
	(void)state;
	struct hash_state *s = hash_begin();
	hash_add(s, "ab", 2);
	hash_add(s, NULL, 0);
	hash_add_u32(s, 0x04030201);
	hash_add_u64(s, 0x0c0b0a0908070605ull);
	struct hash h = hash_end(s), whole = hash_of("ab\1\2\3\4\5\6\7\10\11\12\13\14", 14);
	assert_true(hash_equal(&h, &whole));
	whole.b[31] ^= 1;
	assert_false(hash_equal(&h, &whole));
	assert_false(hash_is_zero(&h));
	assert_true(hash_is_zero(&(struct hash){{0}}));
	hash_drop(hash_begin());
	hash_drop(NULL);
}

static void only_the_one_text_form_is_taken(void **state)
{
	(void)state;
	struct hash h, kept = {{1}};
	assert_int_equal(hash_parse(abc_hex, &h), ERR_OK);
	assert_hash(&h, abc_hex);
	char text[80];
	static const char bad[] = {'g', 'A', ' ', '/', ':', '`', '\xff'};
	for (size_t i = 0; i < sizeof bad; i++) {
		memcpy(text, abc_hex, HASH_HEX);
		text[9 * i] = bad[i];
		assert_int_equal(hash_parse(text, &kept), ERR_syntax);
	}
	assert_int_equal(hash_parse("", &kept), ERR_syntax);
	memcpy(text, abc_hex, HASH_HEX);
	text[63] = '\0';
	assert_int_equal(hash_parse(text, &kept), ERR_syntax);
	memcpy(text, abc_hex, HASH_HEX - 1);
	memcpy(text + 64, "a", 2);
	assert_int_equal(hash_parse(text, &kept), ERR_syntax);
	assert_int_equal(kept.b[0], 1);
}

static void files_are_hashed(void **state)
{
	(void)state;
	struct hash h = {{1}};
	uint64_t size = 0;
	help_base_write("abc", "abc", 3);
	assert_int_equal(hash_file(help_base_path("abc"), &h, &size), ERR_OK);
	assert_hash(&h, abc_hex);
	assert_int_equal(size, 3);
	char *million = alloc_must(1000000);
	memset(million, 'a', 1000000);
	help_base_write("million", million, 1000000);
	free(million);
	assert_int_equal(hash_file(help_base_path("million"), &h, &size), ERR_OK);
	assert_hash(&h, million_a_hex);
	assert_int_equal(size, 1000000);

	assert_int_equal(hash_file(help_base_path("none"), &h, &size), ERR_missing);
	assert_int_equal(hash_file(help_base_path(""), &h, &size), ERR_io);
	alloc_fail_at(1);
	assert_int_equal(hash_file(help_base_path("abc"), &h, &size), ERR_nomem);
	alloc_fail_at(0);
	assert_hash(&h, million_a_hex);
}

static void *hash_often(void *arg)
{
	for (int i = 0; i < 200; i++) {
		struct hash h = hash_of("abc", 3);
		if (h.b[0] != 0xba)
			*(bool *)arg = true;
	}
	return NULL;
}

static void threads_may_hash(void **state)
{
	(void)state;
	pthread_t t[4];
	bool bad[4] = {false};
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, hash_often, &bad[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		assert_false(bad[i]);
	}
}

/* Philox 4x32-10 of Random123's kat_vectors: counter words 0 to 3, key words 0 and 1.  Two words
 * of the block can be seen; the normal numbers below depend on all four. */
static void the_authors_vectors_come_out(void **state)
{
	(void)state;
	static const struct {
		uint64_t key, stream, counter, expected;
	} kat[] = {
		{0, 0, 0, 0xe169c58d6627e8d5ull},
		{UINT64_MAX, UINT64_MAX, UINT64_MAX, 0x41c83b0e408f276dull},
		{0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull,
			0x94fdccebd16cfe09ull},
	};
	for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
		uint64_t got = rng_u64(kat[i].key, kat[i].stream, kat[i].counter);
		assert_true(got == kat[i].expected);
		assert_true(rng_u32(kat[i].key, kat[i].stream, kat[i].counter) == (uint32_t)got);
	}
}

static void numbers_below_stay_below(void **state)
{
	(void)state;
	unsigned seen[10] = {0};
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t v = rng_below(1, 2, i, 10);
		assert_true(v < 10);
		seen[v]++;
		double u = rng_unit(1, 3, i);
		assert_true(u >= 0 && u < 1);
	}
	for (int i = 0; i < 10; i++)
		assert_true(seen[i] > 850 && seen[i] < 1150); // five standard deviations
	assert_int_equal(rng_below(1, 2, 3, 1), 0);
	assert_true(rng_below(1, 2, 3, UINT64_MAX) < UINT64_MAX);
}

/* Exact values, computed apart from this code: the bits are part of every run. */
static void normal_numbers_are_the_same_everywhere(void **state)
{
	(void)state;
	/* once, seeds that differ in their two lowest bits gave the same numbers */
	for (uint64_t seed = 0; seed < 64; seed++)
		for (uint64_t other = 0; other < seed; other++)
			assert_true(rng_normal(seed, 5, 9) != rng_normal(other, 5, 9) ||
				    rng_normal(seed, 5, 10) != rng_normal(other, 5, 10));
	assert_true(rng_normal(1, 2, 3) == 0x1.158dcp+0f);
	assert_true(rng_normal(42, 0, 0) == 0x1.397398p+0f);
	assert_true(rng_normal(UINT64_MAX, UINT64_MAX, UINT64_MAX) == -0x1.d566p-3f);
	double sum = 0, square = 0, fourth = 0;
	const int n = 200000;
	for (int i = 0; i < n; i++) {
		double x = rng_normal(7, 1, (uint64_t)i);
		assert_true(x > -6 && x < 6);
		sum += x;
		square += x * x;
		fourth += x * x * x * x;
	}
	// Five standard deviations each; the fourth moment of twelve uniforms is 3 - 0.1.
	assert_true(sum / n > -0.012 && sum / n < 0.012);
	assert_true(square / n > 0.984 && square / n < 1.016);
	assert_true(fourth / n > 2.79 && fourth / n < 3.01);
}

static void secrets_differ(void **state)
{
	(void)state;
	uint8_t a[64] = {0}, b[64] = {0};
	rng_secret(a, 32);
	rng_secret(b, 32);
	assert_memory_not_equal(a, b, 32);
	for (int i = 32; i < 64; i++)
		assert_int_equal(a[i], 0);
	rng_secret(a, 0);
}

static void times_are_told(void **state)
{
	(void)state;
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "0ms"},
		{999999999, "999ms"},
		{12345 * CLOCK_MS, "12.3s"},
		{59999 * CLOCK_MS, "59.9s"},
		{185 * CLOCK_SECOND, "3m 05s"},
		{7800 * CLOCK_SECOND, "2h 10m"},
		{446400 * CLOCK_SECOND, "5d 04h"},
		{UINT64_MAX, "213503d 23h"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char text[24];
		clock_text(cases[i].ns, text);
		assert_string_equal(text, cases[i].text);
	}
	uint64_t before = clock_now_ns();
	assert_true(clock_now_ns() >= before);
	assert_true(clock_wall_s() > 1700000000);
	assert_true(clock_seconds(1500 * CLOCK_MS) == 1.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_hashes_come_out),
		cmocka_unit_test(pieces_make_the_whole),
		cmocka_unit_test(only_the_one_text_form_is_taken),
		cmocka_unit_test_setup_teardown(
			files_are_hashed, help_base_setup, help_base_teardown),
		cmocka_unit_test(threads_may_hash),
		cmocka_unit_test(the_authors_vectors_come_out),
		cmocka_unit_test(numbers_below_stay_below),
		cmocka_unit_test(normal_numbers_are_the_same_everywhere),
		cmocka_unit_test(secrets_differ),
		cmocka_unit_test(times_are_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
