/* 16-bit floats: every one of them survives the way to float32 and back, and rounding is to the
 * nearest, as a search among all of them says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/rng.h"
#include "model/half.h"

struct kind {
	float (*from)(uint16_t h);
	uint16_t (*to)(float f);
	uint16_t infinity;
};

static const struct kind kinds[] = {
	{half_from_f16, half_to_f16, 0x7c00}, {half_from_bf16, half_to_bf16, 0x7f80}};

static void all_come_back(void **state)
{
	(void)state;
	for (size_t k = 0; k < 2; k++)
		for (uint32_t h = 0; h < 65536; h++)
			assert_int_equal(kinds[k].to(kinds[k].from((uint16_t)h)), h);
}

static float float_of(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* The nearest by bisection: positive ones are in the order of their bits; beyond the largest comes
 * what would be the next power of two, as infinity's stand-in. */
static uint16_t nearest(const struct kind *k, double v)
{
	uint16_t low = 0, high = k->infinity;
	double limit = k->infinity == 0x7c00 ? 0x1p16 : 0x1p128;
	while (high - low > 1) {
		uint16_t middle = (uint16_t)((low + high) / 2);
		if ((double)k->from(middle) <= v)
			low = middle;
		else
			high = middle;
	}
	double below = v - (double)k->from(low),
	       above = (high == k->infinity ? limit : (double)k->from(high)) - v;
	if (below < above || (!(above < below) && low % 2 == 0))
		return low;
	return high;
}

static void check(float f)
{
	for (size_t k = 0; k < 2; k++) {
		uint16_t must = nearest(&kinds[k], (double)fabsf(f));
		if (signbit(f))
			must |= 0x8000;
		if (kinds[k].to(f) != must)
			fail_msg("%a gives %04x, not %04x", (double)f, kinds[k].to(f), must);
	}
}

static void rounding_is_to_the_nearest_even(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 200000; i++) {
		uint32_t bits = rng_u32(7, 1, i);
		if ((bits & 0x7f800000) != 0x7f800000)
			check(float_of(bits));
	}
	/* halves between two neighbours, and one bit to each side of them */
	for (uint32_t h = 0; h < 0x7c00; h++) {
		float middle = (half_from_f16((uint16_t)h) + half_from_f16((uint16_t)(h + 1))) / 2;
		uint32_t bits;
		memcpy(&bits, &middle, sizeof bits);
		if (h + 1 < 0x7c00) {
			check(middle);
			check(float_of(bits + 1));
			check(float_of(bits - 1));
		}
	}
	assert_int_equal(half_to_f16(65519.996f), 0x7bff);
	assert_int_equal(half_to_f16(65520), 0x7c00);
	assert_int_equal(half_to_f16(-1e30f), 0xfc00);
	assert_int_equal(half_to_f16(0x1p-25f), 0);
	assert_int_equal(half_to_f16(0x1.000002p-25f), 1);
	assert_int_equal(half_to_bf16(0x1.01p0f), 0x3f80);
	assert_int_equal(half_to_bf16(0x1.03p0f), 0x3f82);
	assert_int_equal(half_to_bf16(3.4e38f), 0x7f80);
}

static void infinities_and_nans_stay_what_they_are(void **state)
{
	(void)state;
	for (size_t k = 0; k < 2; k++) {
		assert_int_equal(kinds[k].to(INFINITY), kinds[k].infinity);
		assert_int_equal(kinds[k].to(-INFINITY), kinds[k].infinity | 0x8000);
		assert_true(isnan(kinds[k].from(kinds[k].to(NAN))));
		assert_true(isnan(kinds[k].from(kinds[k].to(float_of(0x7f800001)))));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_come_back),
		cmocka_unit_test(rounding_is_to_the_nearest_even),
		cmocka_unit_test(infinities_and_nans_stay_what_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
