#include "tests/help_compress.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "compress/floats.h"

/* Bell-shaped, by additions only. */
static float bell(uint64_t seed, uint64_t i)
{
	double sum = 0;
	for (uint64_t j = 0; j < 6; j++)
		sum += rng_unit(seed, 10 + j, i) - 0.5;
	return (float)sum;
}

static float value(enum help_compress_kind kind, uint64_t seed, uint64_t i)
{
	float x = bell(seed, i);
	uint32_t bits = rng_u32(seed, 2, i);
	switch (kind) {
	case HELP_COMPRESS_plain: return x;
	case HELP_COMPRESS_heavy: return x * x * x * 1e-3f;
	case HELP_COMPRESS_zeros: return bits & 1 ? 0.0f : -0.0f;
	case HELP_COMPRESS_few: return bits % 1000 ? 0.0f : x;
	case HELP_COMPRESS_equal: return bits & 1 ? 0.25f : -0.25f;
	case HELP_COMPRESS_subnormal: return floats_from(bits & 0x80ffffffu);
	case HELP_COMPRESS_huge: return floats_from((bits & 0x80ffffffu) | 0x7e000000u);
	case HELP_COMPRESS_mixed:
	default: return floats_finite(floats_from(bits)) ? floats_from(bits) : x;
	}
}

float *help_compress_vector(enum help_compress_kind kind, size_t n, uint64_t seed)
{
	float *v = alloc_must_zero(n, sizeof *v);
	for (size_t i = 0; i < n; i++)
		v[i] = value(kind, seed, i);
	return v;
}

/* Every selection with every kind of values, then the places' corner cases. */
static const struct codec_params corners[] = {
	{SELECT_topk, VALUES_two, false, 4096, 256, 0, 0},
	{SELECT_topk, VALUES_two, false, 1, 1, 0, 0},
	{SELECT_topk, VALUES_two, false, 7, 3, 0, 0},
	{SELECT_topk, VALUES_mean2, false, 5, 5, 0, 0},
	{SELECT_topk, VALUES_ternary, false, 64, 1, 0, 0},
	{SELECT_topk, VALUES_int8, false, 100, 99, 0, 0},
	{SELECT_topk, VALUES_bf16, false, 65536, 65536, 0, 0},
	{SELECT_topk, VALUES_two, false, 65536, 1, 0, 0},
	{SELECT_threshold, VALUES_log4, false, 1000, 1000, 0.001f, 0},
	{SELECT_randk, VALUES_sign, false, 65536, 1000, 0, UINT64_MAX},
	{SELECT_topk, VALUES_sign, true, 4096, 64, 0, 0},
	{SELECT_all, VALUES_int8, true, 4096, 4096, 0, 0},
	{SELECT_randk, VALUES_mean4, true, 4096, 100, 0, 7},
	{SELECT_all, VALUES_two, false, 1, 1, 0, 0},
	{SELECT_all, VALUES_int4, false, 3, 3, 0, 0},
};

int help_compress_params(size_t i, struct codec_params *out)
{
	static const enum select selects[] = {
		SELECT_all, SELECT_topk, SELECT_randk, SELECT_threshold};
	size_t n_values = 0;
	while (values_row((uint32_t)n_values + 1))
		n_values++;
	if (i >= 4 * n_values) {
		i -= 4 * n_values;
		if (i >= sizeof corners / sizeof corners[0])
			return 0;
		*out = corners[i];
		return 1;
	}
	enum select select = selects[i / n_values];
	const struct select_row *row = select_row(select);
	*out = (struct codec_params){.select = select,
		.values = (enum values)(i % n_values + 1),
		.chunk = 256,
		.k = row->takes_k ? 24 : 256,
		.threshold = row->takes_threshold ? 1.5f : 0,
		.seed = row->takes_seed ? 12345 : 0};
	return 1;
}

void help_compress_told(const struct why *why, enum err code, const char *part)
{
	if (why->code != code || !strstr(why->text, part))
		print_error("wanted %s with \"%s\", got %s: %s\n", err_name(code), part,
			err_name(why->code), why->text);
	assert_int_equal(why->code, code);
	assert_non_null(strstr(why->text, part));
}
