/*
 * Every selection against its definition, spelled out slowly.  Nothing but the selections is
 * linked by check_aarch64.sh, which runs this for another processor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "compress/floats.h"
#include "compress/select.h"
#include "compress/topk.h"

#define MOST SELECT_CHUNK_MAX
#define GUARD 0xbeef

/* ---- values to select from */

enum kind { bell, heavy, few, equal, two, rising, falling, spike, subnormal, any, zeros, kinds };

static float value(enum kind kind, uint32_t n, uint32_t i)
{
	float x = rng_normal(kind, n, i);
	uint32_t bits = rng_u32(kind, n, i);
	switch (kind) {
	case heavy: return x * x * x * 1e-3f;
	case few: return bits % 100 ? 0 : x;
	case equal: return bits & 1 ? 0.25f : -0.25f;
	case two: return bits % 50 ? 1 : -2;
	case rising: return (float)i;
	case falling: return (float)i - (float)n;
	case spike: return i == n / 3 ? 1e38f : x;
	case subnormal: return floats_from(bits & 0x80ffffffu);
	case any: return floats_finite(floats_from(bits)) ? floats_from(bits) : x;
	case zeros: return bits & 1 ? 0.0f : -0.0f;
	case bell:
	case kinds:
	default: return x;
	}
}

static float *values(enum kind kind, uint32_t n)
{
	// Just as long as they are, so that a sanitizer sees what is read behind them.
	float *v = malloc(n * sizeof *v);
	assert_true(v != NULL);
	for (uint32_t i = 0; i < n; i++)
		v[i] = value(kind, n, i);
	return v;
}

/* ---- topk */

static const float *sorted_values;

static int by_magnitude(const void *a, const void *b)
{
	uint16_t i, j;
	memcpy(&i, a, sizeof i);
	memcpy(&j, b, sizeof j);
	uint32_t x = floats_magnitude(sorted_values[i]), y = floats_magnitude(sorted_values[j]);
	return x != y ? (x < y) - (x > y) : (i > j) - (i < j);
}

/* All places, by falling magnitude. */
static void rank(const float *v, uint32_t n, uint16_t *order)
{
	for (uint32_t i = 0; i < n; i++)
		order[i] = (uint16_t)i;
	sorted_values = v;
	qsort(order, n, sizeof *order, by_magnitude);
}

static void check_topk(
	const float *v, uint32_t n, uint32_t k, uint32_t least, const uint16_t *order)
{
	static uint8_t wanted[MOST];
	static uint16_t place[MOST + 1];
	uint32_t m = 0;
	memset(wanted, 0, n);
	for (; m < k && floats_magnitude(v[order[m]]) >= least; m++)
		wanted[order[m]] = 1;
	const struct topk *t;
	for (size_t i = 0; (t = topk_at(i)); i++) {
		place[k] = GUARD;
		uint32_t got = t->select(v, n, k, least, place), at = 0;
		if (got != m)
			fail_msg("%s keeps %u of %u of %u values, not %u", t->isa, got, k, n, m);
		for (uint32_t j = 0; j < n; j++)
			if (wanted[j] && place[at++] != j)
				fail_msg("%s: %u of %u: place %u is kept instead of %u", t->isa, k,
					n, place[at - 1], j);
		assert_true(place[k] == GUARD);
	}
}

static void topk_keeps_the_largest(void **state)
{
	(void)state;
	static const uint32_t lens[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 64, 100, 255, 256,
		257, 1000, 1023, 4095, 4096, 12287, 65535, 65536};
	static uint16_t order[MOST];
	for (int kind = 0; kind < kinds; kind++)
		for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
			uint32_t n = lens[i];
			float *v = values((enum kind)kind, n);
			rank(v, n, order);
			const uint32_t ks[] = {1, 2, 3, 16, 64, 256, 512, 1024, n / 64, n / 8,
				n / 8 + 1, n / 4, n / 2, n - 1, n};
			for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++) {
				if (ks[j] < 1 || ks[j] > n)
					continue;
				uint32_t half = floats_magnitude(v[order[n / 2]]);
				check_topk(v, n, ks[j], FLOATS_NORMAL, order);
				check_topk(v, n, ks[j], half, order);
				check_topk(v, n, ks[j], half + 1, order);
				check_topk(v, n, ks[j], FLOATS_INFINITE, order);
			}
			free(v);
		}
}

/* Each length and each k where registers, stretches and blocks begin and end. */
static void topk_keeps_the_largest_of_every_short_length(void **state)
{
	(void)state;
	uint16_t order[600];
	for (uint32_t n = 1; n < 600; n += n < 300 ? 1 : 7)
		for (int kind = bell; kind <= equal; kind++) {
			float *v = values((enum kind)kind, n);
			rank(v, n, order);
			for (uint32_t k = 1; k <= n; k += n < 40 ? 1 : 1 + n / 9)
				check_topk(v, n, k, FLOATS_NORMAL, order);
			free(v);
		}
}

static void there_is_a_fastest_and_a_plain_way(void **state)
{
	(void)state;
	size_t n = 0;
	for (; topk_at(n); n++)
		for (size_t i = 0; i < n; i++)
			assert_true(topk_at(i) != topk_at(n));
	assert_true(n > 0 && topk_at(n - 1) == &topk_plain);
}

/* ---- rows */

static uint32_t choose(enum select select, const struct select_from *from, uint16_t *place)
{
	place[from->k] = GUARD;
	uint32_t m = select_row(select)->choose(from, place);
	assert_true(place[from->k] == GUARD && m <= from->k);
	for (uint32_t i = 0; i < m; i++)
		assert_true(place[i] < from->len && (i == 0 || place[i - 1] < place[i]));
	return m;
}

static void rows_say_what_they_are(void **state)
{
	(void)state;
	assert_true(
		select_row(0) == NULL && select_row(5) == NULL && select_row(UINT32_MAX) == NULL);
	assert_true(select_row(1) == &select_all && select_row(2) == &select_topk);
	assert_true(select_row(3) == &select_randk && select_row(4) == &select_threshold);
	assert_true(!strcmp(select_all.name, "all") && !strcmp(select_topk.name, "topk"));
	assert_true(
		!strcmp(select_randk.name, "randk") && !strcmp(select_threshold.name, "threshold"));
	assert_true(!select_all.choose && !select_all.takes_k && !select_all.sends_places);
	assert_true(select_topk.takes_k && select_topk.sends_places && !select_topk.takes_seed);
	assert_true(select_randk.takes_k && !select_randk.sends_places && select_randk.takes_seed);
	assert_true(select_threshold.takes_k && select_threshold.sends_places &&
		    select_threshold.takes_threshold);
}

static void topk_by_hand(void **state)
{
	(void)state;
	static const float v[] = {0.5f, -3, 0, 2, -2, 0.25f, 2, 1};
	static const uint16_t wanted[] = {1, 3, 4};
	uint16_t place[9];
	struct select_from from = {.v = v, .len = 8, .k = 3};
	assert_true(choose(SELECT_topk, &from, place) == 3);
	assert_true(!memcmp(place, wanted, sizeof wanted));
	from.k = 8;
	assert_true(choose(SELECT_topk, &from, place) == 7); // not the zero
}

/* ---- threshold */

static void threshold_by_hand(void **state)
{
	(void)state;
	static const float v[] = {3, -1, 5, 1, -5, 0, 3, 1, 1, 0}; // squares: 72; rms 2.683
	static const struct {
		float threshold;
		uint32_t k, m;
		uint16_t place[4];
	} cases[] = {
		{1, 10, 4, {0, 2, 4, 6}},
		{1, 3, 3, {0, 2, 4}},
		{1, 1, 1, {2}},
		{1.8f, 10, 2, {2, 4}},
		{1.9f, 10, 0, {0}},
		{3e38f, 10, 0, {0}},
	};
	uint16_t place[11];
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct select_from from = {
			.v = v, .len = 10, .k = cases[i].k, .threshold = cases[i].threshold};
		assert_true(choose(SELECT_threshold, &from, place) == cases[i].m);
		assert_true(!memcmp(place, cases[i].place, cases[i].m * sizeof *place));
	}
	struct select_from from = {.v = v, .len = 10, .k = 10, .threshold = 1e-20f};
	assert_true(choose(SELECT_threshold, &from, place) == 8); // zeros never
}

static void threshold_keeps_what_reaches_it(void **state)
{
	(void)state;
	static uint16_t place[MOST + 1];
	static const float thresholds[] = {1e-30f, 0.1f, 1, 2, 100};
	for (int kind = 0; kind < kinds; kind++)
		for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++) {
			enum { N = 5000 };
			float *v = values((enum kind)kind, N);
			double squares = 0;
			for (uint32_t j = 0; j < N; j++)
				squares += (double)v[j] * (double)v[j];
			double limit = (double)thresholds[i] * sqrt(squares / N);
			struct select_from from = {
				.v = v, .len = N, .k = N, .threshold = thresholds[i]};
			uint32_t m = choose(SELECT_threshold, &from, place), at = 0;
			for (uint32_t j = 0; j < N; j++)
				if (fabs((double)v[j]) >= limit &&
					floats_magnitude(v[j]) >= FLOATS_NORMAL)
					assert_true(at < m && place[at++] == j);
			assert_true(at == m);
			free(v);
		}
	// The limit is 1 and a third of the last bit: no float, and 1 is below it.
	static const float ones[] = {1, 1, 0x1.000002p+0f};
	struct select_from last = {.v = ones, .len = 3, .k = 3, .threshold = 1};
	assert_true(choose(SELECT_threshold, &last, place) == 1 && place[0] == 2);
	// All are just as large as their root mean square: equal counts as reached.
	float *v = values(equal, 64);
	struct select_from from = {.v = v, .len = 64, .k = 64, .threshold = 1};
	assert_true(choose(SELECT_threshold, &from, place) == 64);
	from.k = 5;
	assert_true(choose(SELECT_threshold, &from, place) == 5 && place[4] == 4);
	free(v);
}

/* ---- randk */

static void randk_gives_k_different_places(void **state)
{
	(void)state;
	static const struct {
		uint32_t len, k;
	} sizes[] = {{1, 1}, {2, 1}, {7, 7}, {64, 63}, {65, 1}, {4096, 64}, {65536, 1},
		{65536, 40000}, {65536, 65536}};
	static uint16_t place[MOST + 1], again[MOST + 1];
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct select_from from = {
			.len = sizes[i].len, .k = sizes[i].k, .chunk = i, .seed = 12345};
		assert_true(choose(SELECT_randk, &from, place) == from.k);
		assert_true(choose(SELECT_randk, &from, again) == from.k);
		assert_true(!memcmp(place, again, from.k * sizeof *place));
	}
}

static void randk_follows_seed_and_chunk(void **state)
{
	(void)state;
	static const uint16_t wanted[] = {40, 260, 1375, 1405, 1450, 1555, 1736, 2026, 2177, 2395,
		3072, 3178, 3235, 3333, 3391, 3542};
	uint16_t place[17], other[17];
	struct select_from from = {
		.len = 4096, .k = 16, .chunk = (size_t)1 << 31, .seed = UINT64_MAX - 1};
	choose(SELECT_randk, &from, place);
	assert_true(!memcmp(place, wanted, sizeof wanted));
	from.chunk--;
	choose(SELECT_randk, &from, other);
	assert_true(memcmp(place, other, 16 * sizeof *place) != 0);
	from.chunk++;
	from.seed++;
	choose(SELECT_randk, &from, other);
	assert_true(memcmp(place, other, 16 * sizeof *place) != 0);
}

/* Each place, and each pair of places, is as likely as any other. */
static void randk_is_uniform(void **state)
{
	(void)state;
	enum { LEN = 12, K = 5, TIMES = 66000 };
	static uint32_t count[LEN][LEN];
	uint16_t place[K + 1];
	for (size_t chunk = 0; chunk < TIMES; chunk++) {
		struct select_from from = {.len = LEN, .k = K, .chunk = chunk, .seed = 7};
		choose(SELECT_randk, &from, place);
		for (uint32_t i = 0; i < K; i++)
			for (uint32_t j = i; j < K; j++)
				count[place[i]][place[j]]++;
	}
	const double one = (double)TIMES * K / LEN, pair = one * (K - 1) / (LEN - 1);
	for (uint32_t i = 0; i < LEN; i++)
		for (uint32_t j = i; j < LEN; j++) {
			double wanted = i == j ? one : pair;
			double off = fabs(count[i][j] - wanted) / sqrt(wanted);
			if (off > 4.5)
				fail_msg("places %u and %u: %u times, wanted are %g", i, j,
					count[i][j], wanted);
		}
}

/* ---- finite */

static void what_is_not_finite_is_seen(void **state)
{
	(void)state;
	static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7f800001u, 0x7fffffffu,
		0xffffffffu, 0xffc00000u, 0x7fc00000u};
	float v[70];
	for (size_t i = 0; i < 70; i++)
		v[i] = floats_from(i & 1 ? 0x7f7fffffu : 0xff7fffffu);
	for (size_t n = 0; n <= 70; n++) {
		assert_true(floats_all_finite(v, n));
		for (size_t at = 0; at < n; at++)
			for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
				float was = v[at];
				memcpy(&v[at], &bad[b], sizeof v[at]);
				assert_true(!floats_all_finite(v, n));
				v[at] = was;
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topk_keeps_the_largest),
		cmocka_unit_test(topk_keeps_the_largest_of_every_short_length),
		cmocka_unit_test(there_is_a_fastest_and_a_plain_way),
		cmocka_unit_test(rows_say_what_they_are),
		cmocka_unit_test(topk_by_hand),
		cmocka_unit_test(threshold_by_hand),
		cmocka_unit_test(threshold_keeps_what_reaches_it),
		cmocka_unit_test(randk_gives_k_different_places),
		cmocka_unit_test(randk_follows_seed_and_chunk),
		cmocka_unit_test(randk_is_uniform),
		cmocka_unit_test(what_is_not_finite_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
