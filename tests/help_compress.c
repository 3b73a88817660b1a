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

int help_compress_params(size_t i, struct codec_params *out)
{
	static const struct codec_params sparse[] = {{0, 4096, 64}, {0, 4096, 256}, {0, 1, 1},
		{0, 7, 3}, {0, 5, 5}, {0, 64, 1}, {0, 100, 99}, {0, 65536, 65536}, {0, 65536, 1}};
	enum { N = sizeof sparse / sizeof sparse[0] };
	for (uint32_t number = 1; number < 100; number++) {
		const struct codec_row *row = codec_row(number);
		size_t here = !row ? 0 : row->sparse ? N : 1;
		if (i < here) {
			*out = row->sparse ? sparse[i] : (struct codec_params){0};
			out->codec = (enum codec)number;
			return 1;
		}
		i -= here;
	}
	return 0;
}

void help_compress_told(const struct why *why, enum err code, const char *part)
{
	if (why->code != code || !strstr(why->text, part))
		print_error("wanted %s with \"%s\", got %s: %s\n", err_name(code), part,
			err_name(why->code), why->text);
	assert_int_equal(why->code, code);
	assert_non_null(strstr(why->text, part));
}
