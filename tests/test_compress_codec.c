/* Every codec of the list: what comes out, in which bytes, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/hash.h"
#include "base/rng.h"
#include "compress/codec.h"
#include "compress/floats.h"
#include "tests/help_compress.h"

static const size_t lengths[] = {1, 2, 3, 7, 64, 1023, 1024, 1025, 4095, 4097, 10001};
#define N_LENGTHS (sizeof lengths / sizeof lengths[0])

static void encode(const struct codec_params *p, const float *v, size_t n, struct planes *to)
{
	struct why why = {0};
	planes_init(to, codec_bound(p, n));
	if (codec_encode(p, v, n, to, &why))
		fail_msg("%s of %zu: %s", codec_row(p->codec)->name, n, why.text);
	assert_true(to->bytes.len <= codec_bound(p, n));
	assert_int_equal(to->end[to->n - 1], to->bytes.len);
}

static void decode(
	const struct codec_params *p, size_t n, const struct planes *from, struct decoded *out)
{
	struct why why = {0};
	if (codec_decode(p, n, &from->bytes, out, &why))
		fail_msg("%s of %zu (chunk %u, k %u): %s", codec_row(p->codec)->name, n, p->chunk,
			p->k, why.text);
	assert_int_equal(out->n, n);
	assert_true(out->index || out->count == n);
	for (size_t i = 0; i < out->count; i++) {
		assert_true(floats_finite(out->value[i]));
		assert_true(!out->index || out->index[i] < n);
		assert_true(!out->index || i == 0 || out->index[i - 1] < out->index[i]);
	}
}

/* What each codec promises of the values. */
static void check_values(const struct codec_params *p, const float *v, const struct decoded *d)
{
	float *got = alloc_must_zero(d->n, sizeof *got);
	decoded_expand(d, got);
	for (size_t i = 0; i < d->n; i++) {
		float largest = 0;
		size_t block = i - i % 1024, end = block + 1024 < d->n ? block + 1024 : d->n;
		for (size_t j = block; j < end && p->codec == CODEC_int8; j++)
			if (floats_from(floats_magnitude(v[j])) > largest)
				largest = floats_from(floats_magnitude(v[j]));
		double off = (double)v[i] - (double)got[i];
		if (p->codec == CODEC_raw)
			assert_int_equal(floats_bits(v[i]), floats_bits(got[i]));
		if (p->codec == CODEC_int8 && largest > 0x1p-110f)
			assert_true((off < 0 ? -off : off) <= (double)largest / 127 * 0.5000002);
	}
	free(got);
}

/* Places are those of the largest magnitudes of each chunk, signs are kept. */
static void check_places(const struct codec_params *p, const float *v, const struct decoded *d)
{
	uint8_t *kept = alloc_must_zero(d->n, 1);
	for (size_t i = 0; i < d->count; i++) {
		kept[d->index[i]] = 1;
		assert_int_equal(floats_bits(v[d->index[i]]) >> 31, floats_bits(d->value[i]) >> 31);
	}
	for (size_t first = 0; first < d->n; first += p->chunk) {
		size_t len = d->n - first < p->chunk ? d->n - first : p->chunk;
		size_t k = (p->k * len + p->chunk - 1) / p->chunk, count = 0, possible = 0;
		uint32_t least_kept = UINT32_MAX, most_left = 0;
		for (size_t i = first; i < first + len; i++) {
			uint32_t key = floats_magnitude(v[i]);
			possible += key >= FLOATS_NORMAL;
			count += kept[i];
			if (kept[i] && key < least_kept)
				least_kept = key;
			if (!kept[i] && key > most_left)
				most_left = key;
		}
		assert_int_equal(count, possible < k ? possible : k);
		assert_true(most_left <= least_kept || count == 0);
	}
	free(kept);
}

static void round_trip(const struct codec_params *p, const float *v, size_t n)
{
	struct planes once, twice;
	struct decoded d;
	encode(p, v, n, &once);
	encode(p, v, n, &twice);
	assert_int_equal(once.bytes.len, twice.bytes.len);
	assert_memory_equal(once.bytes.data, twice.bytes.data, once.bytes.len);
	decode(p, n, &once, &d);
	check_values(p, v, &d);
	if (d.index)
		check_places(p, v, &d);
	decoded_release(&d);
	planes_release(&once);
	planes_release(&twice);
}

static void what_is_encoded_comes_out(void **state)
{
	(void)state;
	struct codec_params p;
	for (size_t i = 0; help_compress_params(i, &p); i++)
		for (size_t j = 0; j < N_LENGTHS; j++)
			for (int kind = 0; kind < HELP_COMPRESS_kinds; kind++) {
				float *v = help_compress_vector(
					(enum help_compress_kind)kind, lengths[j], i);
				round_trip(&p, v, lengths[j]);
				free(v);
			}
	float *v = help_compress_vector(HELP_COMPRESS_heavy, 200001, 9);
	for (size_t i = 0; help_compress_params(i, &p); i++)
		round_trip(&p, v, 200001);
	free(v);
}

static void a_buffer_one_byte_too_small_is_told(void **state)
{
	(void)state;
	struct codec_params p;
	for (size_t i = 0; help_compress_params(i, &p); i++) {
		float *v = help_compress_vector(HELP_COMPRESS_heavy, 5000, i);
		struct planes exact, full;
		struct why why = {0};
		encode(&p, v, 5000, &full);
		planes_init(&exact, full.bytes.len);
		assert_int_equal(codec_encode(&p, v, 5000, &exact, &why), ERR_OK);
		planes_release(&exact);
		planes_init(&exact, full.bytes.len - 1);
		assert_int_equal(codec_encode(&p, v, 5000, &exact, &why), ERR_toobig);
		help_compress_told(&why, ERR_toobig, "5000 values do not fit into");
		planes_release(&exact);
		planes_release(&full);
		free(v);
	}
}

static void what_is_not_finite_is_refused(void **state)
{
	(void)state;
	static const uint32_t bad[] = {
		0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u};
	struct codec_params p;
	for (size_t i = 0; help_compress_params(i, &p); i++)
		for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
			float v[3] = {1, 2, 3};
			memcpy(&v[1], &bad[j], sizeof v[1]);
			struct planes to;
			struct why why = {0};
			planes_init(&to, 1000);
			assert_int_equal(codec_encode(&p, v, 3, &to, &why), ERR_not_finite);
			help_compress_told(&why, ERR_not_finite, "value 1 of 3 is ");
			assert_int_equal(codec_encode(&p, v, 0, &to, &why), ERR_range);
			assert_int_equal(
				codec_encode(&p, v, CODEC_N_MAX + 1, &to, &why), ERR_range);
			planes_release(&to);
		}
}

/* ---- bytes that are not what an encoder wrote */

static void refused(const struct codec_params *p, size_t n, const struct buf *bytes)
{
	struct decoded d;
	struct why why = {0};
	enum err err = codec_decode(p, n, bytes, &d, &why);
	if (!err)
		fail_msg("%s took what it did not write", codec_row(p->codec)->name);
	assert_int_equal(err, why.code);
	assert_null(d.value);
	assert_null(d.index);
}

static void cut_and_longer_planes_are_refused(void **state)
{
	(void)state;
	struct codec_params p;
	for (size_t i = 0; help_compress_params(i, &p); i++) {
		float *v = help_compress_vector(HELP_COMPRESS_heavy, 300, i);
		struct planes full;
		encode(&p, v, 300, &full);
		for (size_t len = 0; len < full.bytes.len; len++) {
			struct buf cut = {.data = full.bytes.data, .len = len};
			refused(&p, 300, &cut);
		}
		struct buf longer;
		buf_init(&longer, full.bytes.len + 2);
		buf_put(&longer, full.bytes.data, full.bytes.len);
		buf_put_u8(&longer, 0);
		refused(&p, 300, &longer);
		buf_put_u8(&longer, 0xff);
		refused(&p, 300, &longer);
		refused(&p, 299, &full.bytes);
		refused(&p, 301, &full.bytes);
		buf_release(&longer);
		planes_release(&full);
		free(v);
	}
}

/* Whatever one bit does, the outcome is a refusal or a proper vector. */
static void flipped_bits_do_no_harm(void **state)
{
	(void)state;
	struct codec_params p;
	for (size_t i = 0; help_compress_params(i, &p); i++) {
		float *v = help_compress_vector(HELP_COMPRESS_heavy, 300, i);
		struct planes full;
		encode(&p, v, 300, &full);
		for (size_t bit = 0; bit < full.bytes.len * 8; bit++) {
			full.bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			struct decoded d;
			struct why why;
			if (bit < 24 * 8)
				refused(&p, 300, &full.bytes);
			else if (!codec_decode(&p, 300, &full.bytes, &d, &why)) {
				decoded_release(&d);
				decode(&p, 300, &full, &d);
				decoded_release(&d);
			}
			full.bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		planes_release(&full);
		free(v);
	}
}

static void each_refusal_says_what_is_wrong(void **state)
{
	(void)state;
	struct codec_params topk2 = {CODEC_topk2, 8, 3}, raw = {CODEC_raw, 0, 0};
	float *v = help_compress_vector(HELP_COMPRESS_plain, 8, 1);
	struct planes full;
	struct decoded d;
	struct why why = {0};
	encode(&topk2, v, 8, &full);
	assert_int_equal(codec_decode(&raw, 8, &full.bytes, &d, &why), ERR_unsupported);
	help_compress_told(&why, ERR_unsupported, "codec number 3, wanted is raw");
	full.bytes.data[1] = 2;
	assert_int_equal(codec_decode(&topk2, 8, &full.bytes, &d, &why), ERR_version);
	full.bytes.data[1] = 1;
	topk2.k = 4;
	assert_int_equal(codec_decode(&topk2, 8, &full.bytes, &d, &why), ERR_shape);
	help_compress_told(&why, ERR_shape, "8 values (chunk 8, k 3)");
	topk2.k = 3;
	full.bytes.data[24] = 4; // values missing in the only chunk
	assert_int_equal(codec_decode(&topk2, 8, &full.bytes, &d, &why), ERR_syntax);
	help_compress_told(&why, ERR_syntax, "4 values less than its 3");
	planes_release(&full);

	encode(&raw, v, 8, &full);
	full.bytes.data[24 + 4 * 5 + 3] = 0x7f;
	full.bytes.data[24 + 4 * 5 + 2] = 0xc0;
	assert_int_equal(codec_decode(&raw, 8, &full.bytes, &d, &why), ERR_not_finite);
	help_compress_told(&why, ERR_not_finite, "value 5");
	planes_release(&full);
	free(v);
}

static void words_of_a_spec_are_checked(void **state)
{
	(void)state;
	struct codec_params p;
	struct why why = {0};
	assert_int_equal(codec_find("topk2", 4096, 64, &p, &why), ERR_OK);
	assert_int_equal(p.codec, CODEC_topk2);
	assert_int_equal(p.k, 64);
	assert_int_equal(codec_find("int8", 4096, 64, &p, &why), ERR_OK);
	assert_int_equal(p.chunk, 0);
	assert_int_equal(codec_find("topk3", 4096, 64, &p, &why), ERR_unsupported);
	help_compress_told(&why, ERR_unsupported, "knows: raw int8 topk2");
	assert_int_equal(codec_find("topk2", 65537, 64, &p, &why), ERR_range);
	assert_int_equal(codec_find("topk2", 0, 0, &p, &why), ERR_range);
	assert_int_equal(codec_find("topk2", 64, 65, &p, &why), ERR_range);
	help_compress_told(&why, ERR_range, "from 1 to codec.chunk (64), is 65");
	assert_null(codec_row(0));
	assert_null(codec_row(UINT32_MAX));
}

/* ---- the very bytes */

static void golden_bytes_of_small_vectors(void **state)
{
	(void)state;
	static const float v[] = {0.5f, -3, 0, 2, -2, 0.25f, 2, 1, -4, 1};
	static const uint8_t raw[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0x3f, 0, 0, 0x40, 0xc0};
	static const uint8_t int8[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0,
		0, 0, 0, 0, 0x04, 0x02, 0x01, 0x3d, 16, 0xa1, 0, 64, 0xc0, 8, 64, 32, 0x81, 32};
	/* Chunk of 8, k 3: places 1 3 4 (the tie at 6 loses), magnitudes 2 (0x800) and 3 (0x808);
	 * the chunk of 2 keeps 1 of them. */
	static const uint8_t topk2[] = {3, 1, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x10, 0x08, 0x08, 0x08, 0x00, 0x00, 0x00,
		0x05, 0x0d, 0x01};
	struct planes to;
	struct codec_params p = {CODEC_raw, 0, 0};
	encode(&p, v, 2, &to);
	assert_int_equal(to.bytes.len, sizeof raw);
	assert_memory_equal(to.bytes.data, raw, sizeof raw);
	planes_release(&to);
	p.codec = CODEC_int8;
	encode(&p, v, 10, &to);
	assert_int_equal(to.bytes.len, sizeof int8);
	assert_memory_equal(to.bytes.data, int8, sizeof int8);
	planes_release(&to);
	p = (struct codec_params){CODEC_topk2, 8, 3};
	encode(&p, v, 10, &to);
	assert_int_equal(to.bytes.len, sizeof topk2);
	assert_memory_equal(to.bytes.data, topk2, sizeof topk2);
	planes_release(&to);
}

/* The same on every machine and with every compiler. */
static void golden_hashes_of_large_vectors(void **state)
{
	(void)state;
	static const struct {
		struct codec_params p;
		const char *hash;
	} cases[] = {
		{{CODEC_raw, 0, 0},
			"bbdc3cfe374373d2bdca0d54653790b0fdc3cdbae8de1a87aaa2434b7a3538a9"},
		{{CODEC_int8, 0, 0},
			"82cc465c760aeddcbb1a3a77a2b45a4f7311ac92d30426c77ccdff596da8ac46"},
		{{CODEC_topk2, 4096, 64},
			"bb36926a94117bf587a4a6fe596ad376dd1cac5563a32e78bd1f2b38b9413551"},
		{{CODEC_topk2, 1000, 300},
			"d192e9350b20c34113a71980c87be8edc333b813b7d3078fc36492548b13a877"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		float *v = help_compress_vector(HELP_COMPRESS_heavy, 50000, 77);
		struct planes to;
		encode(&cases[i].p, v, 50000, &to);
		struct hash h = hash_of(to.bytes.data, to.bytes.len);
		char hex[HASH_HEX];
		hash_hex(&h, hex);
		assert_string_equal(hex, cases[i].hash);
		planes_release(&to);
		free(v);
	}
}

/* ---- no memory */

static void every_failed_allocation_is_told(void **state)
{
	(void)state;
	struct codec_params p;
	float *v = help_compress_vector(HELP_COMPRESS_heavy, 3000, 1);
	for (size_t i = 0; help_compress_params(i, &p); i++) {
		struct planes full;
		encode(&p, v, 3000, &full);
		for (long at = 1;; at++) {
			struct planes to;
			struct decoded d = {0};
			struct why why = {0};
			planes_init(&to, codec_bound(&p, 3000));
			alloc_fail_at(at);
			enum err err = codec_encode(&p, v, 3000, &to, &why);
			if (!err)
				err = codec_decode(&p, 3000, &to.bytes, &d, &why);
			alloc_fail_at(0);
			planes_release(&to);
			decoded_release(&d);
			if (!err)
				break;
			assert_int_equal(err, ERR_nomem);
			assert_int_equal(why.code, ERR_nomem);
		}
		planes_release(&full);
	}
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_encoded_comes_out),
		cmocka_unit_test(a_buffer_one_byte_too_small_is_told),
		cmocka_unit_test(what_is_not_finite_is_refused),
		cmocka_unit_test(cut_and_longer_planes_are_refused),
		cmocka_unit_test(flipped_bits_do_no_harm),
		cmocka_unit_test(each_refusal_says_what_is_wrong),
		cmocka_unit_test(words_of_a_spec_are_checked),
		cmocka_unit_test(golden_bytes_of_small_vectors),
		cmocka_unit_test(golden_hashes_of_large_vectors),
		cmocka_unit_test(every_failed_allocation_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
