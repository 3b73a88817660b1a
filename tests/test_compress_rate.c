/* What a contribution costs on the way, and which one is picked for a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compress/frame.h"
#include "compress/rate.h"
#include "tests/help_compress.h"

static void near(double is, double wanted, double within)
{
	if (fabs(is - wanted) > within)
		fail_msg("%g is not %g", is, wanted);
}

static struct codec_params topk(uint32_t k, uint32_t chunk, enum values values)
{
	return (struct codec_params){
		.select = SELECT_topk, .values = values, .chunk = chunk, .k = k};
}

/* 100 M parameters at 64 of 4096 in two bits, of which 0.154 x 100 M = 15.4 Mbit go up. */
static struct rate_ask ask_of(double up, double down, uint32_t peers)
{
	return (struct rate_ask){.most = topk(64, 4096, VALUES_two),
		.n = 100000000,
		.up = up,
		.down = down,
		.peers = peers,
		.round_s = 60,
		.share = RATE_SHARE};
}

static uint32_t pick(const struct rate_ask *ask, const char *sentence)
{
	char why[RATE_TEXT];
	struct rate_rung rung = rate_pick(ask, why);
	assert_int_equal(rung.values, ask->most.values);
	if (sentence)
		assert_string_equal(why, sentence);
	return rung.k;
}

/* Places alone, in bits per parameter, beside 2 bits a value; one scale is a whole vector's. */
static void test_bits(void **state)
{
	(void)state;
	static const struct {
		uint32_t k;
		double bits;
	} known[] = {{8, .0236}, {16, .0439}, {32, .0806}, {64, .146}, {96, .206}, {128, .262}};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		struct codec_params p = topk(known[i].k, 4096, VALUES_mean2);
		near(rate_bits(&p), known[i].bits, .0006);
	}
	for (uint32_t k = 1; k <= 65536; k = k * 3 + 1) {
		struct codec_params p = topk(k, 65536, VALUES_mean2);
		double places = (lgamma(65537) - lgamma(k + 1) - lgamma(65537 - k)) / log(2);
		near(65536 * rate_bits(&p) - 2 * k, places, .1);
	}
	struct codec_params p = topk(64, 4096, VALUES_two);
	near(rate_bits(&p), .146 + 32. / 4096, .0006); /* and two levels a chunk */
	p.select = SELECT_randk;
	near(rate_bits(&p), (2 * 64 + 32) / 4096., 1e-9);
	p = (struct codec_params){SELECT_all, VALUES_f32, .chunk = 4096, .k = 4096};
	near(rate_bits(&p), 32, 0);
	p = (struct codec_params){SELECT_all, VALUES_int8, .chunk = 4096, .k = 4096};
	near(rate_bits(&p), 8 + 16. / 4096, 1e-9);
}

/* The estimate is what a frame really has, where nobody knows the values. */
static void test_bits_of_frames(void **state)
{
	(void)state;
	const size_t n = 1 << 20;
	const struct codec_params all = {SELECT_all, VALUES_int8, .chunk = 4096, .k = 4096};
	const struct codec_params codecs[] = {topk(256, 4096, VALUES_two),
		topk(64, 4096, VALUES_two), topk(8, 4096, VALUES_two), topk(64, 4096, VALUES_int8),
		all};
	float *v = help_compress_vector(HELP_COMPRESS_plain, n, 5);
	for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
		struct planes planes;
		struct buf frame;
		struct why why;
		planes_init(&planes, codec_bound(&codecs[i], n));
		assert_int_equal(codec_encode(&codecs[i], v, n, NULL, &planes, &why), ERR_OK);
		buf_init(&frame, frame_bound(planes.bytes.len));
		assert_int_equal(frame_pack(&planes, &frame), ERR_OK);
		double ratio = 8 * (double)frame.len / (double)n / rate_bits(&codecs[i]);
		if (ratio < .8 || ratio > 1.1)
			fail_msg("codec %zu: %g of what was estimated", i, ratio);
		planes_release(&planes);
		buf_release(&frame);
	}
	free(v);
}

static void check_ladder(struct codec_params most, bool any_values, const char *is)
{
	const struct rate_ask ask = {.most = most, .any_values = any_values};
	struct rate_rung ladder[RATE_RUNGS];
	char text[RATE_RUNGS * 20] = "";
	double last = INFINITY;
	size_t n = rate_ladder(&ask, ladder);
	assert_true(n >= 1 && n <= RATE_RUNGS);
	for (size_t i = 0; i < n; i++) {
		double bits = rate_cost(&ask, &ladder[i]).bits;
		assert_true(bits < last);
		last = bits;
		snprintf(text + strlen(text), sizeof text - strlen(text), " %u %s", ladder[i].k,
			values_row(ladder[i].values)->name);
	}
	assert_string_equal(text, is);
}

static void test_ladder(void **state)
{
	(void)state;
	check_ladder(
		topk(256, 4096, VALUES_two), false, " 256 two 128 two 64 two 32 two 16 two 8 two");
	check_ladder(topk(50, 4096, VALUES_f32), false, " 50 f32 25 f32 12 f32");
	check_ladder(
		topk(32, 4096, VALUES_f32), true, " 32 f32 32 int8 32 int4 32 two 16 two 8 two");
	check_ladder(topk(16, 4096, VALUES_two), true, " 16 two 8 two");
	check_ladder(topk(4, 4096, VALUES_two), true, " 4 two 4 int4");
	check_ladder(topk(2, 64, VALUES_mean4), true, " 2 mean4 1 mean4");
	struct codec_params all = {SELECT_all, VALUES_f32, .chunk = 4096, .k = 4096};
	check_ladder(all, false, " 4096 f32");
	check_ladder(all, true, " 4096 f32 4096 int8 4096 int4 4096 two");
}

static void test_longest_ladder(void **state)
{
	(void)state;
	struct rate_rung ladder[RATE_RUNGS];
	struct rate_ask ask = {.most = topk(65536, 65536, VALUES_f32), .any_values = true};
	size_t n = rate_ladder(&ask, ladder);
	assert_int_equal(n, 13); /* 65536 to 128, and three kinds more */
	assert_int_equal(ladder[n - 1].k, 128);
	ask.most = topk(400, 400, VALUES_f32);
	assert_int_equal(ladder[rate_ladder(&ask, ladder) - 1].k, 1);
}

/* One way each, the share of the round, and the peers whose contributions come down. */
static void test_pick(void **state)
{
	(void)state;
	struct rate_ask ask = ask_of(0, 0, 16);
	assert_int_equal(pick(&ask, "k 64 of 4096, two, as the spec says: the link's speed is "
				    "not known yet"),
		64);
	ask = ask_of(20e6, 0, 16);
	assert_int_equal(
		pick(&ask, "k 64 of 4096, two, as the spec says: 0.77 s of a 60 s round at "
			   "20 Mbit/s up"),
		64);
	ask = ask_of(2.1e6, 0, 16);
	assert_int_equal(pick(&ask, "k 32 of 4096, two: 64 would take 7.3 s of a 60 s round at 2.1 "
				    "Mbit/s up; 32 takes 4.2 s"),
		32);
	ask = ask_of(20e6, 20e6, 16);
	assert_int_equal(pick(&ask, "k 16 of 4096, two: 32 would take 7.1 s of a 60 s round at 20 "
				    "Mbit/s down; 16 takes 4.1 s"),
		16);
	ask = ask_of(.02e6, 20e6, 1);
	assert_int_equal(pick(&ask, "k 8 of 4096, two, the least there is: it takes 157 s of a "
				    "60 s round at 20 kbit/s up"),
		8);
	ask = ask_of(2.1e6, 0, 16);
	ask.round_s = 120;
	assert_int_equal(pick(&ask, NULL), 64);
	ask.share = .05;
	assert_int_equal(pick(&ask, NULL), 32);
	ask.ratio = .5;
	assert_int_equal(pick(&ask, NULL), 64);
	ask.ratio = 2;
	assert_int_equal(pick(&ask, NULL), 16);
}

static void test_more_is_never_less(void **state)
{
	(void)state;
	uint32_t last = 0;
	for (double up = 1e3; up < 1e9; up *= 1.1) {
		struct rate_ask ask = ask_of(up, up, 4);
		uint32_t k = pick(&ask, NULL);
		assert_true(k >= last);
		last = k;
	}
	assert_int_equal(last, 64);
}

static void test_values_go_first(void **state)
{
	(void)state;
	char why[RATE_TEXT];
	struct rate_ask ask = ask_of(4e6, 0, 1);
	ask.most.values = VALUES_f32;
	ask.any_values = true;
	struct rate_rung rung = rate_pick(&ask, why);
	assert_int_equal(rung.k, 64);
	assert_int_equal(rung.values, VALUES_int4);
	assert_string_equal(why, "k 64 of 4096, int4: int8 would take 6.1 s of a 60 s round at 4 "
				 "Mbit/s up; int4 takes 4.5 s");
	ask.most = (struct codec_params){SELECT_all, VALUES_f32, .chunk = 4096, .k = 4096};
	rung = rate_pick(&ask, why);
	assert_int_equal(rung.k, 4096);
	assert_int_equal(rung.values, VALUES_two);
	assert_string_equal(why,
		"all values, two, the least there is: it takes 50 s of a 60 s round "
		"at 4 Mbit/s up");
}

/* 60 GB for the 43,200 rounds of 30 days leave 1.39 MB a round, both ways. */
static void test_quota(void **state)
{
	(void)state;
	struct rate_ask ask = ask_of(0, 0, 1);
	ask.quota_s = 30 * 86400.;
	ask.quota_bytes = 60e9;
	assert_int_equal(pick(&ask, "k 16 of 4096, two: 32 would take 2.21 MB a round, for which "
				    "the quota leaves 1.39 MB; 16 takes 1.29 MB"),
		16);
	ask.quota_s /= 30;
	assert_int_equal(pick(&ask, "k 64 of 4096, two, as the spec says: 3.85 MB a round, for "
				    "which the quota leaves 41.7 MB"),
		64);
	ask.quota_bytes = 0;
	assert_int_equal(
		pick(&ask, "k 8 of 4096, two, the least there is: the quota is used up"), 8);
	ask.up = 20e6; /* the faster the link, the sooner it is gone: no help */
	assert_int_equal(pick(&ask, NULL), 8);
}

/* A rate that swings by a tenth around a border is answered once. */
static void test_no_flapping(void **state)
{
	(void)state;
	struct rate_ask ask = ask_of(0, 0, 1);
	double border = rate_cost(&ask, &(struct rate_rung){64, VALUES_two}).bits * 1e8 / 6;
	unsigned changes = 0;
	for (unsigned i = 0; i < 100; i++) {
		ask.up = border * (.9 + .2 * (i * 37 % 101) / 100);
		char why[RATE_TEXT];
		struct rate_rung rung = rate_pick(&ask, why);
		changes += i > 0 && rung.k != ask.before.k;
		ask.before = rung;
	}
	assert_true(changes <= 1);
	assert_int_equal(ask.before.k, 32);
	ask.up = border * 1.2;
	assert_int_equal(pick(&ask, "k 32 of 4096, two: 64 would take 5 s of a 60 s round at 3.08 "
				    "Mbit/s up, little less than is allowed"),
		32);
	ask.up = border * 1.4;
	assert_int_equal(pick(&ask, NULL), 64);
	ask.before.k = 7; /* of another run */
	ask.up = border * 1.01;
	assert_int_equal(pick(&ask, NULL), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_bits_of_frames),
		cmocka_unit_test(test_ladder),
		cmocka_unit_test(test_longest_ladder),
		cmocka_unit_test(test_pick),
		cmocka_unit_test(test_more_is_never_less),
		cmocka_unit_test(test_values_go_first),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_no_flapping),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
