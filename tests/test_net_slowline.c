/* A slow line: rate, delay and order of what goes through, and that chunks do not pile up in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "net/slowline.h"

#define CHUNK 100000u

static bool put_kind(
	struct slowline *s, uint32_t kind, struct shared *bytes, uint32_t conn, uint64_t now_ns)
{
	struct slowline_item i = {.conn = conn, .out.header.which_body = (pb_size_t)kind};
	i.out.bytes = bytes;
	i.out.len = bytes ? shared_len(bytes) : 0;
	return slowline_put(s, &i, now_ns);
}

static bool put(struct slowline *s, struct shared *bytes, uint32_t conn, uint64_t now_ns)
{
	return put_kind(s, bytes ? MSG_chunk : MSG_echo, bytes, conn, now_ns);
}

static struct shared *chunk(void)
{
	return shared_new(alloc_must_zero(1, CHUNK), CHUNK);
}

static void what_is_sent_arrives_at_the_rate_and_in_order(void **state)
{
	(void)state;
	struct slowline *s = slowline_new(1e6, 150 * CLOCK_MS); // a chunk takes 100 ms
	struct shared *bytes = chunk();
	struct slowline_item got;
	uint64_t now = CLOCK_SECOND, first = 0, last = 0;
	uint32_t sent = 0, arrived = 0;
	for (; arrived < 50; now += CLOCK_MS) {
		sent += sent < 50 && put(s, bytes, sent, now);
		for (; slowline_take(s, now, &got); last = now) {
			first = first ? first : now;
			assert_int_equal(got.conn, arrived++);
			assert_ptr_equal(got.out.bytes, bytes);
			shared_drop(got.out.bytes);
		}
	}
	assert_in_range(first - CLOCK_SECOND, 250 * CLOCK_MS, 252 * CLOCK_MS);
	assert_in_range(last - first, 4900 * CLOCK_MS, 4950 * CLOCK_MS);
	shared_drop(bytes);
	slowline_free(s);
}

static void a_busy_line_takes_no_chunk_but_every_word(void **state)
{
	(void)state;
	struct slowline *s = slowline_new(1e6, 0);
	struct shared *bytes = chunk();
	int chunks = 0;
	while (chunks < 100 && put(s, bytes, 0, 1))
		chunks++;
	assert_int_equal(chunks, 3); // a quarter of a second, and the one that goes beyond
	assert_true(put(s, NULL, 7, 1));
	assert_false(put(s, bytes, 0, 1));
	assert_true(put(s, bytes, 0, 1 + CLOCK_SECOND / 10));
	shared_drop(bytes);
	slowline_free(s); // with what waits
}

/* A refused one costs the link: nobody says it again. */
static void a_document_is_taken_by_a_busy_line(void **state)
{
	(void)state;
	struct slowline *s = slowline_new(1e6, 0);
	struct shared *bytes = chunk();
	while (put(s, bytes, 0, 1))
		;
	assert_true(put_kind(s, MSG_receipt, bytes, 0, 1));
	assert_false(put(s, bytes, 0, 1));
	shared_drop(bytes);
	slowline_free(s);
}

static void what_waits_is_bounded_by_number_and_bytes(void **state)
{
	(void)state;
	struct slowline *s = slowline_new(1e3, 0);
	struct shared *bytes = chunk();
	struct slowline_item got;
	for (uint32_t i = 0; i < SLOWLINE_MESSAGES; i++)
		assert_true(put(s, NULL, i, 1));
	assert_false(put(s, NULL, 0, 1));
	assert_true(slowline_take(s, UINT64_MAX, &got));
	assert_true(put(s, NULL, 0, 1));
	while (slowline_take(s, UINT64_MAX, &got))
		;
	for (uint32_t i = 0; i < SLOWLINE_BYTES / CHUNK; i++)
		assert_true(put_kind(s, MSG_roster, bytes, 0, 1));
	assert_false(put_kind(s, MSG_roster, bytes, 0, 1));
	assert_true(put(s, NULL, 0, 1)); // a word still has room
	for (; slowline_take(s, UINT64_MAX, &got); shared_drop(got.out.bytes))
		;
	assert_true(put_kind(s, MSG_roster, bytes, 0, 1));
	shared_drop(bytes);
	slowline_free(s);
}

static void without_a_rate_there_is_only_the_delay(void **state)
{
	(void)state;
	struct slowline *s = slowline_new(0, 40 * CLOCK_MS);
	struct slowline_item got;
	assert_int_equal(slowline_due(s), UINT64_MAX);
	assert_true(put(s, NULL, 1, 5));
	assert_int_equal(slowline_due(s), 5 + 40 * CLOCK_MS);
	assert_false(slowline_take(s, 4 + 40 * CLOCK_MS, &got));
	assert_true(slowline_take(s, 5 + 40 * CLOCK_MS, &got));
	assert_true(put(s, NULL, 2, 6)); // after it was empty
	assert_true(slowline_take(s, CLOCK_SECOND, &got));
	assert_int_equal(got.conn, 2);
	slowline_free(s);
	slowline_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent_arrives_at_the_rate_and_in_order),
		cmocka_unit_test(a_busy_line_takes_no_chunk_but_every_word),
		cmocka_unit_test(a_document_is_taken_by_a_busy_line),
		cmocka_unit_test(what_waits_is_bounded_by_number_and_bytes),
		cmocka_unit_test(without_a_rate_there_is_only_the_delay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
