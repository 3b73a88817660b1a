/* Every kind of values: what it promises of what comes back, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "compress/codes.h"
#include "compress/floats.h"
#include "compress/values.h"
#include "tests/help_compress.h"

#define M_MOST 4096u

struct group {
	uint8_t codes[4 * M_MOST], side[VALUES_SIDE_MAX];
	float out[M_MOST];
};
static struct group g;
static struct why why;

static const struct values_row *row_of(enum values kind)
{
	return values_row(kind);
}

static enum err decode(const struct values_row *row, size_t m)
{
	return row->decode(g.codes, m, g.side, g.out, &why);
}

/* Encodes, decodes into g.out, checks what all kinds promise. */
static void code(const struct values_row *row, const float *v, size_t m)
{
	static struct group again;
	memset(&g, 0xa5, sizeof g);
	memset(&again, 0x5a, sizeof again);
	row->encode(v, m, g.codes, g.side);
	row->encode(v, m, again.codes, again.side);
	assert_memory_equal(g.codes, again.codes, m * values_width(row));
	assert_memory_equal(g.side, again.side, row->side);
	for (size_t i = 0; i < m && row->bits < 8; i++)
		assert_true((g.codes[i] & ~(row->sign ? CODES_SIGN : 0u)) < 1u << row->bits);
	if (decode(row, m))
		fail_msg("%s of %zu: %s", row->name, m, why.text);
	for (size_t i = 0; i < m; i++)
		assert_true(floats_finite(g.out[i]));
}

/* The square of the distance, over that of v. */
static double error(const float *v, size_t m)
{
	double off = 0, all = 0;
	for (size_t i = 0; i < m; i++) {
		off += ((double)v[i] - (double)g.out[i]) * ((double)v[i] - (double)g.out[i]);
		all += (double)v[i] * (double)v[i];
	}
	return off / all;
}

static double largest(const float *v, size_t m)
{
	double most = 0;
	for (size_t i = 0; i < m; i++)
		most = fmax(most, fabs((double)v[i]));
	return most;
}

/* ---- all kinds */

static void all_kinds_of_input_come_back_finite(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 2, 3, 64, 1000, M_MOST};
	for (uint32_t number = 1; values_row(number); number++)
		for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
			for (int kind = 0; kind < HELP_COMPRESS_kinds; kind++) {
				float *v = help_compress_vector(
					(enum help_compress_kind)kind, sizes[s], number);
				code(values_row(number), v, sizes[s]);
				free(v);
			}
}

static void zeros_stay_zeros(void **state)
{
	(void)state;
	float v[5] = {0.0f, -0.0f, 0.0f, 0.0f, -0.0f};
	for (uint32_t number = 1; values_row(number); number++) {
		code(values_row(number), v, 5);
		for (size_t i = 0; i < 5; i++)
			assert_true(g.out[i] == 0);
	}
}

/* Two halves of opposite sign are what every kind has codes for. */
static void equal_magnitudes_are_exact_up_to_their_scale(void **state)
{
	(void)state;
	float v[64];
	for (unsigned i = 0; i < 64; i++)
		v[i] = i % 3 ? 0.7f : -0.7f;
	for (uint32_t number = 1; values_row(number); number++) {
		const struct values_row *row = values_row(number);
		code(row, v, 64);
		for (unsigned i = 0; i < 64; i++)
			assert_true(fabs((double)g.out[i] - (double)v[i]) <= 0.7 / 16 ||
				    row == row_of(VALUES_mean2));
		assert_true(error(v, 64) < (row == row_of(VALUES_mean2) ? 1e-9 : 0.0041));
	}
}

/* ---- each kind's promise */

static void whole_numbers_of_a_scale_are_the_nearest(void **state)
{
	(void)state;
	static const struct {
		enum values kind;
		double step; /* of the largest */
	} kinds[] = {{VALUES_int8, 1.0 / 127}, {VALUES_int4, 1.0 / 7}, {VALUES_int2, 2.0 / 3}};
	for (unsigned k = 0; k < 3; k++)
		for (uint64_t seed = 0; seed < 50; seed++) {
			float *v = help_compress_vector(HELP_COMPRESS_plain, 256, seed);
			code(row_of(kinds[k].kind), v, 256);
			double most = largest(v, 256);
			for (unsigned i = 0; i < 256; i++)
				assert_true(fabs((double)v[i] - (double)g.out[i]) <=
					    most * (kinds[k].step / 2 + 1.0 / 512));
			free(v);
		}
}

static void bf16_is_the_upper_half(void **state)
{
	(void)state;
	static const struct {
		uint32_t in, out;
	} cases[] = {{0x3f800000u, 0x3f800000u}, {0x3f808000u, 0x3f800000u},
		{0x3f808001u, 0x3f810000u}, {0x3f818000u, 0x3f820000u}, {0x7f7fffffu, 0x7f7f0000u},
		{0xff7fffffu, 0xff7f0000u}, {0x00000001u, 0}, {0x80000000u, 0x80000000u}};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		float v = floats_from(cases[i].in);
		code(row_of(VALUES_bf16), &v, 1);
		assert_int_equal(floats_bits(g.out[0]), cases[i].out);
	}
}

/* SparseLoCo's Q2 and hivemind's 8 bits, as their authors' code has it, in double. */
static void bins_are_read_as_their_means(void **state)
{
	(void)state;
	static const enum values kinds[] = {VALUES_mean2, VALUES_mean4, VALUES_mean8};
	for (unsigned k = 0; k < 3; k++) {
		enum { M = 3000 };
		const struct values_row *row = row_of(kinds[k]);
		int bins = 1 << row->bits;
		float *v = help_compress_vector(HELP_COMPRESS_heavy, M, k + 1);
		double mean = 0, square = 0, sum[256] = {0}, count[256] = {0};
		for (unsigned i = 0; i < M; i++)
			mean += (double)v[i] / M;
		for (unsigned i = 0; i < M; i++)
			square += ((double)v[i] - mean) * ((double)v[i] - mean);
		double width = 6 * sqrt(square / (M - 1)) / bins;
		static int bin[M];
		for (unsigned i = 0; i < M; i++) {
			double b = round(((double)v[i] - mean) / width) + bins / 2;
			bin[i] = (int)fmin(fmax(b, 0), bins - 1);
			sum[bin[i]] += (double)v[i];
			count[bin[i]]++;
		}
		code(row, v, M);
		unsigned other = 0;
		for (unsigned i = 0; i < M; i++)
			other += fabs((double)g.out[i] - sum[bin[i]] / count[bin[i]]) >
				 1e-6 * (width + fabs((double)v[i]));
		assert_true(other <= 2); // a value on a border may go either way
		free(v);
	}
}

static void sign_has_the_mean_magnitude(void **state)
{
	(void)state;
	float v[4] = {1, -2, 3, -6};
	code(row_of(VALUES_sign), v, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_true(g.out[i] == (v[i] < 0 ? -3.0f : 3.0f));
}

/* The least squared error that two magnitudes can have: all cuts of the sorted ones. */
static double best_two(const float *v, unsigned m)
{
	double x[M_MOST], best = INFINITY;
	for (unsigned i = 0; i < m; i++) {
		unsigned j = i;
		for (; j > 0 && x[j - 1] > fabs((double)v[i]); j--)
			x[j] = x[j - 1];
		x[j] = fabs((double)v[i]);
	}
	for (unsigned cut = 1; cut <= m; cut++) {
		double sum[2] = {0, 0}, off = 0;
		for (unsigned i = 0; i < m; i++)
			sum[i >= cut] += x[i];
		for (unsigned i = 0; i < m; i++) {
			double at = i >= cut ? sum[1] / (m - cut) : sum[0] / cut;
			off += (x[i] - at) * (x[i] - at);
		}
		best = fmin(best, off);
	}
	return best;
}

/* The squared error of the cut in g.out, were its two magnitudes not rounded. */
static double unrounded_two(const float *v, unsigned m)
{
	double least = INFINITY, sum[2] = {0, 0}, n[2] = {0, 0}, off = 0;
	for (unsigned i = 0; i < m; i++)
		least = fmin(least, fabs((double)g.out[i]));
	for (unsigned i = 0; i < m; i++) {
		sum[fabs((double)g.out[i]) > least] += fabs((double)v[i]);
		n[fabs((double)g.out[i]) > least]++;
	}
	for (unsigned i = 0; i < m; i++) {
		bool upper = fabs((double)g.out[i]) > least;
		off += pow(fabs((double)v[i]) - sum[upper] / n[upper], 2);
	}
	return off;
}

/* What is kept of a heavy-tailed chunk, as top-k leaves it. */
static void kept_values(float *v, unsigned m, uint64_t seed)
{
	float *all = help_compress_vector(HELP_COMPRESS_heavy, 64u * m, seed);
	for (unsigned i = 0; i < m; i++) {
		size_t at = 0;
		for (size_t j = 1; j < 64u * m; j++)
			at = floats_magnitude(all[j]) > floats_magnitude(all[at]) ? j : at;
		v[i] = all[at];
		all[at] = 0;
	}
	free(all);
}

static void two_is_near_the_best_and_better_than_four_bins(void **state)
{
	(void)state;
	enum { CHUNKS = 40, M = 64 };
	static float v[CHUNKS * M];
	double ours = 0, cut = 0, best = 0, all = 0;
	for (unsigned c = 0; c < CHUNKS; c++) {
		kept_values(v + c * M, M, c);
		code(row_of(VALUES_two), v + c * M, M);
		double square = 0;
		for (unsigned i = 0; i < M; i++)
			square += (double)v[c * M + i] * (double)v[c * M + i];
		ours += error(v + c * M, M) * square;
		cut += unrounded_two(v + c * M, M);
		best += best_two(v + c * M, M);
		all += square;
	}
	code(row_of(VALUES_mean2), v, CHUNKS * M);
	double theirs = error(v, CHUNKS * M) * all;
	print_message("squared error of what is kept: two %.4f (%.4f before it is "
		      "rounded), the best two %.4f, mean2 %.4f\n",
		ours / all, cut / all, best / all, theirs / all);
	assert_true(cut < 1.02 * best);
	assert_true(ours < 1.04 * best); // what rounding to 3 bits of mantissa adds
	assert_true(ours < theirs);
}

static void powers_of_two_are_the_nearest(void **state)
{
	(void)state;
	float v[1000];
	for (unsigned i = 0; i < 1000; i++)
		v[i] = (i % 2 ? 1.0f : -1.0f) * (float)(i + 1) / 1000;
	code(row_of(VALUES_e3m0), v, 1000);
	for (unsigned i = 0; i < 1000; i++) {
		double best = 0, x = fabs((double)v[i]);
		for (int e = 0; e <= 6; e++)
			if (fabs(ldexp(1, -e) - x) < fabs(best - x))
				best = ldexp(1, -e);
		assert_true(fabs(fabs((double)g.out[i]) - x) <= fabs(best - x) + 1e-6);
		assert_true(g.out[i] == 0 || (g.out[i] < 0) == (v[i] < 0));
	}
}

/* exp(rho / 2) - 1 for rho = 1/8, and 1/2: 0.06449, 0.28403. */
static void logarithmic_steps_bound_the_relative_error(void **state)
{
	(void)state;
	static const struct {
		enum values kind;
		double bound, range;
	} kinds[] = {{VALUES_log8, 0.06449, 126.0 / 8}, {VALUES_log4, 0.28403, 3}};
	for (unsigned k = 0; k < 2; k++) {
		enum { M = 4000 };
		float v[M];
		for (unsigned i = 0; i < M; i++)
			v[i] = (i % 3 ? 0.3f : -0.3f) * (float)exp(-kinds[k].range * i / (M - 1));
		code(row_of(kinds[k].kind), v, M);
		for (unsigned i = 0; i < M; i++) {
			double off = fabs((double)g.out[i] / (double)v[i] - 1);
			assert_true(off <= kinds[k].bound + 1e-5);
		}
		v[1] = v[0] * (float)exp(-kinds[k].range - 1);
		code(row_of(kinds[k].kind), v, 2);
		assert_true(g.out[1] == 0);
	}
}

static void ternary_is_the_nearest_of_three(void **state)
{
	(void)state;
	float v[6] = {3, -3, 1, -1, 0.25f, 0}; // root mean square 1.8...
	code(row_of(VALUES_ternary), v, 6);
	double rms = sqrt((9 + 9 + 1 + 1 + 0.0625) / 6);
	static const int want[6] = {1, -1, 1, -1, 0, 0};
	for (unsigned i = 0; i < 6; i++)
		assert_true(fabs((double)g.out[i] - want[i] * rms) < rms / 256);
}

/* ---- refusals */

static void refused(const struct values_row *row, size_t m, enum err err, const char *part)
{
	assert_int_equal(decode(row, m), err);
	help_compress_told(&why, err, part);
}

static void scales_out_of_range_are_refused(void **state)
{
	(void)state;
	static const enum values kinds[] = {VALUES_int8, VALUES_int4, VALUES_int2, VALUES_sign,
		VALUES_e3m0, VALUES_log8, VALUES_log4, VALUES_ternary};
	float *v = help_compress_vector(HELP_COMPRESS_plain, 16, 1);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		const struct values_row *row = row_of(kinds[i]);
		code(row, v, 16);
		values_put_u16(g.side, 0xff80); // a NaN
		refused(row, 16, ERR_not_finite, "a scale is not finite");
		values_put_u16(g.side, 0xff00); // infinite
		refused(row, 16, ERR_not_finite, "a scale is not finite");
		values_put_u16(g.side, 0x0001); // subnormal
		refused(row, 16, ERR_syntax, "out of its range");
		values_put_u16(g.side, 0); // and codes that are not those of zeros
		refused(row, 16, ERR_syntax,
			kinds[i] == VALUES_sign ? "has signs" : "its scale says");
		if (kinds[i] == VALUES_sign)
			continue;
		memset(g.codes,
			kinds[i] == VALUES_int8   ? 127
			: kinds[i] == VALUES_int4 ? 7
						  : 0,
			16);
		if (kinds[i] == VALUES_int2)
			memset(g.codes, 1, 16);
		values_put_u16(g.side, 0x7f00); // a scale that no code makes full use of
		refused(row, 16, ERR_syntax, "its scale says");
	}
	values_put_u16(g.side, 0xf803);
	memset(g.codes, 254, 16);
	refused(row_of(VALUES_int8), 16, ERR_syntax,
		"out of its range"); // 127 times it is infinite
	free(v);
}

static void codes_that_are_none_are_refused(void **state)
{
	(void)state;
	float *v = help_compress_vector(HELP_COMPRESS_plain, 16, 1);
	code(row_of(VALUES_int8), v, 16);
	g.codes[3] = 255;
	refused(row_of(VALUES_int8), 16, ERR_syntax, "is 128");
	code(row_of(VALUES_int4), v, 16);
	g.codes[3] = 15;
	refused(row_of(VALUES_int4), 16, ERR_syntax, "is 8");
	code(row_of(VALUES_ternary), v, 16);
	g.codes[3] = 3;
	refused(row_of(VALUES_ternary), 16, ERR_syntax, "its scale says");
	code(row_of(VALUES_e3m0), v, 16);
	g.codes[3] = 8; // minus zero
	refused(row_of(VALUES_e3m0), 16, ERR_syntax, "its scale says");
	code(row_of(VALUES_log4), v, 16);
	g.codes[3] = 8;
	refused(row_of(VALUES_log4), 16, ERR_syntax, "its scale says");
	code(row_of(VALUES_mean4), v, 16);
	g.side[4 + 3] = 0x7f;
	g.side[4 + 2] = 0x80;
	refused(row_of(VALUES_mean4), 16, ERR_not_finite, "the mean of a bin");
	code(row_of(VALUES_f32), v, 16);
	g.codes[7] = 0xff;
	g.codes[6] = 0x80;
	refused(row_of(VALUES_f32), 16, ERR_not_finite, "infinite or NaN");
	free(v);
}

static void magnitudes_that_are_not_used_are_refused(void **state)
{
	(void)state;
	const struct values_row *row = row_of(VALUES_two);
	float v[4] = {1, -1, 4, 4};
	code(row, v, 4);
	assert_true(g.out[1] == -1 && g.out[2] == 4);
	g.codes[0] |= 1;
	g.codes[1] |= 1;
	refused(row, 4, ERR_syntax, "not those it uses");
	memset(g.codes, 0, 4);
	refused(row, 4, ERR_syntax, "not those it uses");
	g.side[2] = g.side[3] = 0;
	assert_int_equal(decode(row, 4), ERR_OK);
	g.codes[2] = 1;
	refused(row, 4, ERR_syntax, "not those it uses");
	values_put_u16(g.side, 0x7f8); // infinite
	refused(row, 4, ERR_syntax, "which are none");
	values_put_u16(g.side, 0);
	memset(g.codes, 0, 4);
	g.codes[1] = CODES_SIGN;
	refused(row, 4, ERR_syntax, "a zero has a sign");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_of_input_come_back_finite),
		cmocka_unit_test(zeros_stay_zeros),
		cmocka_unit_test(equal_magnitudes_are_exact_up_to_their_scale),
		cmocka_unit_test(whole_numbers_of_a_scale_are_the_nearest),
		cmocka_unit_test(bf16_is_the_upper_half),
		cmocka_unit_test(bins_are_read_as_their_means),
		cmocka_unit_test(sign_has_the_mean_magnitude),
		cmocka_unit_test(two_is_near_the_best_and_better_than_four_bins),
		cmocka_unit_test(powers_of_two_are_the_nearest),
		cmocka_unit_test(logarithmic_steps_bound_the_relative_error),
		cmocka_unit_test(ternary_is_the_nearest_of_three),
		cmocka_unit_test(scales_out_of_range_are_refused),
		cmocka_unit_test(codes_that_are_none_are_refused),
		cmocka_unit_test(magnitudes_that_are_not_used_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
