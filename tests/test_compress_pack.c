/* Bits, Golomb's code, the choice of values and magnitudes, zstd frames, and how close all of it
 * comes to the entropy of what is sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "compress/codec.h"
#include "compress/floats.h"
#include "compress/frame.h"
#include "compress/golomb.h"
#include "compress/topk.h"
#include "tests/help_compress.h"

/* ---- bits */

static void bits_come_back(void **state)
{
	(void)state;
	struct buf b;
	struct bits_out out;
	buf_init(&b, 1 << 20);
	bits_out_init(&out, &b);
	for (uint64_t i = 0; i < 3000; i++) {
		unsigned n = (unsigned)rng_below(1, 1, i, 33);
		bits_put(&out, rng_u32(1, 2, i), n);
		bits_put_ones(&out, (uint32_t)rng_below(1, 3, i, i % 100 ? 9 : 200));
	}
	bits_out_end(&out);
	struct bits_in in;
	bits_in_init(&in, b.data, b.len);
	for (uint64_t i = 0; i < 3000; i++) {
		unsigned n = (unsigned)rng_below(1, 1, i, 33);
		uint64_t mask = ((uint64_t)1 << n) - 1;
		assert_int_equal(bits_get(&in, n), rng_u32(1, 2, i) & mask);
		assert_int_equal(bits_get_ones(&in, 200), rng_below(1, 3, i, i % 100 ? 9 : 200));
	}
	assert_true(bits_in_done(&in));
	buf_release(&b);
}

static void a_bit_reader_stays_in_its_bytes(void **state)
{
	(void)state;
	static const uint8_t ones[16] = {
		255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
	struct bits_in in;
	bits_in_init(&in, ones, 16);
	bits_get_ones(&in, 1000); // no zero ends them
	assert_true(in.failed);
	bits_in_init(&in, ones, 16);
	bits_get_ones(&in, 5);
	assert_true(in.failed);
	bits_in_init(&in, ones, 0);
	assert_true(bits_in_done(&in));
	assert_int_equal(bits_get(&in, 0), 0);
	assert_true(bits_in_done(&in));
	bits_get(&in, 1);
	assert_true(in.failed);
	bits_in_init(&in, ones, 1);
	assert_int_equal(bits_get(&in, 3), 7);
	assert_false(in.failed);
	assert_false(bits_in_done(&in)); // ones where only zeros may fill up
	bits_in_init(&in, ones, 2);
	assert_int_equal(bits_get(&in, 8), 255);
	assert_false(bits_in_done(&in)); // a whole byte is left
}

/* ---- gaps */

/* m of len places in one of several patterns, ascending. */
static void places(uint32_t len, uint32_t m, unsigned pattern, uint32_t *out)
{
	for (uint32_t i = 0, at = 0; at < m; i++) {
		bool take = pattern == 0   ? true                           /* all at the start */
			    : pattern == 1 ? i >= len - m                   /* all at the end */
			    : pattern == 2 ? i > 0 && i + m - at >= len - 1 /* one at the end */
					   : rng_below(len, m, i, len - i) < m - at;
		if (take || len - i == m - at)
			out[at++] = i;
	}
}

static size_t gap_bits(uint32_t len, uint32_t m, const uint32_t *place)
{
	struct buf b;
	struct bits_out out;
	struct golomb g = golomb_for(len, m);
	buf_init(&b, 1 << 20);
	bits_out_init(&out, &b);
	for (uint32_t i = 0; i < m; i++)
		golomb_put(&g, &out, place[i] - (i ? place[i - 1] + 1 : 0));
	size_t bits = b.len * 8 + out.held;
	bits_out_end(&out);
	struct bits_in in;
	bits_in_init(&in, b.data, b.len);
	uint32_t next = 0;
	for (uint32_t i = 0; i < m; i++) {
		next += golomb_get(&g, &in, len - 1 - next);
		assert_int_equal(next++, place[i]);
	}
	assert_true(bits_in_done(&in));
	buf_release(&b);
	return bits;
}

static void gaps_stay_below_their_bound(void **state)
{
	(void)state;
	static const uint32_t lens[] = {1, 2, 3, 5, 8, 31, 64, 100, 1000, 4096, 65536};
	uint32_t *place = alloc_must(65536 * sizeof *place);
	for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
		uint32_t step = lens[i] < 101 ? 1 : lens[i] / 61;
		size_t before = 0;
		for (uint32_t m = 1; m <= lens[i]; m += step) {
			for (unsigned pattern = 0; pattern < 4; pattern++) {
				places(lens[i], m, pattern, place);
				assert_true(
					gap_bits(lens[i], m, place) <= golomb_bound(lens[i], m));
				// Fewer places than were allowed may not need more.
				assert_true(gap_bits(lens[i], m, place) <=
					    golomb_bound(lens[i],
						    lens[i] < m + step ? lens[i] : m + step));
			}
			assert_true(golomb_bound(lens[i], m) * 5 / 4 >= before);
			before = golomb_bound(lens[i], m);
		}
	}
	free(place);
}

/* ---- choosing */

static void among_equals_the_lower_place_wins(void **state)
{
	(void)state;
	static const float v[] = {1, -2, 2, 0, -2, 1, 2, 3};
	uint16_t place[8];
	assert_int_equal(topk_select(v, 8, 3, place), 3);
	assert_int_equal(place[0], 1);
	assert_int_equal(place[1], 2);
	assert_int_equal(place[2], 7);
	assert_int_equal(topk_select(v, 8, 8, place), 7); // zero never counts
	assert_int_equal(place[2], 2);
	assert_int_equal(place[3], 4);
	static const float none[] = {0.0f, -0.0f, 0x1p-127f, -0x1p-149f};
	assert_int_equal(topk_select(none, 4, 4, place), 0);
}

/* Sum of squared distances when the sorted magnitudes are cut before at. */
static double distance(const uint32_t *sorted, uint32_t m, uint32_t at)
{
	double sum[2] = {0, 0}, off = 0;
	for (uint32_t i = 0; i < m; i++)
		sum[i >= at] += (double)floats_from(sorted[i]);
	for (uint32_t i = 0; i < m; i++) {
		double mean = i >= at ? sum[1] / (m - at) : sum[0] / at;
		off += ((double)floats_from(sorted[i]) - mean) *
		       ((double)floats_from(sorted[i]) - mean);
	}
	return off;
}

static void two_magnitudes_are_the_best_two(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		uint32_t m = (uint32_t)rng_below(seed, 9, 0, 40) + 2, keys[42], at = 0;
		for (uint32_t i = 0; i < m; i++)
			keys[i] = floats_bits((float)rng_below(seed, 8, i, 50) + 1);
		struct topk_levels got = topk_levels(keys, m);
		if (keys[0] == keys[m - 1]) {
			assert_true(got.lower == got.upper);
			continue;
		}
		while (keys[at] < got.upper_from)
			at++;
		double ours = distance(keys, m, at);
		for (uint32_t i = 1; i < m; i++)
			assert_true(ours <= distance(keys, m, i) * (1 + 1e-12));
	}
}

/* ---- frames */

static void a_frame_gives_its_planes_back(void **state)
{
	(void)state;
	struct codec_params p;
	for (size_t i = 0; help_compress_params(i, &p); i++) {
		float *v = help_compress_vector(HELP_COMPRESS_heavy, 30000, i);
		struct planes planes;
		struct buf frame, back;
		struct why why = {0};
		planes_init(&planes, codec_bound(&p, 30000));
		assert_int_equal(codec_encode(&p, v, 30000, &planes, &why), ERR_OK);
		buf_init(&frame, frame_bound(planes.bytes.len));
		assert_int_equal(frame_pack(&planes, &frame), ERR_OK);
		buf_init(&back, planes.bytes.len);
		assert_int_equal(frame_unpack(frame.data, frame.len, &back, &why), ERR_OK);
		assert_int_equal(back.len, planes.bytes.len);
		assert_memory_equal(back.data, planes.bytes.data, back.len);
		for (size_t cut = 0; cut < frame.len; cut += cut < 40 ? 1 : 97)
			assert_int_not_equal(frame_unpack(frame.data, cut, &back, &why), ERR_OK);
		back.max = planes.bytes.len - 1;
		assert_int_equal(frame_unpack(frame.data, frame.len, &back, &why), ERR_toobig);
		buf_release(&back);
		buf_release(&frame);
		planes_release(&planes);
		free(v);
	}
}

static void frames_that_lie_are_refused(void **state)
{
	(void)state;
	struct buf back;
	struct why why = {0};
	uint8_t frame[1000];
	static const uint8_t zeros[5000];
	buf_init(&back, 5000);

	size_t n = ZSTD_compress(frame, sizeof frame, zeros, 5000, 3);
	assert_int_equal(frame_unpack(frame, n, &back, &why), ERR_OK);
	frame[n] = 0;
	assert_int_equal(frame_unpack(frame, n + 1, &back, &why), ERR_syntax);
	help_compress_told(&why, ERR_syntax, "1 bytes follow");
	assert_int_equal(frame_unpack(frame, n - 1, &back, &why), ERR_truncated);
	assert_int_equal(frame_unpack(frame, 0, &back, &why), ERR_syntax);
	back.max = 4999;
	assert_int_equal(frame_unpack(frame, n, &back, &why), ERR_toobig);
	help_compress_told(&why, ERR_toobig, "5000 bytes, at most 4999");

	// A frame that says nothing of its size, and one of no content, and one to be skipped.
	ZSTD_CCtx *z = ZSTD_createCCtx();
	ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
	n = ZSTD_compress2(z, frame, sizeof frame, zeros, 100);
	ZSTD_freeCCtx(z);
	assert_int_equal(frame_unpack(frame, n, &back, &why), ERR_syntax);
	help_compress_told(&why, ERR_syntax, "does not declare");
	n = ZSTD_compress(frame, sizeof frame, zeros, 0, 3);
	assert_int_equal(frame_unpack(frame, n, &back, &why), ERR_syntax);
	static const uint8_t skip[] = {0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 1};
	assert_int_equal(frame_unpack(skip, sizeof skip, &back, &why), ERR_syntax);
	// 2^60 bytes declared.
	static const uint8_t bomb[] = {
		0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 0, 0};
	assert_int_equal(frame_unpack(bomb, sizeof bomb, &back, &why), ERR_toobig);
	assert_int_equal(back.len, 0);
	buf_release(&back);
}

static void a_frame_that_does_not_fit_is_told(void **state)
{
	(void)state;
	struct codec_params p = {CODEC_raw, 0, 0};
	float *v = help_compress_vector(HELP_COMPRESS_mixed, 1000, 1);
	struct planes planes;
	struct buf frame;
	planes_init(&planes, codec_bound(&p, 1000));
	assert_int_equal(codec_encode(&p, v, 1000, &planes, NULL), ERR_OK);
	buf_init(&frame, 2000);
	buf_put_u8(&frame, 7);
	assert_int_equal(frame_pack(&planes, &frame), ERR_toobig);
	assert_int_equal(frame.len, 1);
	buf_release(&frame);
	for (long at = 1; at < 3; at++) {
		buf_init(&frame, 1 << 20);
		alloc_fail_at(at);
		enum err err = frame_pack(&planes, &frame);
		alloc_fail_at(0);
		assert_int_equal(err, at == 1 ? ERR_nomem : ERR_OK);
		buf_release(&frame);
	}
	planes_release(&planes);
	free(v);
}

/* ---- how many bits */

/* Order-0 entropy in bits of all symbols together, each below 65536 * 16. */
static double entropy(const uint32_t *symbol, size_t n)
{
	enum { ROOM = 1 << 20 };
	uint32_t *count = alloc_must_zero(ROOM, sizeof *count);
	double bits = 0;
	for (size_t i = 0; i < n; i++)
		count[symbol[i]]++;
	for (size_t i = 0; i < ROOM; i++)
		if (count[i])
			bits -= count[i] * log2((double)count[i] / (double)n);
	free(count);
	return bits;
}

/* Entropy of gaps, signs, choice of magnitude, and the magnitudes themselves. */
static double sent_entropy(const struct decoded *d, uint32_t chunk)
{
	uint32_t *s = alloc_must_zero(4 * d->count, sizeof *s);
	uint32_t *gap = s, *sign = s + d->count, *upper = sign + d->count,
		 *level = upper + d->count;
	size_t levels = 0, from = 0;
	for (size_t i = 0; i < d->count; i++) {
		bool first = i == 0 || d->index[i] / chunk != d->index[i - 1] / chunk;
		gap[i] = d->index[i] - (first ? d->index[i] / chunk * chunk : d->index[i - 1] + 1);
		sign[i] = floats_bits(d->value[i]) >> 31;
		if (first)
			from = i;
		bool last = i + 1 == d->count || d->index[i + 1] / chunk != d->index[i] / chunk;
		if (!last)
			continue;
		uint32_t lower = UINT32_MAX, most = 0;
		for (size_t j = from; j <= i; j++) {
			uint32_t code = floats_magnitude(d->value[j]) >> 19;
			lower = code < lower ? code : lower;
			most = code > most ? code : most;
		}
		for (size_t j = from; j <= i; j++)
			upper[j] = floats_magnitude(d->value[j]) >> 19 != lower;
		level[levels++] = lower;
		level[levels++] = most - lower + 65536; // never mistaken for the other kind
	}
	double bits = entropy(gap, d->count) + entropy(sign, d->count) + entropy(upper, d->count) +
		      entropy(level, levels) - (double)levels; // the kinds alternate: known
	free(s);
	return bits;
}

static void topk2_is_near_the_entropy_of_what_it_sends(void **state)
{
	(void)state;
	enum { N = 1 << 21 };
	static const uint32_t k[] = {64, 256};
	for (size_t i = 0; i < 2; i++) {
		struct codec_params p = {CODEC_topk2, 4096, k[i]};
		float *v = help_compress_vector(HELP_COMPRESS_heavy, N, 5);
		struct planes planes;
		struct buf frame;
		struct decoded d;
		planes_init(&planes, codec_bound(&p, N));
		assert_int_equal(codec_encode(&p, v, N, &planes, NULL), ERR_OK);
		assert_int_equal(codec_decode(&p, N, &planes.bytes, &d, NULL), ERR_OK);
		buf_init(&frame, frame_bound(planes.bytes.len));
		assert_int_equal(frame_pack(&planes, &frame), ERR_OK);
		double h0 = sent_entropy(&d, p.chunk) / N, got = 8.0 * (double)frame.len / N;
		print_message("k %u of 4096: %.4f bits a value in planes, %.4f in the frame, "
			      "order-0 entropy %.4f (%+.2f %%)\n",
			p.k, 8.0 * (double)planes.bytes.len / N, got, h0, 100 * (got / h0 - 1));
		assert_true(got < h0 * 1.03);
		buf_release(&frame);
		decoded_release(&d);
		planes_release(&planes);
		free(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_come_back),
		cmocka_unit_test(a_bit_reader_stays_in_its_bytes),
		cmocka_unit_test(gaps_stay_below_their_bound),
		cmocka_unit_test(among_equals_the_lower_place_wins),
		cmocka_unit_test(two_magnitudes_are_the_best_two),
		cmocka_unit_test(a_frame_gives_its_planes_back),
		cmocka_unit_test(frames_that_lie_are_refused),
		cmocka_unit_test(a_frame_that_does_not_fit_is_told),
		cmocka_unit_test(topk2_is_near_the_entropy_of_what_it_sends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
