/* Growing buffers and bounded readers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"

static void what_is_put_is_read(void **state)
{
	(void)state;
	struct buf b;
	buf_init(&b, 1000);
	buf_put_u8(&b, 0xab);
	buf_put_u16(&b, 0x1234);
	buf_put_u32(&b, 0xdeadbeef);
	buf_put_u64(&b, 0x0123456789abcdefull);
	buf_put(&b, "xyz", 3);
	buf_put(&b, NULL, 0);
	buf_printf(&b, "%d!", 42);
	assert_true(buf_ok(&b));
	assert_int_equal(b.len, 1 + 2 + 4 + 8 + 3 + 3);
	assert_string_equal((char *)b.data + b.len - 3, "42!");
	static const uint8_t start[] = {0xab, 0x34, 0x12, 0xef, 0xbe, 0xad, 0xde, 0xef};
	assert_memory_equal(b.data, start, sizeof start);

	struct rd r;
	rd_init(&r, b.data, b.len);
	assert_int_equal(rd_u8(&r), 0xab);
	assert_int_equal(rd_u16(&r), 0x1234);
	assert_int_equal(rd_u32(&r), 0xdeadbeef);
	assert_true(rd_u64(&r) == 0x0123456789abcdefull);
	char text[3];
	rd_copy(&r, text, 3);
	assert_memory_equal(text, "xyz", 3);
	assert_int_equal(rd_left(&r), 3);
	assert_false(rd_done(&r));
	assert_memory_equal(rd_bytes(&r, 3), "42!", 3);
	assert_true(rd_done(&r));
	buf_release(&b);
	buf_release(&b);
	buf_release(NULL);
}

static void a_reader_stays_in_its_bounds(void **state)
{
	(void)state;
	static const uint8_t bytes[] = {1, 2, 3};
	struct rd r;
	rd_init(&r, bytes, sizeof bytes);
	assert_int_equal(rd_u16(&r), 0x0201);
	assert_int_equal(rd_u32(&r), 0);
	assert_false(rd_ok(&r));
	// Failure is sticky, though one byte would be there.
	assert_int_equal(rd_u8(&r), 0);
	assert_int_equal(rd_left(&r), 0);
	char filled[4] = "abc";
	rd_copy(&r, filled, sizeof filled);
	assert_memory_equal(filled, "\0\0\0\0", 4);
	assert_false(rd_done(&r));

	rd_init(&r, bytes, sizeof bytes);
	assert_null(rd_bytes(&r, SIZE_MAX));
	rd_init(&r, NULL, 0);
	assert_true(rd_done(&r));
	assert_non_null(rd_bytes(&r, 0));
	rd_copy(&r, NULL, 0);
	assert_true(rd_ok(&r));
	assert_int_equal(rd_u8(&r), 0);
	assert_false(rd_ok(&r));
}

static void the_maximum_holds(void **state)
{
	(void)state;
	struct buf b;
	buf_init(&b, 100);
	for (int i = 0; i < 100; i++)
		buf_put_u8(&b, (uint8_t)i);
	assert_true(buf_ok(&b));
	buf_put_u8(&b, 0);
	assert_false(buf_ok(&b));
	assert_int_equal(b.len, 100);
	assert_null(buf_grow(&b, 0));
	buf_clear(&b);
	assert_true(buf_ok(&b));
	// A text of exactly the maximum fits: its NUL is not counted.
	buf_printf(&b, "%0100d", 7);
	assert_true(buf_ok(&b));
	assert_int_equal(b.len, 100);
	assert_int_equal(strlen((char *)b.data), 100);
	buf_printf(&b, "%s", "x");
	assert_false(buf_ok(&b));
	buf_clear(&b);
	assert_null(buf_grow(&b, SIZE_MAX));
	buf_release(&b);

	buf_init(&b, 0);
	buf_put(&b, NULL, 0);
	assert_true(buf_ok(&b));
	buf_put_u8(&b, 1);
	assert_false(buf_ok(&b));
	buf_release(&b);
}

static void bytes_can_be_stolen(void **state)
{
	(void)state;
	struct buf b;
	size_t len = 9;
	buf_init(&b, 10);
	uint8_t *empty = buf_steal(&b, &len);
	assert_non_null(empty);
	assert_int_equal(len, 0);
	free(empty);
	buf_put(&b, "abc", 3);
	uint8_t *got = buf_steal(&b, &len);
	assert_int_equal(len, 3);
	assert_memory_equal(got, "abc", 3);
	assert_true(buf_ok(&b) && b.len == 0 && !b.data && b.max == 10);
	free(got);
	buf_put(&b, "0123456789x", 11);
	assert_null(buf_steal(&b, &len));
	assert_int_equal(len, 0);
	assert_true(buf_ok(&b));
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	long n = 1;
	for (bool ok = false; !ok; n++) {
		struct buf b;
		buf_init(&b, 100000);
		alloc_fail_at(n);
		for (uint32_t i = 0; i < 5000; i++)
			buf_put_u32(&b, i);
		buf_printf(&b, "%s", "end");
		ok = buf_ok(&b);
		assert_true(ok == (alloc_tries() < n));
		// What was put before the failure is whole.
		for (uint32_t i = 0; i < b.len / 4 && i < 5000; i++)
			assert_int_equal(b.data[4 * i] | b.data[4 * i + 1] << 8, i);
		buf_release(&b);
	}
	alloc_fail_at(0);
	assert_true(n > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_read),
		cmocka_unit_test(a_reader_stays_in_its_bounds),
		cmocka_unit_test(the_maximum_holds),
		cmocka_unit_test(bytes_can_be_stolen),
		cmocka_unit_test(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
