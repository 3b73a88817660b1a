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

static const size_t lengths[] = {1, 2, 3, 7, 64, 255, 257, 1025, 4095, 4097, 10001};
#define N_LENGTHS (sizeof lengths / sizeof lengths[0])

static const char *name(const struct codec_params *p)
{
	static char text[CODEC_NAME_MAX];
	codec_describe(p, text);
	return text;
}

static void encode(const struct codec_params *p, const float *v, size_t n, struct planes *to)
{
	struct why why = {0};
	planes_init(to, codec_bound(p, n));
	if (codec_encode(p, v, n, NULL, to, &why))
		fail_msg("%s of %zu: %s", name(p), n, why.text);
	assert_true(to->bytes.len <= codec_bound(p, n));
	assert_int_equal(to->end[to->n - 1], to->bytes.len);
}

/* The bytes stay with the caller. */
static enum err open_copy(const struct codec_params *p, size_t n, const struct buf *planes,
	struct codec_vector *out, struct why *why)
{
	struct buf copy;
	buf_init(&copy, planes->len + 1);
	buf_put(&copy, planes->data, planes->len);
	enum err err = codec_open(p, n, &copy, out, why);
	if (err)
		assert_null(out->planes.data);
	else
		assert_null(copy.data);
	buf_release(&copy);
	return err;
}

static void opened(
	const struct codec_params *p, size_t n, const struct buf *planes, struct codec_vector *out)
{
	struct why why = {0};
	if (open_copy(p, n, planes, out, &why))
		fail_msg("%s of %zu: %s", name(p), n, why.text);
	assert_int_equal(out->n, n);
}

/* Chunks follow each other, places ascend, and the sums are those of what is read. */
static void check_chunks(const struct codec_vector *v)
{
	struct codec_reader *r;
	struct codec_chunk c;
	size_t next = 0, count = 0;
	double sum = 0;
	assert_int_equal(codec_reader_new(v, &r), ERR_OK);
	while (codec_reader_next(r, &c)) {
		assert_int_equal(c.first, next);
		assert_true(c.place || c.m == c.len);
		for (uint32_t i = 0; i < c.m; i++) {
			assert_true(floats_finite(c.value[i]));
			assert_true(!c.place || c.place[i] < c.len);
			assert_true(!c.place || i == 0 || c.place[i - 1] < c.place[i]);
			sum += (double)c.value[i] * (double)c.value[i];
		}
		next += c.len;
		count += c.m;
	}
	codec_reader_free(r);
	assert_int_equal(next, v->n);
	assert_int_equal(count, v->count);
	assert_true(sum == v->norm_squared);
}

/* Places are those of the largest magnitudes of each chunk. */
static void check_places(const struct codec_params *p, const float *v, const struct codec_vector *d)
{
	struct codec_reader *r;
	struct codec_chunk c;
	assert_int_equal(codec_reader_new(d, &r), ERR_OK);
	while (codec_reader_next(r, &c)) {
		uint32_t k = (uint32_t)(((uint64_t)p->k * c.len + p->chunk - 1) / p->chunk),
			 possible = 0;
		uint32_t least_kept = UINT32_MAX, most_left = 0;
		for (uint32_t i = 0, at = 0; i < c.len; i++) {
			uint32_t key = floats_magnitude(v[c.first + i]);
			bool kept = at < c.m && c.place[at] == i;
			at += kept;
			possible += key >= FLOATS_NORMAL;
			if (kept && key < least_kept)
				least_kept = key;
			if (!kept && key > most_left)
				most_left = key;
		}
		assert_int_equal(c.m, possible < k ? possible : k);
		assert_true(c.m == 0 || most_left <= least_kept);
	}
	codec_reader_free(r);
}

static void check_expanded(
	const struct codec_params *p, const float *v, const struct codec_vector *d)
{
	float *got = alloc_must_zero(d->n, sizeof *got), *sum = alloc_must_zero(d->n, sizeof *sum);
	assert_int_equal(codec_expand(d, got), ERR_OK);
	assert_int_equal(codec_add(d, -1, sum), ERR_OK);
	for (size_t i = 0; i < d->n; i++) {
		assert_true(sum[i] == -got[i] || got[i] != got[i]);
		if (codec_lossless(p))
			assert_int_equal(floats_bits(v[i]), floats_bits(got[i]));
	}
	free(got);
	free(sum);
}

static void round_trip(const struct codec_params *p, const float *v, size_t n)
{
	struct planes once, twice;
	struct codec_vector d;
	encode(p, v, n, &once);
	encode(p, v, n, &twice);
	assert_int_equal(once.bytes.len, twice.bytes.len);
	assert_memory_equal(once.bytes.data, twice.bytes.data, once.bytes.len);
	opened(p, n, &once.bytes, &d);
	assert_int_equal(codec_number(&d.params), codec_number(p));
	assert_true(d.params.chunk == p->chunk && d.params.k == p->k && d.params.seed == p->seed);
	assert_true(d.params.threshold == p->threshold);
	check_chunks(&d);
	check_expanded(p, v, &d);
	if (p->select == SELECT_topk && !p->dct)
		check_places(p, v, &d);
	codec_release(&d);
	planes_release(&once);
	planes_release(&twice);
}

/* Values whose transform may be beyond a float's range are for the codecs without one. */
static bool suits(const struct codec_params *p, enum help_compress_kind kind)
{
	return !p->dct || (kind != HELP_COMPRESS_huge && kind != HELP_COMPRESS_mixed);
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
				if (suits(&p, (enum help_compress_kind)kind))
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
		assert_int_equal(codec_encode(&p, v, 5000, NULL, &exact, &why), ERR_OK);
		planes_release(&exact);
		planes_init(&exact, full.bytes.len - 1);
		assert_int_equal(codec_encode(&p, v, 5000, NULL, &exact, &why), ERR_toobig);
		help_compress_told(&why, ERR_toobig, "5000 values do not fit into");
		planes_release(&exact);
		planes_release(&full);
		free(v);
	}
}

static void threads_do_not_matter(void **state)
{
	(void)state;
	enum { N = 3 * 262144 + 12345 };
	struct pool *pool = pool_new(3);
	float *v = help_compress_vector(HELP_COMPRESS_heavy, N, 4);
	struct codec_params p;
	for (size_t i = 0; help_compress_params(i, &p); i++) {
		struct planes alone, many;
		encode(&p, v, N, &alone);
		planes_init(&many, codec_bound(&p, N));
		assert_int_equal(codec_encode(&p, v, N, pool, &many, NULL), ERR_OK);
		assert_int_equal(alone.bytes.len, many.bytes.len);
		assert_memory_equal(alone.bytes.data, many.bytes.data, alone.bytes.len);
		planes_release(&alone);
		planes_release(&many);
	}
	v[700000] = floats_from(0x7fc00000u);
	v[70000] = floats_from(0x7f800000u);
	struct planes to;
	struct why why;
	planes_init(&to, codec_bound(&p, N));
	assert_int_equal(codec_encode(&p, v, N, pool, &to, &why), ERR_not_finite);
	help_compress_told(&why, ERR_not_finite, "value 70000 of 798777 is infinite");
	planes_release(&to);
	free(v);
	pool_free(pool);
}

/* A sender who has less room may keep fewer: the receiver needs to know nothing of it. */
static void a_smaller_k_is_taken(void **state)
{
	(void)state;
	struct codec_params most = {SELECT_topk, VALUES_two, false, 4096, 64, 0, 0}, less = most;
	float *v = help_compress_vector(HELP_COMPRESS_heavy, 10000, 4);
	struct planes planes;
	struct codec_vector d;
	struct why why;
	less.k = 16;
	encode(&less, v, 10000, &planes);
	opened(&most, 10000, &planes.bytes, &d);
	assert_int_equal(d.params.k, 16);
	check_places(&less, v, &d);
	codec_release(&d);
	planes_release(&planes);
	encode(&most, v, 10000, &planes);
	assert_int_equal(open_copy(&less, 10000, &planes.bytes, &d, &why), ERR_shape);
	help_compress_told(&why, ERR_shape, "(k 64 of 4096, threshold 0), wanted are 10000 (k 16");
	planes_release(&planes);
	free(v);
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
			assert_int_equal(codec_encode(&p, v, 3, NULL, &to, &why), ERR_not_finite);
			help_compress_told(&why, ERR_not_finite, "value 1 of 3 is ");
			assert_int_equal(codec_encode(&p, v, 0, NULL, &to, &why), ERR_range);
			assert_int_equal(
				codec_encode(&p, v, CODEC_N_MAX + 1, NULL, &to, &why), ERR_range);
			planes_release(&to);
		}
}

/* ---- bytes that are not what an encoder wrote */

static void refused(const struct codec_params *p, size_t n, const struct buf *bytes)
{
	struct codec_vector d;
	struct why why = {0};
	enum err err = open_copy(p, n, bytes, &d, &why);
	if (!err)
		fail_msg("%s took what it did not write", name(p));
	assert_int_equal(err, why.code);
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
			struct codec_vector d;
			struct why why;
			/* Of the header k may shrink, and randk's seed may be another. */
			bool may = bit >= 32 * 8 || (bit >= 8 * 8 && bit < 12 * 8) ||
				   (bit >= 16 * 8 && bit < 24 * 8);
			if (!may)
				refused(&p, 300, &full.bytes);
			else if (!open_copy(&p, 300, &full.bytes, &d, &why)) {
				check_chunks(&d);
				codec_release(&d);
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
	struct codec_params two = {SELECT_topk, VALUES_two, false, 8, 3, 0, 0};
	struct codec_params raw = {SELECT_all, VALUES_f32, false, 4096, 4096, 0, 0};
	float *v = help_compress_vector(HELP_COMPRESS_plain, 8, 1);
	struct planes full;
	struct codec_vector d;
	struct why why = {0};
	encode(&two, v, 8, &full);
	assert_int_equal(open_copy(&raw, 8, &full.bytes, &d, &why), ERR_unsupported);
	help_compress_told(&why, ERR_unsupported, "selection 2 and values 10, wanted is all f32");
	full.bytes.data[1] = 1;
	assert_int_equal(open_copy(&two, 8, &full.bytes, &d, &why), ERR_version);
	full.bytes.data[1] = 2;
	two.k = 2;
	assert_int_equal(open_copy(&two, 8, &full.bytes, &d, &why), ERR_shape);
	help_compress_told(&why, ERR_shape, "8 values (k 3 of 8, threshold 0)");
	two.k = 3;
	full.bytes.data[32] = 4; // values missing in the only chunk
	assert_int_equal(open_copy(&two, 8, &full.bytes, &d, &why), ERR_syntax);
	help_compress_told(&why, ERR_syntax, "chunk 0 ");
	planes_release(&full);

	encode(&raw, v, 8, &full);
	full.bytes.data[32 + 3 * 8 + 5] = 0x7f;
	full.bytes.data[32 + 2 * 8 + 5] = 0xc0;
	assert_int_equal(open_copy(&raw, 8, &full.bytes, &d, &why), ERR_not_finite);
	planes_release(&full);
	free(v);
}

static enum err find(const char *select, const char *values, bool dct, uint32_t chunk, uint32_t k,
	double threshold, struct codec_params *out, struct why *why)
{
	const struct codec_words words = {select, values, dct, chunk, k, threshold};
	return codec_find(&words, out, why);
}

static void words_of_a_spec_are_checked(void **state)
{
	(void)state;
	struct codec_params p;
	struct why why = {0};
	assert_int_equal(find("topk", "two", false, 4096, 64, 0, &p, &why), ERR_OK);
	assert_int_equal(p.values, VALUES_two);
	assert_int_equal(p.k, 64);
	assert_string_equal(name(&p), "topk 64/4096 two");
	assert_int_equal(find("threshold", "sign", true, 4096, 64, 2.5, &p, &why), ERR_OK);
	assert_string_equal(name(&p), "dct threshold 64/4096 from 2.5 sign");
	assert_int_equal(find("all", "int8", false, 1024, 0, 0, &p, &why), ERR_OK);
	assert_int_equal(p.k, 1024);
	assert_string_equal(name(&p), "all/1024 int8");
	assert_int_equal(find("all", "f32", false, 4096, 0, 0, &p, &why), ERR_OK);
	assert_string_equal(name(&p), "all f32");
	assert_true(codec_lossless(&p));

	assert_int_equal(find("top", "two", false, 4096, 64, 0, &p, &why), ERR_unsupported);
	help_compress_told(&why, ERR_unsupported, "knows: all topk randk threshold");
	assert_int_equal(find("topk", "three", false, 4096, 64, 0, &p, &why), ERR_unsupported);
	help_compress_told(
		&why, ERR_unsupported, "no values \"three\"; this program knows: f32 bf16");
	assert_int_equal(find("topk", "two", false, 65537, 64, 0, &p, &why), ERR_range);
	assert_int_equal(find("topk", "two", false, 0, 0, 0, &p, &why), ERR_range);
	assert_int_equal(find("topk", "two", false, 64, 65, 0, &p, &why), ERR_range);
	help_compress_told(&why, ERR_range, "from 1 to codec.chunk (64), is 65");
	assert_int_equal(find("all", "two", false, 64, 5, 0, &p, &why), ERR_range);
	help_compress_told(&why, ERR_range, "leave k out");
	assert_int_equal(find("topk", "two", false, 64, 5, 1, &p, &why), ERR_range);
	help_compress_told(&why, ERR_range, "leave it out");
	assert_int_equal(find("threshold", "two", false, 64, 5, 0, &p, &why), ERR_range);
	assert_int_equal(find("threshold", "two", false, 64, 5, 0.0 / 0.0, &p, &why), ERR_range);
	assert_int_equal(find("threshold", "two", false, 64, 5, 1e-300, &p, &why), ERR_range);
	assert_int_equal(find("topk", "two", true, 2048, 5, 0, &p, &why), ERR_range);
	help_compress_told(&why, ERR_range, "must be 4096");
	assert_null(values_row(0));
	assert_null(values_row(UINT32_MAX));
	assert_null(select_row(0));
	assert_null(select_row(UINT32_MAX));
}

/* ---- the very bytes */

/* One line for each of help_compress_params: the hash of its planes of the same vector.  They are
 * the same on every machine and with every compiler. */
static void golden_hashes_of_large_vectors(void **state)
{
	(void)state;
	static const char *const hashes[] = {
#include "tests/data/codec_hashes.inc"
	};
	struct codec_params p;
	float *v = help_compress_vector(HELP_COMPRESS_heavy, 50000, 77);
	size_t bad = 0, i = 0;
	for (; help_compress_params(i, &p); i++) {
		struct planes to;
		encode(&p, v, 50000, &to);
		struct hash h = hash_of(to.bytes.data, to.bytes.len);
		char hex[HASH_HEX];
		hash_hex(&h, hex);
		if (i < sizeof hashes / sizeof hashes[0] && strncmp(hex, hashes[i], 16) == 0) {
			planes_release(&to);
			continue;
		}
		print_error("\t\"%.16s\", // %s\n", hex, name(&p));
		bad++;
		planes_release(&to);
	}
	free(v);
	assert_int_equal(bad, 0);
	assert_int_equal(i, sizeof hashes / sizeof hashes[0]);
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
			struct codec_vector d = {0};
			struct why why = {0};
			planes_init(&to, codec_bound(&p, 3000));
			alloc_fail_at(at);
			enum err err = codec_encode(&p, v, 3000, NULL, &to, &why);
			if (!err)
				err = codec_open(&p, 3000, &to.bytes, &d, &why);
			alloc_fail_at(0);
			planes_release(&to);
			codec_release(&d);
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
		cmocka_unit_test(threads_do_not_matter),
		cmocka_unit_test(a_smaller_k_is_taken),
		cmocka_unit_test(what_is_not_finite_is_refused),
		cmocka_unit_test(cut_and_longer_planes_are_refused),
		cmocka_unit_test(flipped_bits_do_no_harm),
		cmocka_unit_test(each_refusal_says_what_is_wrong),
		cmocka_unit_test(words_of_a_spec_are_checked),
		cmocka_unit_test(golden_hashes_of_large_vectors),
		cmocka_unit_test(every_failed_allocation_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
