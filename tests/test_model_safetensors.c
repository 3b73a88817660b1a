/* Safetensors: what is written is read, the same in gives the same bytes, and no header may lie. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "model/safetensors_out.h"
#include "tests/help_model.h"

static const struct safetensors_plan plans[] = {
	{.name = "wte.weight", .rank = 2, .dim = {3, 4}},
	{.name = "b", .rank = 1, .dim = {5}},
	{.name = "empty", .rank = 2, .dim = {0, 7}},
	{.name = "scalar", .rank = 0},
};
static const struct safetensors_text meta[] = {{"format", "pt"}, {"note", "na\xc3\xafve \"x\""}};
static const struct safetensors_plans all = {
	.tensors = plans, .n_tensors = 4, .meta = meta, .n_meta = 2};
#define VALUES 18

static enum err write_all(const char *path, struct why *why)
{
	float values[VALUES];
	for (unsigned i = 0; i < VALUES; i++)
		values[i] = (float)i - 3.5f;
	struct safetensors_out *f = NULL;
	enum err e = safetensors_out_open(path, &all, &f, why);
	if (!e)
		e = safetensors_out_put(f, values, 7, why);
	if (!e)
		e = safetensors_out_put(f, values + 7, VALUES - 7, why);
	if (!e)
		return safetensors_out_commit(f, why);
	safetensors_out_discard(f);
	return e;
}

static enum err read_all(const char *path, struct why *why)
{
	struct safetensors *s = NULL;
	enum err e = safetensors_open(path, &s, why);
	safetensors_close(s);
	return e;
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	struct why why = {0};
	const char *path = help_model_path("m.safetensors");
	assert_int_equal(write_all(path, &why), ERR_OK);
	struct safetensors *s = NULL;
	assert_int_equal(safetensors_open(path, &s, &why), ERR_OK);
	assert_int_equal(safetensors_count(s), 4);
	const struct safetensors_tensor *t = safetensors_find(s, "wte.weight");
	assert_non_null(t);
	assert_int_equal(t->rank, 2);
	assert_int_equal(t->dim[0], 3);
	assert_int_equal(t->dim[1], 4);
	assert_int_equal(t->count, 12);
	assert_int_equal(t->type, SAFETENSORS_F32);
	float got[12];
	assert_int_equal(safetensors_read(t, 0, 12, got, &why), ERR_OK);
	for (unsigned i = 0; i < 12; i++)
		assert_true(got[i] == (float)i - 3.5f);
	assert_int_equal(safetensors_read(safetensors_find(s, "b"), 2, 3, got, &why), ERR_OK);
	assert_true(got[0] == 10.5f && got[2] == 12.5f);
	assert_int_equal(safetensors_find(s, "empty")->count, 0);
	assert_int_equal(safetensors_read(safetensors_find(s, "empty"), 0, 0, got, &why), ERR_OK);
	assert_int_equal(safetensors_find(s, "scalar")->count, 1);
	assert_null(safetensors_find(s, "wte"));
	assert_string_equal(safetensors_meta(s, "note"), "na\xc3\xafve \"x\"");
	assert_null(safetensors_meta(s, "other"));
	for (size_t i = 1; i < 4; i++)
		assert_true(safetensors_at(s, i)->bytes >= safetensors_at(s, i - 1)->bytes);
	safetensors_close(s);
	safetensors_close(NULL);
}

/* The bytes of the format, by hand: other programs read them. */
static void bytes_are_pinned(void **state)
{
	(void)state;
	const struct safetensors_plan one = {.name = "a", .rank = 1, .dim = {2}};
	const struct safetensors_plans small = {.tensors = &one, .n_tensors = 1};
	const float values[] = {1, -2};
	struct safetensors_out *f = NULL;
	assert_int_equal(safetensors_out_open(help_model_path("a"), &small, &f, NULL), ERR_OK);
	assert_int_equal(safetensors_out_put(f, values, 2, NULL), ERR_OK);
	assert_int_equal(safetensors_out_commit(f, NULL), ERR_OK);
	static const char text[] =
		"\x38\0\0\0\0\0\0\0"
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  "
		"\0\0\x80\x3f\0\0\0\xc0";
	size_t n;
	const uint8_t *bytes = help_model_read("a", &n);
	assert_int_equal(n, sizeof text - 1);
	assert_memory_equal(bytes, text, n);

	struct why why;
	size_t n1, n2;
	assert_int_equal(write_all(help_model_path("1"), &why), ERR_OK);
	assert_int_equal(write_all(help_model_path("2"), &why), ERR_OK);
	const uint8_t *first = help_model_read("1", &n1), *second = help_model_read("2", &n2);
	assert_int_equal(n1, n2);
	assert_memory_equal(first, second, n1);
	assert_int_equal((n1 - VALUES * sizeof(float)) % 8, 0);
}

static void nothing_half_written_stays(void **state)
{
	(void)state;
	struct why why;
	struct safetensors_out *f = NULL;
	const float values[VALUES + 1] = {0};
	const char *path = help_model_path("m");
	assert_int_equal(safetensors_out_open(path, &all, &f, &why), ERR_OK);
	assert_int_equal(safetensors_out_put(f, values, VALUES - 1, &why), ERR_OK);
	assert_int_equal(safetensors_out_commit(f, &why), ERR_shape);
	help_model_told(&why, ERR_shape, "1 values of its tensors are missing");
	assert_int_equal(safetensors_out_open(path, &all, &f, &why), ERR_OK);
	assert_int_equal(safetensors_out_put(f, values, VALUES + 1, &why), ERR_shape);
	help_model_told(&why, ERR_shape, "1 more values");
	safetensors_out_discard(f);
	safetensors_out_discard(NULL);
	assert_int_equal(
		safetensors_out_open(help_model_path("no/m"), &all, &f, &why), ERR_missing);
	const struct safetensors_plan twice[] = {{.name = "a"}, {.name = "a"}};
	const struct safetensors_plans bad = {.tensors = twice, .n_tensors = 2};
	assert_int_equal(safetensors_out_open(path, &bad, &f, &why), ERR_syntax);
	const struct safetensors_plan named = {.name = "\xff"};
	const struct safetensors_plans binary = {.tensors = &named, .n_tensors = 1};
	assert_int_equal(safetensors_out_open(path, &binary, &f, &why), ERR_syntax);
	assert_int_equal(help_model_entries(""), 0);
}

/* ---- hostile files */

static void put_file(const char *name, uint64_t length, const char *header, size_t data)
{
	struct buf b;
	buf_init(&b, 1u << 20);
	buf_put_u64(&b, length);
	buf_put(&b, header, strlen(header));
	for (size_t i = 0; i < data; i++)
		buf_put_u8(&b, (uint8_t)i);
	help_model_write(name, b.data, b.len);
	buf_release(&b);
}

#define ONE(type, shape, from, to) \
	"{\"t\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}}"
#define TWO(a, b) \
	"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" a \
	"},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" b "}}"

static void lying_headers_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *header;
		size_t data;
		enum err code;
		const char *part;
	} rows[] = {
		{"[]", 0, ERR_syntax, "not a JSON object"},
		{"{\"t\":7}", 0, ERR_syntax, "tensor t needs"},
		{"{\"t\":", 0, ERR_truncated, "not sound"},
		{"{\"t\":{},\"t\":{}}", 0, ERR_syntax, "duplicate"},
		{"{\"__metadata__\":[]}", 0, ERR_syntax, "not an object"},
		{"{\"__metadata__\":{\"a\":1}}", 0, ERR_syntax, "not a text"},
		{ONE("F31", "[2]", "0", "8"), 8, ERR_unsupported, "unknown type \"F31\""},
		{"{\"t\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ERR_unsupported,
			""},
		{"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8,
			ERR_syntax, "nothing else"},
		{ONE("F32", "2", "0", "8"), 8, ERR_syntax, "shape"},
		{ONE("F32", "[2.0]", "0", "8"), 8, ERR_syntax, "whole numbers"},
		{ONE("F32", "[-2]", "0", "8"), 8, ERR_syntax, "whole numbers"},
		{ONE("F32", "[1,1,1,1,1,1,1,1,2]", "0", "8"), 8, ERR_syntax, "at most 8"},
		{ONE("F32", "[4294967296,4294967296]", "0", "0"), 0, ERR_toobig,
			"too many elements"},
		{ONE("F32", "[4611686018427387904]", "0", "0"), 0, ERR_toobig, "too many elements"},
		{ONE("F32", "[2]", "8", "0"), 8, ERR_range, "8 to 0"},
		{ONE("F32", "[2]", "0", "9223372036854775807"), 8, ERR_truncated,
			"8 bytes of data"},
		{ONE("F32", "[2]", "8", "16"), 8, ERR_truncated, "8 bytes of data"},
		{ONE("F32", "[2]", "-8", "0"), 8, ERR_syntax, "two whole numbers"},
		{ONE("F32", "[3]", "0", "8"), 8, ERR_shape,
			"has 8 bytes, its shape and type need 12"},
		{ONE("F16", "[2]", "0", "8"), 8, ERR_shape, "need 4"},
		{ONE("F32", "[2]", "0", "8"), 9, ERR_range, "last 1 bytes belong to no tensor"},
		{ONE("F32", "[2]", "1", "9"), 9, ERR_range, "1 bytes before tensor t"},
		{"{}", 4, ERR_range, "last 4 bytes"},
		{TWO("[0,8]", "[0,8]"), 8, ERR_range, "a and b overlap"},
		{TWO("[0,8]", "[4,12]"), 12, ERR_range, "overlap"},
		{TWO("[0,8]", "[12,20]"), 20, ERR_range, "4 bytes before tensor b"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct why why = {0};
		put_file("x", strlen(rows[i].header), rows[i].header, rows[i].data);
		assert_int_equal(read_all(help_model_path("x"), &why), rows[i].code);
		help_model_told(&why, rows[i].code, rows[i].part);
		assert_non_null(strstr(why.text, "/x"));
	}
}

static void lengths_are_checked(void **state)
{
	(void)state;
	struct why why = {0};
	const char *path = help_model_path("x");
	help_model_write("x", "\x10\0\0", 3);
	assert_int_equal(read_all(path, &why), ERR_truncated);
	help_model_told(&why, ERR_truncated, "only 3 bytes");
	put_file("x", 3, "{}", 0);
	assert_int_equal(read_all(path, &why), ERR_truncated);
	help_model_told(&why, ERR_truncated, "3 bytes are announced, 2 follow");
	put_file("x", UINT64_MAX, "{}", 0);
	assert_int_equal(read_all(path, &why), ERR_toobig);
	help_model_write("x", "Hello, I am a text file.", 24);
	assert_int_equal(read_all(path, &why), ERR_toobig);
	help_model_told(&why, ERR_toobig, "no safetensors file");
	assert_int_equal(read_all(help_model_path("none"), &why), ERR_missing);
	put_file("x", 2, "{}", 0);
	assert_int_equal(read_all(path, &why), ERR_OK);
	/* Any prefix of a good file is refused. */
	assert_int_equal(write_all(help_model_path("m"), &why), ERR_OK);
	size_t n;
	const uint8_t *whole = help_model_read("m", &n);
	for (size_t cut = 1; cut < n; cut++) {
		struct safetensors *s = NULL;
		assert_int_not_equal(safetensors_parse("m", whole, cut, &s, &why), ERR_OK);
	}
}

/* ---- values */

static void small_floats_are_widened(void **state)
{
	(void)state;
	struct safetensors_tensor t = {.name = "t", .type = SAFETENSORS_F16, .count = 1};
	for (uint32_t h = 0; h < 65536; h++) {
		uint8_t bytes[2] = {(uint8_t)h, (uint8_t)(h >> 8)};
		t.bytes = bytes;
		float got;
		assert_int_equal(safetensors_read(&t, 0, 1, &got, NULL), ERR_OK);
		uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
		double must = exponent == 31 ? (fraction ? NAN : INFINITY)
			      : exponent     ? ldexp(1024 + fraction, (int)exponent - 25)
					     : ldexp(fraction, -24);
		if (isnan(must))
			assert_true(isnan(got));
		else
			assert_true(got == (h & 0x8000 ? -must : must));
		assert_int_equal(!!signbit(got), h >> 15);
	}
	static const uint8_t bf[] = {0x80, 0x3f, 0x00, 0xc0, 0x80, 0x7f};
	t = (struct safetensors_tensor){
		.name = "t", .type = SAFETENSORS_BF16, .count = 3, .bytes = bf};
	float got[3];
	assert_int_equal(safetensors_read(&t, 0, 3, got, NULL), ERR_OK);
	assert_true(got[0] == 1 && got[1] == -2 && isinf(got[2]));
	struct why why;
	t.type = SAFETENSORS_I64;
	assert_int_equal(safetensors_read(&t, 0, 0, got, &why), ERR_unsupported);
	help_model_told(&why, ERR_unsupported, "type I64");
}

/* Data may begin anywhere: a header need not be padded. */
static void unaligned_data_is_read(void **state)
{
	(void)state;
	static const char header[] =
		"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  ";
	const float value = 0.25f;
	for (size_t spaces = 0; spaces < 2; spaces++) {
		struct buf b;
		buf_init(&b, 200);
		buf_put_u64(&b, sizeof header - 1 - spaces);
		buf_put(&b, header, sizeof header - 1 - spaces);
		buf_put(&b, &value, sizeof value);
		struct safetensors *s = NULL;
		float got = 0;
		assert_int_equal(safetensors_parse("b", b.data, b.len, &s, NULL), ERR_OK);
		assert_int_equal(safetensors_read(safetensors_at(s, 0), 0, 1, &got, NULL), ERR_OK);
		assert_true(got == value);
		safetensors_close(s);
		buf_release(&b);
	}
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	const char *path = help_model_path("m");
	enum err e;
	long n = 1;
	do {
		alloc_fail_at(n++);
		e = write_all(path, NULL);
		if (!e)
			e = read_all(path, NULL);
		assert_true(e == ERR_OK || e == ERR_nomem);
	} while (e);
	assert_true(n > 3);
	assert_int_equal(help_model_entries(""), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, help_model_setup, help_model_teardown)
		T(what_is_written_is_read),
		T(bytes_are_pinned),
		T(nothing_half_written_stays),
		T(lying_headers_are_refused),
		T(lengths_are_checked),
		T(small_floats_are_widened),
		T(unaligned_data_is_read),
		T(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
