/* The inbox of records: order, gaps, duplicates and bounds; and by chance, against a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "peer/inbox.h"

static enum err put(struct inbox *in, uint64_t sequence, size_t len, uint64_t after)
{
	uint8_t *bytes = alloc_must(len);
	memset(bytes, (int)sequence, len);
	return inbox_put(in, sequence, bytes, len, after);
}

/* Takes (after, upto] and looks at every record. */
static void take(struct inbox *in, uint64_t after, uint64_t upto)
{
	struct standing_record *out = NULL;
	size_t n = 0;
	assert_true(inbox_take(in, after, upto, &out, &n));
	assert_int_equal(n, upto - after);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < out[i].len; k++)
			assert_int_equal(out[i].bytes[k], (uint8_t)(after + 1 + i));
		free((void *)(uintptr_t)out[i].bytes);
	}
	free(out);
}

static void not_yet(struct inbox *in, uint64_t after, uint64_t upto)
{
	struct standing_record *out = NULL;
	size_t n = 0;
	assert_false(inbox_take(in, after, upto, &out, &n));
	assert_null(out);
}

static void records_come_out_in_order(void **state)
{
	(void)state;
	static const uint64_t come[] = {5, 3, 7, 4, 6};
	struct inbox in;
	inbox_init(&in);
	for (size_t i = 0; i < 5; i++) {
		not_yet(&in, 2, 7);
		assert_int_equal(put(&in, come[i], 10 + i, 2), ERR_OK);
	}
	assert_int_equal(inbox_reaches(&in, 2), 7);
	assert_int_equal(in.bytes, 60);
	not_yet(&in, 2, 8);
	take(&in, 2, 5); /* a piece */
	take(&in, 5, 7);
	assert_int_equal(in.n, 0);
	assert_int_equal(in.bytes, 0);
	inbox_release(&in);
}

static void a_gap_waits(void **state)
{
	(void)state;
	struct inbox in;
	inbox_init(&in);
	assert_int_equal(inbox_reaches(&in, 9), 9);
	not_yet(&in, 0, 0);
	not_yet(&in, 5, 3);
	assert_int_equal(put(&in, 1, 1, 0), ERR_OK);
	assert_int_equal(put(&in, 3, 1, 0), ERR_OK);
	assert_int_equal(inbox_reaches(&in, 0), 1);
	not_yet(&in, 0, 3);
	take(&in, 0, 1);
	/* caught up by other means: what is left behind goes */
	not_yet(&in, 4, 5);
	assert_int_equal(in.n, 0);
	inbox_release(&in);
	inbox_release(&in);
}

static void what_is_there_or_past_is_not_kept(void **state)
{
	(void)state;
	struct inbox in;
	inbox_init(&in);
	assert_int_equal(put(&in, 4, 2, 3), ERR_OK);
	assert_int_equal(put(&in, 4, 5, 3), ERR_duplicate);
	assert_int_equal(put(&in, 3, 1, 3), ERR_duplicate);
	assert_int_equal(put(&in, 0, 1, 3), ERR_duplicate);
	assert_int_equal(in.bytes, 2);
	inbox_drop(&in, UINT64_MAX);
	assert_int_equal(in.n, 0);
	assert_int_equal(put(&in, UINT64_MAX, 1, 3), ERR_OK);
	assert_int_equal(inbox_reaches(&in, 3), 3);
	inbox_release(&in);
}

static void bounds_hold(void **state)
{
	(void)state;
	struct inbox in;
	inbox_init(&in);
	assert_int_equal(in.most, INBOX_RECORDS);
	assert_true(in.bytes_most == INBOX_BYTES);
	in.most = 3;
	in.bytes_most = 100;
	assert_int_equal(put(&in, 1, 50, 0), ERR_OK);
	assert_int_equal(put(&in, 2, 51, 0), ERR_full);
	assert_int_equal(put(&in, 2, 50, 0), ERR_OK);
	assert_int_equal(put(&in, 3, 1, 0), ERR_full);
	take(&in, 0, 1);
	assert_int_equal(put(&in, 3, 10, 1), ERR_OK);
	assert_int_equal(put(&in, 4, 10, 1), ERR_OK);
	assert_int_equal(put(&in, 5, 10, 1), ERR_full); /* three are there */
	assert_int_equal(put(&in, 4, 10, 1), ERR_duplicate);
	take(&in, 1, 4);
	inbox_release(&in);
}

/* Random arrivals: the inbox reaches as far as the list of what came says. */
static void any_order_comes_out_right(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct inbox in;
		bool there[64] = {false};
		uint64_t head = 0;
		inbox_init(&in);
		in.most = 20;
		for (uint64_t i = 0; i < 300; i++) {
			uint64_t sequence = 1 + rng_below(seed, 1, i, 60), reach = head;
			enum err e = put(&in, sequence, 1 + rng_below(seed, 2, i, 9), head);
			bool old = sequence <= head || there[sequence];
			assert_int_equal(e == ERR_duplicate, old);
			there[sequence] = there[sequence] || e == ERR_OK;
			while (there[reach + 1])
				reach++;
			assert_int_equal(inbox_reaches(&in, head), reach);
			if (reach > head && rng_below(seed, 3, i, 3) == 0) {
				take(&in, head, reach);
				head = reach;
			}
			if (e == ERR_full && rng_below(seed, 4, i, 3) == 0) {
				inbox_drop(&in, UINT64_MAX);
				memset(there, 0, sizeof there);
			}
		}
		inbox_release(&in);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_out_in_order),
		cmocka_unit_test(a_gap_waits),
		cmocka_unit_test(what_is_there_or_past_is_not_kept),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(any_order_comes_out_right),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
