/* Activations as codecs: every row by itself, nothing kept, bad shapes refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "compress/activation.h"
#include "tests/help_compress.h"

#define ROWS 9u
#define COLS 96u

/* Of each row what its neighbour must not spoil: magnitudes from 1e-12 to 1e12. */
static float *rows_of_all_sizes(void)
{
	float *v = help_compress_vector(HELP_COMPRESS_plain, (size_t)ROWS * COLS, 3);
	for (unsigned r = 0; r < ROWS; r++)
		for (unsigned c = 0; c < COLS; c++)
			v[r * COLS + c] *= (float)pow(1000, (double)r - 4);
	return v;
}

static void send(const struct codec_params *p, const float *v, float *back)
{
	struct planes planes;
	struct codec_vector d;
	struct why why;
	planes_init(&planes, codec_bound(p, (size_t)ROWS * COLS));
	assert_int_equal(codec_encode(p, v, (size_t)ROWS * COLS, NULL, &planes, &why), ERR_OK);
	assert_int_equal(codec_open(p, (size_t)ROWS * COLS, &planes.bytes, &d, &why), ERR_OK);
	assert_int_equal(codec_expand(&d, back), ERR_OK);
	codec_release(&d);
	planes_release(&planes);
}

static void each_row_has_its_own_scale(void **state)
{
	(void)state;
	/* Of the largest value of a row, at most. */
	static const double most[] = {[ACTIVATION_f32] = 0,
		[ACTIVATION_bf16] = 1.0 / 256,
		[ACTIVATION_int8] = 0.51 / 127,
		[ACTIVATION_int4] = 0.51 / 7,
		[ACTIVATION_topk] = 1};
	float *v = rows_of_all_sizes(), back[ROWS * COLS];
	for (unsigned kind = 0; kind < ACTIVATION_kinds; kind++) {
		struct codec_params p;
		assert_int_equal(
			activation_params((enum activation)kind, COLS, 8, &p, NULL), ERR_OK);
		send(&p, v, back);
		for (unsigned r = 0; r < ROWS; r++) {
			double largest = 0, off = 0;
			unsigned kept = 0;
			for (unsigned c = r * COLS; c < (r + 1) * COLS; c++) {
				largest = fmax(largest, fabs((double)v[c]));
				off = fmax(off, fabs((double)v[c] - (double)back[c]));
				kept += back[c] != 0;
			}
			assert_true(off <= most[kind] * largest);
			if (kind == ACTIVATION_topk)
				assert_int_equal(kept, COLS / 8);
		}
	}
	free(v);
}

static void a_ratio_is_a_share_of_each_row(void **state)
{
	(void)state;
	static const struct {
		uint32_t cols;
		double ratio;
		uint32_t k;
	} cases[] = {{768, 1, 768}, {768, 100, 8}, {768, 1000, 1}, {768, ACTIVATION_RATIO_MAX, 1},
		{1, 5, 1}, {10, 3, 4}, {65536, 2, 32768}};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct codec_params p;
		assert_int_equal(
			activation_params(ACTIVATION_topk, cases[i].cols, cases[i].ratio, &p, NULL),
			ERR_OK);
		assert_int_equal(p.k, cases[i].k);
		assert_int_equal(p.chunk, cases[i].cols);
	}
}

/* A stage that has diverged is told so instead of sending what nobody can read. */
static void values_that_are_not_finite_are_told(void **state)
{
	(void)state;
	float *v = rows_of_all_sizes();
	v[3 * COLS + 5] = NAN;
	for (unsigned kind = 0; kind < ACTIVATION_kinds; kind++) {
		struct codec_params p;
		struct planes planes;
		struct why why;
		assert_int_equal(
			activation_params((enum activation)kind, COLS, 8, &p, &why), ERR_OK);
		planes_init(&planes, codec_bound(&p, (size_t)ROWS * COLS));
		assert_int_equal(codec_encode(&p, v, (size_t)ROWS * COLS, NULL, &planes, &why),
			ERR_not_finite);
		help_compress_told(&why, ERR_not_finite, "value 293 of 864 is NaN");
		planes_release(&planes);
	}
	free(v);
}

static void bad_shapes_and_names_are_told(void **state)
{
	(void)state;
	struct codec_params p;
	struct why why;
	enum activation kind;
	assert_int_equal(activation_params(ACTIVATION_int8, 0, 1, &p, &why), ERR_range);
	assert_int_equal(activation_params(ACTIVATION_int8, 65537, 1, &p, &why), ERR_range);
	help_compress_told(&why, ERR_range, "from 1 to 65536 values, not 65537");
	assert_int_equal(activation_params(ACTIVATION_topk, 8, 0.5, &p, &why), ERR_range);
	assert_int_equal(activation_params(ACTIVATION_topk, 8, NAN, &p, &why), ERR_range);
	assert_int_equal(activation_params(ACTIVATION_topk, 8, INFINITY, &p, &why), ERR_range);
	assert_int_equal(activation_params(ACTIVATION_topk, 8, 65537, &p, &why), ERR_range);
	help_compress_told(&why, ERR_range, "must be from 1 to 65536, is 65537");
	assert_int_equal(activation_find("int3", &kind, &why), ERR_unsupported);
	help_compress_told(&why, ERR_unsupported, "knows: f32 bf16 int8 int4 topk");
	for (unsigned i = 0; i < ACTIVATION_kinds; i++) {
		assert_int_equal(
			activation_find(activation_name((enum activation)i), &kind, &why), ERR_OK);
		assert_int_equal(kind, i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_has_its_own_scale),
		cmocka_unit_test(a_ratio_is_a_share_of_each_row),
		cmocka_unit_test(values_that_are_not_finite_are_told),
		cmocka_unit_test(bad_shapes_and_names_are_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
