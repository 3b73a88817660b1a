/*
 * The transform against its formula, and its bits.  Nothing but the transform is linked by
 * check_aarch64.sh, which runs this for another processor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "compress/dct.h"

enum { SIDE = 64, N = DCT_CHUNK };

static double c[SIDE][SIDE];

static int fill_c(void **state)
{
	(void)state;
	const double pi = 3.14159265358979323846;
	for (int u = 0; u < SIDE; u++)
		for (int j = 0; j < SIDE; j++)
			c[u][j] = sqrt((u ? 2.0 : 1.0) / SIDE) * cos(pi * (2 * j + 1) * u / 128);
	return 0;
}

static void make(float *v, uint64_t seed)
{
	for (uint32_t i = 0; i < N; i++)
		v[i] = rng_normal(seed, 0, i);
}

static double norm(const float *v)
{
	double sum = 0;
	for (uint32_t i = 0; i < N; i++)
		sum += (double)v[i] * (double)v[i];
	return sqrt(sum);
}

static double distance(const float *a, const float *b)
{
	float d[N];
	for (uint32_t i = 0; i < N; i++)
		d[i] = a[i] - b[i];
	return norm(d);
}

static void it_is_the_formula(void **state)
{
	(void)state;
	float v[N];
	static double half[SIDE][SIDE];
	make(v, 1);
	for (int u = 0; u < SIDE; u++)
		for (int j = 0; j < SIDE; j++) {
			half[u][j] = 0;
			for (int i = 0; i < SIDE; i++)
				half[u][j] += c[u][i] * (double)v[i * SIDE + j];
		}
	dct_forward(v, N);
	for (int u = 0; u < SIDE; u++)
		for (int w = 0; w < SIDE; w++) {
			double wanted = 0;
			for (int j = 0; j < SIDE; j++)
				wanted += half[u][j] * c[w][j];
			assert_true(fabs((double)v[u * SIDE + w] - wanted) < 1e-6);
		}
}

/* One value alone gives its column of the matrix, one coefficient its row: so each is the other's
 * transpose, and together with the formula all is orthonormal. */
static void one_value_gives_a_basis(void **state)
{
	(void)state;
	for (int one = 0; one < N; one += 31) {
		float v[N] = {0}, w[N] = {0};
		v[one] = w[one] = 1;
		dct_forward(v, N);
		dct_inverse(w, N);
		for (int i = 0; i < N; i++) {
			double there = c[i / SIDE][one / SIDE] * c[i % SIDE][one % SIDE];
			double back = c[one / SIDE][i / SIDE] * c[one % SIDE][i % SIDE];
			assert_true(fabs((double)v[i] - there) < 1e-9);
			assert_true(fabs((double)w[i] - back) < 1e-9);
		}
	}
}

static void it_comes_back_and_norms_stay(void **state)
{
	(void)state;
	float v[N], w[N];
	for (uint64_t seed = 0; seed < 20; seed++) {
		make(v, seed);
		memcpy(w, v, sizeof w);
		dct_inverse(w, N);
		assert_true(fabs(norm(w) / norm(v) - 1) < 1e-6);
		dct_forward(w, N);
		assert_true(distance(v, w) < 1e-6 * norm(v));
		dct_forward(w, N);
		assert_true(fabs(norm(w) / norm(v) - 1) < 1e-6);
		dct_inverse(w, N);
		assert_true(distance(v, w) < 1e-6 * norm(v));
	}
}

static void what_is_constant_has_one_coefficient(void **state)
{
	(void)state;
	float v[N];
	for (int i = 0; i < N; i++)
		v[i] = -3;
	dct_forward(v, N);
	assert_true(v[0] == -3.0f * 64);
	for (int i = 1; i < N; i++)
		assert_true(v[i] == 0);
	dct_inverse(v, N);
	for (int i = 0; i < N; i++)
		assert_true(v[i] == -3);
}

static void a_shorter_chunk_stays_as_it_is(void **state)
{
	(void)state;
	float v[N], w[N];
	double d[N];
	make(v, 3);
	memcpy(w, v, sizeof w);
	for (int i = 0; i < N; i++)
		d[i] = (double)v[i];
	dct_forward(w, N - 1);
	dct_inverse(w, 1);
	dct_inverse_double(d, N - 1);
	assert_true(!memcmp(v, w, sizeof v));
	for (int i = 0; i < N; i++)
		assert_true(d[i] == (double)v[i]);
}

static void in_double_precision_it_is_the_same(void **state)
{
	(void)state;
	float v[N];
	double d[N];
	make(v, 4);
	for (int i = 0; i < N; i++)
		d[i] = (double)v[i];
	dct_inverse(v, N);
	dct_inverse_double(d, N);
	for (int i = 0; i < N; i++)
		assert_true(v[i] == (float)d[i]);
}

static void what_is_too_large_becomes_infinite_alone(void **state)
{
	(void)state;
	float v[N];
	for (int i = 0; i < N; i++)
		v[i] = FLT_MAX;
	dct_forward(v, N);
	assert_true(isinf(v[0]) && v[0] > 0);
	for (int i = 1; i < N; i++)
		assert_true(v[i] == 0);
	for (int i = 0; i < N; i++)
		v[i] = FLT_MAX / 64;
	dct_forward(v, N);
	assert_true(isfinite(v[0]));
}

/* FNV-1a. */
static uint64_t hash(uint64_t h, uint64_t bits, int bytes)
{
	for (int i = 0; i < bytes; i++)
		h = (h ^ (bits >> 8 * i & 0xff)) * 0x100000001b3u;
	return h;
}

/* The order of arithmetic is part of the format: these must never change.  A second program that
 * was written from FORMAT.md's description gives them, too. */
static void the_bits_are_the_same_everywhere(void **state)
{
	(void)state;
	uint64_t there = 0xcbf29ce484222325u, back = there;
	float v[N];
	double d[N];
	for (uint64_t seed = 0; seed < 10; seed++) {
		make(v, seed);
		for (int i = 0; i < N; i++)
			d[i] = (double)v[i];
		dct_forward(v, N);
		dct_inverse_double(d, N);
		for (int i = 0; i < N; i++) {
			uint32_t single;
			uint64_t wide;
			memcpy(&single, &v[i], sizeof single);
			memcpy(&wide, &d[i], sizeof wide);
			there = hash(there, single, 4);
			back = hash(back, wide, 8);
		}
	}
	if (there != 0x0c49e601f32afbf1u || back != 0x7ecef3aae8f49d78u)
		fail_msg("hashes are %016llx, %016llx", (unsigned long long)there,
			(unsigned long long)back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_the_formula),
		cmocka_unit_test(one_value_gives_a_basis),
		cmocka_unit_test(it_comes_back_and_norms_stay),
		cmocka_unit_test(what_is_constant_has_one_coefficient),
		cmocka_unit_test(a_shorter_chunk_stays_as_it_is),
		cmocka_unit_test(in_double_precision_it_is_the_same),
		cmocka_unit_test(what_is_too_large_becomes_infinite_alone),
		cmocka_unit_test(the_bits_are_the_same_everywhere),
	};
	return cmocka_run_group_tests(tests, fill_c, NULL);
}
