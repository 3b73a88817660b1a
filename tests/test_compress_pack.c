/* Bits, places, codes, zstd frames, and how close all of it comes to the entropy of what is sent.
 */
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
#include "compress/codes.h"
#include "compress/floats.h"
#include "compress/frame.h"
#include "compress/places.h"
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
	}
	bits_out_end(&out);
	struct bits_in in;
	bits_in_init(&in, b.data, b.len);
	for (uint64_t i = 0; i < 3000; i++) {
		unsigned n = (unsigned)rng_below(1, 1, i, 33);
		uint64_t mask = ((uint64_t)1 << n) - 1;
		assert_int_equal(bits_get(&in, n), rng_u32(1, 2, i) & mask);
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

static void check_places(uint32_t len, uint32_t m, const uint32_t *at)
{
	uint16_t *place = alloc_must(m * sizeof *place), *back = alloc_must(m * sizeof *back);
	uint8_t *symbol = alloc_must(m);
	struct buf b;
	struct bits_out out;
	struct bits_in in;
	buf_init(&b, 1 << 20);
	bits_out_init(&out, &b);
	for (uint32_t i = 0; i < m; i++)
		place[i] = (uint16_t)at[i];
	places_put(place, m, symbol, &out);
	size_t bits = b.len * 8 + out.held;
	assert_true(bits <= (size_t)m * places_extra_most(len));
	bits_out_end(&out);
	bits_in_init(&in, b.data, b.len);
	assert_true(places_get(symbol, m, len, &in, back));
	assert_true(bits_in_done(&in));
	assert_memory_equal(place, back, m * sizeof *place);
	if (place[m - 1] + 1u == len && len > 1) {
		bits_in_init(&in, b.data, b.len);
		assert_false(places_get(symbol, m, len - 1, &in, back));
	}
	if (b.len > 0) {
		bits_in_init(&in, b.data, b.len - 1);
		assert_false(places_get(symbol, m, len, &in, back) && bits > 8 * (b.len - 1));
	}
	symbol[0] = PLACES_SYMBOLS;
	bits_in_init(&in, b.data, b.len);
	assert_false(places_get(symbol, m, len, &in, back));
	buf_release(&b);
	free(place);
	free(back);
	free(symbol);
}

static void places_come_back_within_their_bound(void **state)
{
	(void)state;
	static const uint32_t lens[] = {1, 2, 3, 5, 8, 9, 16, 31, 64, 100, 1000, 4096, 65536};
	uint32_t *place = alloc_must(65536 * sizeof *place);
	for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
		uint32_t step = lens[i] < 101 ? 1 : lens[i] / 61;
		for (uint32_t m = 1; m <= lens[i]; m += step)
			for (unsigned pattern = 0; pattern < 4; pattern++) {
				places(lens[i], m, pattern, place);
				check_places(lens[i], m, place);
			}
	}
	for (uint32_t gap = 0; gap < 65536; gap++)
		check_places(gap + 1, 1, &gap);
	free(place);
}

/* ---- codes */

static void codes_come_back(void **state)
{
	(void)state;
	static const unsigned bits[] = {0, 1, 2, 4, 8, 16, 32};
	enum { MOST = 70 };
	uint8_t codes[4 * MOST], packed[4 * MOST + 1], signs[MOST], back[4 * MOST];
	for (size_t b = 0; b < sizeof bits / sizeof bits[0]; b++)
		for (size_t m = 0; m <= MOST; m++) {
			size_t width = bits[b] > 8 ? bits[b] / 8 : 1,
			       bytes = codes_bytes(bits[b], m);
			bool sign = bits[b] <= 2;
			for (size_t i = 0; i < m * width; i++) {
				uint32_t x = rng_u32(b, m, i);
				codes[i] = (uint8_t)(bits[b] >= 8 ? x : x % (1u << bits[b]));
				codes[i] |= sign && (x & 0x100) ? CODES_SIGN : 0;
			}
			packed[bytes] = 0xaa;
			codes_pack(codes, bits[b], m, packed);
			codes_pack_signs(codes, m, signs);
			assert_int_equal(packed[bytes], 0xaa);
			assert_true(codes_clean(packed, bits[b], m));
			assert_true(codes_signs_clean(signs, m));
			for (size_t first = 0; first < m; first += 1 + m / 5) {
				codes_unpack(packed, bits[b], first, m - first, m, back);
				if (sign)
					codes_unpack_signs(signs, first, m - first, back);
				assert_memory_equal(
					back, codes + first * width, (m - first) * width);
			}
			if (bits[b] < 8 && bytes > 0) {
				packed[bytes - 1] |= 0x80;
				bool full = bits[b] > 1 && m % (8 / bits[b]) == 0;
				assert_int_equal(codes_clean(packed, bits[b], m), full);
			}
			if (m % 8) {
				signs[m / 8] |= 0x80;
				assert_false(codes_signs_clean(signs, m));
			}
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
		assert_int_equal(codec_encode(&p, v, 30000, NULL, &planes, &why), ERR_OK);
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
	struct codec_params p = {SELECT_all, VALUES_f32, false, 4096, 4096, 0, 0};
	float *v = help_compress_vector(HELP_COMPRESS_mixed, 1000, 1);
	struct planes planes;
	struct buf frame;
	planes_init(&planes, codec_bound(&p, 1000));
	assert_int_equal(codec_encode(&p, v, 1000, NULL, &planes, NULL), ERR_OK);
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

/* Entropy of gaps, signs, and which of the two magnitudes each is, and of the side bytes. */
static double sent_entropy(const struct codec_vector *d, const struct planes *planes)
{
	uint32_t *s = alloc_must_zero(3 * d->count, sizeof *s);
	uint32_t *gap = s, *sign = s + d->count, *upper = sign + d->count;
	struct codec_reader *r;
	struct codec_chunk c;
	size_t at = 0;
	assert_int_equal(codec_reader_new(d, &r), ERR_OK);
	while (codec_reader_next(r, &c)) {
		uint32_t least = UINT32_MAX, next = 0;
		for (uint32_t i = 0; i < c.m; i++)
			if (floats_magnitude(c.value[i]) < least)
				least = floats_magnitude(c.value[i]);
		for (uint32_t i = 0; i < c.m; i++, at++) {
			gap[at] = c.place[i] - next;
			next = c.place[i] + 1u;
			sign[at] = floats_bits(c.value[i]) >> 31;
			upper[at] = floats_magnitude(c.value[i]) != least;
		}
	}
	codec_reader_free(r);
	double bits = entropy(gap, at) + entropy(sign, at) + entropy(upper, at);
	free(s);
	// Planes: header, missing, four of levels.
	for (unsigned plane = 2; plane < 6; plane++) {
		size_t len = planes->end[plane] - planes->end[plane - 1];
		uint32_t *byte = alloc_must_zero(len, sizeof *byte);
		for (size_t i = 0; i < len; i++)
			byte[i] = planes->bytes.data[planes->end[plane - 1] + i];
		bits += entropy(byte, len);
		free(byte);
	}
	return bits;
}

static void top_k_is_near_the_entropy_of_what_it_sends(void **state)
{
	(void)state;
	enum { N = 1 << 21 };
	static const uint32_t k[] = {64, 256};
	for (size_t i = 0; i < 2; i++) {
		struct codec_params p = {SELECT_topk, VALUES_two, false, 4096, k[i], 0, 0};
		float *v = help_compress_vector(HELP_COMPRESS_heavy, N, 5);
		struct planes planes;
		struct buf frame;
		struct codec_vector d;
		planes_init(&planes, codec_bound(&p, N));
		assert_int_equal(codec_encode(&p, v, N, NULL, &planes, NULL), ERR_OK);
		buf_init(&frame, frame_bound(planes.bytes.len));
		assert_int_equal(frame_pack(&planes, &frame), ERR_OK);
		struct buf copy;
		buf_init(&copy, planes.bytes.len);
		buf_put(&copy, planes.bytes.data, planes.bytes.len);
		assert_int_equal(codec_open(&p, N, &copy, &d, NULL), ERR_OK);
		double h0 = sent_entropy(&d, &planes) / N, got = 8.0 * (double)frame.len / N;
		print_message("k %u of 4096: %.4f bits a value in planes, %.4f in the frame, "
			      "order-0 entropy %.4f (%+.2f %%)\n",
			p.k, 8.0 * (double)planes.bytes.len / N, got, h0, 100 * (got / h0 - 1));
		assert_true(got < h0 * 1.03);
		buf_release(&frame);
		codec_release(&d);
		planes_release(&planes);
		free(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_come_back),
		cmocka_unit_test(a_bit_reader_stays_in_its_bytes),
		cmocka_unit_test(places_come_back_within_their_bound),
		cmocka_unit_test(codes_come_back),
		cmocka_unit_test(a_frame_gives_its_planes_back),
		cmocka_unit_test(frames_that_lie_are_refused),
		cmocka_unit_test(a_frame_that_does_not_fit_is_told),
		cmocka_unit_test(top_k_is_near_the_entropy_of_what_it_sends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
