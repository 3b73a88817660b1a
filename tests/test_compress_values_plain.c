/*
 * What values are read as after encoding and decoding, against FORMAT.md's definition of each kind
 * done the plain way: no bits of floats, no tables, every border and every cut looked at.
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
#include "compress/floats.h"
#include "compress/values.h"
#include "tests/help_compress.h"

#define M_MOST 4096u

/* The nearest number of so many binary digits to x >= 0, ties to even, as a float; 0 where it would
 * be subnormal; at most the largest of which a multiple is finite. */
static float rounded(double x, int digits, float multiple)
{
	int exponent = 128;
	double most = ldexp(1 - ldexp(1, -digits), 128);
	for (; !isfinite((float)most * multiple); (void)frexp(most, &exponent))
		most -= ldexp(1, exponent - digits);
	float single = (float)fmin(x, most);
	(void)frexp((double)single, &exponent);
	double unit = ldexp(1, (exponent > -125 ? exponent : -125) - digits);
	double nearest = fmin(nearbyint((double)single / unit) * unit, most);
	return nearest < (double)FLT_MIN ? 0 : (float)nearest;
}

static float scale_of(double x, float multiple)
{
	return rounded(x, 9, multiple);
}

static double largest_of(const float *v, size_t m)
{
	double largest = 0;
	for (size_t i = 0; i < m; i++)
		largest = fmax(largest, fabs((double)v[i]));
	return largest;
}

/* ---- one definition each; the number is what tells kinds of a family apart */

static void plain_f32(const float *v, size_t m, double number, float *want)
{
	(void)number;
	memcpy(want, v, m * sizeof *v);
}

/* Subnormals too: halfs of 2^-133 and more. */
static void plain_bf16(const float *v, size_t m, double number, float *want)
{
	(void)number;
	for (size_t i = 0; i < m; i++) {
		double x = fabs((double)v[i]);
		float size = rounded(x, 8, 1);
		if (x < (double)FLT_MIN)
			size = (float)(nearbyint(x / 0x1p-133) * 0x1p-133);
		want[i] = copysignf(size, v[i]);
	}
}

static void plain_int(const float *v, size_t m, double steps, float *want)
{
	float scale = scale_of(largest_of(v, m) / steps, (float)steps);
	for (size_t i = 0; i < m; i++) {
		float q = scale > 0 ? fminf(fabsf(v[i] / scale), (float)steps) : 0;
		want[i] = copysignf(truncf(q + 0.5f) * scale, v[i]);
	}
}

static void plain_int2(const float *v, size_t m, double number, float *want)
{
	float scale = scale_of(largest_of(v, m) / number, (float)number);
	for (size_t i = 0; i < m; i++)
		want[i] = v[i] >= 2 * scale    ? 3 * scale
			  : v[i] >= 0          ? scale
			  : v[i] >= -2 * scale ? -scale
					       : -3 * scale;
}

static void plain_sign(const float *v, size_t m, double number, float *want)
{
	double sum = 0;
	for (size_t i = 0; i < m; i++)
		sum += fabs((double)v[i]);
	for (size_t i = 0; i < m; i++)
		want[i] = copysignf(scale_of(sum / (double)m, (float)number), v[i]);
}

/* Sixteenths of an octave, and of subnormals' range. */
static double bin_of(float v)
{
	int exponent;
	double x = fabs((double)v), part = frexp(x, &exponent);
	if (x < (double)FLT_MIN)
		return floor(x / (double)FLT_MIN * 16);
	return 16.0 * (exponent + 125) + floor(part * 32);
}

static double sum_of_bin(const float *v, size_t m, double bin, size_t *n)
{
	double sum = 0;
	for (size_t i = 0; i < m; i++)
		if (bin_of(v[i]) == bin) {
			sum += fabs((double)v[i]);
			++*n;
		}
	return sum;
}

static void plain_two(const float *v, size_t m, double number, float *want)
{
	(void)number;
	double first = INFINITY, last = 0, total = 0, below = 0, best = -1, cut = INFINITY;
	for (size_t i = 0; i < m; i++) {
		first = fmin(first, bin_of(v[i]));
		last = fmax(last, bin_of(v[i]));
	}
	size_t n = 0;
	for (double b = first; b <= last; b++)
		total += sum_of_bin(v, m, b, &n);
	double lower = total / (double)m, upper = lower;
	n = 0;
	for (double b = first; b < last; b++) {
		size_t before = n;
		below += sum_of_bin(v, m, b, &n);
		double low = below / (double)n, up = (total - below) / (double)(m - n);
		if (n == before || below * low + (total - below) * up <= best)
			continue;
		best = below * low + (total - below) * up;
		lower = low;
		upper = up;
		cut = b;
	}
	for (size_t i = 0; i < m; i++)
		want[i] = copysignf(rounded(bin_of(v[i]) > cut ? upper : lower, 4, 1), v[i]);
}

/* Magnitudes that are powers of a base below 1: the nearest by the borders, 0 below all of them. */
static void plain_e3m0(const float *v, size_t m, double number, float *want)
{
	float scale = scale_of(largest_of(v, m), (float)number);
	for (size_t i = 0; i < m; i++) {
		double size = 0;
		for (int e = 6; e >= 0 && scale > 0; e--)
			if (fabsf(v[i]) / scale >= (float)ldexp(e == 6 ? 0.5 : 0.75, -e))
				size = ldexp(1, -e);
		want[i] = copysignf((float)size * scale, v[i]);
	}
}

static void plain_log(const float *v, size_t m, double rho, float *want)
{
	float scale = scale_of(largest_of(v, m), 1);
	int steps = rho < 0.25 ? 127 : 7;
	for (size_t i = 0; i < m; i++) {
		float size = 0;
		for (int j = steps - 1; j >= 0 && scale > 0; j--)
			if (fabs((double)v[i]) / (double)scale >=
				(double)(float)exp(-rho * j) * exp(-rho / 2))
				size = (float)exp(-rho * j);
		want[i] = copysignf(size * scale, v[i]);
	}
}

static void plain_ternary(const float *v, size_t m, double number, float *want)
{
	double square = 0;
	for (size_t i = 0; i < m; i++)
		square += (double)v[i] * (double)v[i];
	float scale = scale_of(sqrt(square / (double)m), (float)number);
	for (size_t i = 0; i < m; i++)
		want[i] = fabsf(v[i]) >= scale / 2 ? copysignf(scale, v[i]) : 0;
}

/* The bins' means are looked at in test_compress_values. */
static const struct {
	enum values kind;
	void (*plain)(const float *v, size_t m, double number, float *want);
	double number;
} kinds[] = {{VALUES_f32, plain_f32, 0}, {VALUES_bf16, plain_bf16, 0},
	{VALUES_int8, plain_int, 127}, {VALUES_int4, plain_int, 7}, {VALUES_int2, plain_int2, 3},
	{VALUES_sign, plain_sign, 1}, {VALUES_two, plain_two, 0}, {VALUES_e3m0, plain_e3m0, 1},
	{VALUES_log8, plain_log, 0.125}, {VALUES_log4, plain_log, 0.5},
	{VALUES_ternary, plain_ternary, 1}};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static void compare(size_t kind, const float *v, size_t m)
{
	static float want[M_MOST], got[M_MOST];
	static uint8_t codes[4 * M_MOST], side[VALUES_SIDE_MAX];
	const struct values_row *row = values_row(kinds[kind].kind);
	struct why why;
	row->encode(v, m, codes, side);
	if (row->decode(codes, m, side, got, &why))
		fail_msg("%s of %zu: %s", row->name, m, why.text);
	kinds[kind].plain(v, m, kinds[kind].number, want);
	for (size_t i = 0; i < m; i++)
		if (got[i] != want[i])
			fail_msg("%s: value %zu of %zu, %a, is read as %a, not %a", row->name, i, m,
				(double)v[i], (double)got[i], (double)want[i]);
}

static void all_kinds_of_input_are_read_as_defined(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 2, 5, 16, 64, 333};
	for (size_t k = 0; k < N_KINDS; k++)
		for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
			for (int input = 0; input < HELP_COMPRESS_kinds; input++)
				for (uint64_t seed = 0; seed < 4; seed++) {
					float *v = help_compress_vector(
						(enum help_compress_kind)input, sizes[s], seed);
					compare(k, v, sizes[s]);
					free(v);
				}
}

/* The largest floats, where means, scales and their multiples could overflow. */
static void the_largest_floats_are_read_as_defined(void **state)
{
	(void)state;
	const float v[6] = {FLT_MAX, -FLT_MAX, FLT_MAX, FLT_MAX / 2, FLT_MIN, 0x1p-149f};
	for (size_t k = 0; k < N_KINDS; k++)
		for (size_t m = 1; m <= 6; m++)
			compare(k, v, m);
}

/* Every border with the float before and after it, beside a largest value that makes the scale of
 * some kind 1. */
static void borders_are_where_they_are_defined(void **state)
{
	(void)state;
	static const float tops[] = {1, 3, 7, 127};
	double near[512];
	size_t n = 0;
	for (int i = 0; i < 127; i++)
		near[n++] = i + 0.5;
	for (int j = 0; j < 127; j++)
		near[n++] = exp(-(j + 0.5) / 8);
	for (int j = 0; j < 10; j++) {
		near[n++] = exp(-(j + 0.5) / 2);
		near[n++] = ldexp(1.5, -j);
		near[n++] = ldexp(2, -j);
	}
	for (size_t t = 0; t < sizeof tops / sizeof tops[0]; t++) {
		static float v[3 * sizeof near / sizeof near[0] + 1];
		size_t m = 0;
		v[m++] = tops[t];
		for (size_t i = 0; i < n; i++) {
			float at = (float)near[i];
			if (at >= tops[t])
				continue;
			v[m++] = at;
			v[m++] = -nextafterf(at, 0);
			v[m++] = nextafterf(at, tops[t]);
		}
		for (size_t k = 0; k < N_KINDS; k++)
			compare(k, v, m);
	}
}

/* Halves of what scales (9 binary digits), bf16 (8) and the magnitudes of two (4) are rounded to;
 * cuts that are as good as the one before; values that are half of the root mean square. */
static void ties_go_where_they_are_defined(void **state)
{
	(void)state;
	static const float cuts[3] = {1, 2, -3}, halves[5] = {4, 1, -1, 1, -1};
	for (size_t k = 0; k < N_KINDS; k++) {
		for (int digits = 4; digits <= 9; digits++)
			for (int i = 1; i < 16; i += 2) {
				float v = (float)(1 + ldexp(i, -digits));
				compare(k, &v, 1);
			}
		compare(k, cuts, 3);
		compare(k, halves, 5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_of_input_are_read_as_defined),
		cmocka_unit_test(the_largest_floats_are_read_as_defined),
		cmocka_unit_test(borders_are_where_they_are_defined),
		cmocka_unit_test(ties_go_where_they_are_defined),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
