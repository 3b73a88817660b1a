/* Bytes that follow the begin of an object without waiting for credit: one way for a small object,
 * no byte twice, and a receiver that has no room for them says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "net/transfer.h"

#define KIND 7
#define CHUNK TRANSFER_CHUNK_LEAST

struct pair {
	struct transfer_limits limits;
	struct transfer_kind kind;
	struct transfer_budget budget;
	struct transfer_tx *tx;
	struct transfer_rx *rx;
	uint64_t now_ns, chunk_bytes;
	size_t received;
};

static void pair_init(struct pair *p, uint32_t eager)
{
	*p = (struct pair){.kind = {KIND, 64 * CHUNK}, .budget = {.most = 64 * CHUNK}, .now_ns = 1};
	transfer_limits_init(&p->limits);
	p->limits.chunk = CHUNK;
	p->tx = transfer_tx_new(&p->limits);
	p->rx = transfer_rx_new(&p->limits, &p->kind, 1, &p->budget);
	transfer_tx_restart(p->tx, eager);
}

static void pair_release(struct pair *p)
{
	transfer_tx_free(p->tx);
	transfer_rx_free(p->rx);
	assert_int_equal(p->budget.used, 0);
}

static uint64_t push(struct pair *p, size_t n)
{
	struct shared *s = shared_new(alloc_must_zero(1, n), n);
	uint64_t ref = transfer_tx_push(p->tx, KIND, s, NULL, 0);
	shared_drop(s);
	return ref;
}

/* What the sender says next; the kind that it must be, 0: nothing. */
static struct transfer_out says(struct pair *p, uint32_t kind)
{
	struct transfer_out out;
	bool any = transfer_tx_next(p->tx, p->now_ns, &out);
	assert_int_equal(any ? out.header.which_body : 0, kind);
	p->chunk_bytes += out.len;
	return out;
}

static enum err hears(struct pair *p, const struct transfer_out *out)
{
	struct transfer_event e;
	bool got;
	const uint8_t *bytes = out->bytes ? shared_data(out->bytes) + out->offset : NULL;
	struct transfer_in in = {&out->header, bytes, out->len};
	enum err err = transfer_rx_take(p->rx, &in, p->now_ns, &e, &got);
	if (got) {
		free(e.bytes);
		p->received++;
		transfer_rx_answer(p->rx, e.ref, ERR_OK, NULL);
	}
	return err;
}

/* What the receiver answers; the sender hears it. */
static shoal_header answers(struct pair *p, uint32_t kind)
{
	struct transfer_out out;
	struct transfer_event e;
	bool any = transfer_rx_next(p->rx, p->now_ns, &out);
	assert_int_equal(any ? out.header.which_body : 0, kind);
	if (any)
		(void)transfer_tx_take(p->tx, &out.header, p->now_ns, &e);
	return out.header;
}

/* Everything that both still have to say. */
static void finish(struct pair *p)
{
	struct transfer_out out;
	struct transfer_event e;
	for (int i = 0; i < 1000 && transfer_tx_count(p->tx); i++) {
		while (transfer_tx_next(p->tx, p->now_ns, &out)) {
			p->chunk_bytes += out.len;
			(void)!hears(p, &out);
		}
		while (transfer_rx_next(p->rx, p->now_ns, &out))
			(void)transfer_tx_take(p->tx, &out.header, p->now_ns, &e);
	}
	assert_int_equal(transfer_tx_count(p->tx), 0);
}

static void a_small_object_is_there_after_one_way(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, CHUNK);
	push(&p, 100);
	struct transfer_out begin = says(&p, MSG_begin), chunk = says(&p, MSG_chunk);
	says(&p, 0);
	assert_int_equal(hears(&p, &begin), ERR_OK);
	assert_int_equal(hears(&p, &chunk), ERR_OK);
	assert_int_equal(p.received, 1);
	answers(&p, MSG_done);
	assert_int_equal(transfer_tx_count(p.tx), 0);
	pair_release(&p);
}

static void a_receiver_that_says_nothing_of_it_is_asked_first(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, 0);
	push(&p, 100);
	struct transfer_out begin = says(&p, MSG_begin);
	says(&p, 0);
	assert_int_equal(hears(&p, &begin), ERR_OK);
	assert_int_equal(answers(&p, MSG_credit).body.credit.upto, 100);
	says(&p, MSG_chunk);
	pair_release(&p);
}

static void a_large_one_goes_on_where_it_is(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, 2 * CHUNK + 1); // only whole chunks
	push(&p, 10 * CHUNK);
	struct transfer_out out = says(&p, MSG_begin);
	assert_int_equal(hears(&p, &out), ERR_OK);
	assert_int_equal(answers(&p, MSG_credit).body.credit.upto, 10 * CHUNK);
	finish(&p);
	assert_int_equal(p.chunk_bytes, 10 * CHUNK);
	p.chunk_bytes = 0;

	push(&p, 11 * CHUNK);
	out = says(&p, MSG_begin);
	assert_int_equal(hears(&p, &out), ERR_OK);
	struct transfer_out first = says(&p, MSG_chunk), second = says(&p, MSG_chunk);
	says(&p, 0);
	answers(&p, MSG_credit); // before the chunks arrive
	assert_int_equal(hears(&p, &first), ERR_OK);
	assert_int_equal(hears(&p, &second), ERR_OK);
	finish(&p);
	assert_int_equal(p.received, 2);
	assert_int_equal(p.chunk_bytes, 11 * CHUNK);
	pair_release(&p);
}

/* Eager bytes that find no memory are dropped, and the sender learns it from the answer, whatever
 * becomes free meanwhile. */
static void what_finds_no_room_is_sent_again(void **state)
{
	(void)state;
	for (int freed_first = 0; freed_first < 2; freed_first++) {
		struct pair p;
		pair_init(&p, CHUNK);
		push(&p, 3 * CHUNK);
		p.budget.used = p.budget.most; // by others
		struct transfer_out begin = says(&p, MSG_begin), chunk = says(&p, MSG_chunk);
		assert_int_equal(hears(&p, &begin), ERR_OK);
		assert_int_equal(hears(&p, &chunk), ERR_range);
		if (freed_first)
			p.budget.used -= p.budget.most;
		shoal_credit c = answers(&p, MSG_credit).body.credit;
		assert_int_equal(c.have, 0);
		assert_int_equal(c.upto, 0);
		says(&p, 0);
		if (!freed_first)
			p.budget.used -= p.budget.most;
		assert_int_equal(answers(&p, MSG_credit).body.credit.upto, 3 * CHUNK);
		assert_int_equal(says(&p, MSG_chunk).offset, 0);
		transfer_tx_restart(p.tx, 0); // that chunk is lost
		finish(&p);
		assert_int_equal(p.received, 1);
		pair_release(&p);
	}
}

static void a_full_window_grants_nothing_at_once(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, CHUNK);
	p.limits.window = 4 * CHUNK;
	push(&p, 4 * CHUNK);
	push(&p, CHUNK);
	struct transfer_out out = says(&p, MSG_begin);
	assert_int_equal(hears(&p, &out), ERR_OK); // takes the whole window
	says(&p, MSG_chunk);
	out = says(&p, MSG_begin);
	assert_int_equal(hears(&p, &out), ERR_OK);
	out = says(&p, MSG_chunk);
	assert_int_equal(hears(&p, &out), ERR_range);
	transfer_tx_restart(p.tx, CHUNK);
	finish(&p);
	assert_int_equal(p.received, 2);
	pair_release(&p);
}

static void hostile_bytes_change_nothing(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, CHUNK);
	p.limits.window = 4 * CHUNK;
	uint64_t ref = push(&p, 8 * CHUNK);
	struct transfer_out begin = says(&p, MSG_begin), chunk = says(&p, MSG_chunk), out = chunk;
	assert_int_equal(hears(&p, &chunk), ERR_range); // nothing has begun
	assert_int_equal(p.budget.used, 0);
	assert_int_equal(hears(&p, &begin), ERR_OK);
	out.header.body.chunk.offset = 1; // no chunk begins there
	assert_int_equal(hears(&p, &out), ERR_range);
	out.header.body.chunk.offset = CHUNK; // not yet
	assert_int_equal(hears(&p, &out), ERR_range);
	out.header.body.chunk.ref = ref ^ 1;
	assert_int_equal(hears(&p, &out), ERR_range);
	out.header.body.chunk.ref = ref;
	for (uint64_t at = 0; at < 4 * CHUNK; at += CHUNK) {
		out.header.body.chunk.offset = at;
		assert_int_equal(hears(&p, &out), ERR_OK);
	}
	out.header.body.chunk.offset = 4 * CHUNK; // beyond what was granted when it began
	assert_int_equal(hears(&p, &out), ERR_range);
	assert_int_equal(hears(&p, &chunk), ERR_OK); // a repetition
	shoal_credit c = answers(&p, MSG_credit).body.credit;
	assert_int_equal(c.have, 4 * CHUNK);
	assert_int_equal(c.upto, 4 * CHUNK);
	finish(&p);
	assert_int_equal(p.received, 1);
	chunk.bytes = NULL;                          // the sender has let go of them
	assert_int_equal(hears(&p, &chunk), ERR_OK); // it was answered: the answer is repeated
	answers(&p, MSG_done);
	assert_int_equal(p.received, 1);
	pair_release(&p);
}

static void what_is_declined_takes_no_memory(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, CHUNK);
	push(&p, 65 * CHUNK);
	struct transfer_out begin = says(&p, MSG_begin), chunk = says(&p, MSG_chunk);
	assert_int_equal(hears(&p, &begin), ERR_toobig);
	assert_int_equal(hears(&p, &chunk), ERR_OK); // of no use, and no fault of the sender's
	assert_int_equal(p.budget.used, 0);
	assert_int_equal(answers(&p, MSG_decline).body.decline.code, ERR_toobig);
	answers(&p, 0); // said once
	assert_int_equal(transfer_tx_count(p.tx), 0);
	pair_release(&p);
}

static void only_a_first_begin_is_followed_at_once(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, CHUNK);
	push(&p, 2 * CHUNK);
	says(&p, MSG_begin);
	says(&p, MSG_chunk); // both are lost
	says(&p, 0);
	p.now_ns += 11 * CLOCK_SECOND;
	struct transfer_out begin = says(&p, MSG_begin); // it may have no memory
	says(&p, 0);
	assert_int_equal(hears(&p, &begin), ERR_OK);
	answers(&p, MSG_credit);
	struct transfer_out chunk = says(&p, MSG_chunk);
	assert_int_equal(chunk.offset, 0);
	assert_int_equal(hears(&p, &chunk), ERR_OK);
	answers(&p, MSG_credit);
	transfer_tx_restart(p.tx, CHUNK); // of this object it is known that a part is there
	begin = says(&p, MSG_begin);
	says(&p, 0);
	assert_int_equal(hears(&p, &begin), ERR_OK);
	finish(&p);
	assert_int_equal(p.received, 1);
	pair_release(&p);
}

static void after_a_cut_the_answer_moves_it_on(void **state)
{
	(void)state;
	struct pair p;
	pair_init(&p, CHUNK);
	push(&p, 8 * CHUNK);
	struct transfer_out begin = says(&p, MSG_begin), chunk = says(&p, MSG_chunk);
	assert_int_equal(hears(&p, &begin), ERR_OK);
	assert_int_equal(hears(&p, &chunk), ERR_OK);
	// The credits are lost.
	transfer_tx_restart(p.tx, CHUNK);
	finish(&p);
	assert_int_equal(p.received, 1);
	assert_int_equal(p.chunk_bytes, 9 * CHUNK); // only what followed the begin went twice
	pair_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_object_is_there_after_one_way),
		cmocka_unit_test(a_receiver_that_says_nothing_of_it_is_asked_first),
		cmocka_unit_test(a_large_one_goes_on_where_it_is),
		cmocka_unit_test(what_finds_no_room_is_sent_again),
		cmocka_unit_test(a_full_window_grants_nothing_at_once),
		cmocka_unit_test(hostile_bytes_change_nothing),
		cmocka_unit_test(what_is_declined_takes_no_memory),
		cmocka_unit_test(only_a_first_begin_is_followed_at_once),
		cmocka_unit_test(after_a_cut_the_answer_moves_it_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
