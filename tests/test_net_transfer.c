/* Sender and receiver of objects on a network that a seed makes lose, double, delay and cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "net/transfer.h"

#define KIND 7
#define CHUNK TRANSFER_CHUNK_LEAST
#define FLIGHT 1024

struct packet {
	shoal_header header;
	uint8_t *payload;
	size_t len;
	uint64_t due_ns;
};

/* Odds out of 1000 for each message; delay up to so many ns (more than the spacing: reordering). */
struct weather {
	uint32_t lost, doubled, cut;
	uint64_t delay_ns;
};

struct world {
	struct transfer_limits limits;
	struct transfer_kind kind;
	struct transfer_budget budget;
	struct transfer_tx *tx;
	struct transfer_rx *rx;
	struct weather weather;
	struct packet flight[FLIGHT]; // both directions
	size_t in_flight;
	uint64_t seed, draws, now_ns;
	uint64_t chunk_bytes, most_on_way;
	size_t received, delivered, declined;
	enum err verdict, last_error;
	struct transfer_event last;
};

static uint32_t draw(struct world *w, uint32_t n)
{
	return (uint32_t)rng_below(w->seed, 1, w->draws++, n);
}

static void world_init(struct world *w, uint64_t seed)
{
	*w = (struct world){.seed = seed, .now_ns = 5, .kind = {KIND, 1u << 24}};
	transfer_limits_init(&w->limits);
	w->limits.chunk = CHUNK;
	w->limits.window = 4 * TRANSFER_CHUNK_MOST;
	w->budget.most = 1u << 24;
	w->tx = transfer_tx_new(&w->limits);
	w->rx = transfer_rx_new(&w->limits, &w->kind, 1, &w->budget);
	transfer_tx_restart(w->tx, seed % 2 ? w->limits.eager : 0); // both ways, by seed
}

static void world_release(struct world *w)
{
	for (size_t i = 0; i < w->in_flight; i++)
		free(w->flight[i].payload);
	free(w->last.bytes);
	transfer_tx_free(w->tx);
	transfer_rx_free(w->rx);
	assert_int_equal(w->budget.used, 0);
}

static void post(struct world *w, const struct transfer_out *out)
{
	bool doubled = draw(w, 1000) < w->weather.doubled;
	if (out->header.which_body == MSG_chunk)
		w->chunk_bytes += out->len;
	for (int copies = 0; copies <= doubled; copies++) {
		if (w->in_flight == FLIGHT || draw(w, 1000) < w->weather.lost)
			continue;
		struct packet *p = &w->flight[w->in_flight++];
		*p = (struct packet){.header = out->header, .len = out->len};
		uint64_t delay = w->weather.delay_ns ? draw(w, (uint32_t)w->weather.delay_ns) : 0;
		p->due_ns = w->now_ns + delay;
		if (out->bytes) {
			p->payload = alloc_must(out->len);
			memcpy(p->payload, shared_data(out->bytes) + out->offset, out->len);
		}
	}
}

static void on_received(struct world *w, struct transfer_event *e)
{
	struct hash h = hash_of(e->bytes, e->size);
	assert_true(hash_equal(&h, &e->name));
	free(w->last.bytes);
	w->last = *e;
	w->received++;
	transfer_rx_answer(w->rx, e->ref, w->verdict, "as the test wants it");
}

static void arrive(struct world *w, struct packet p)
{
	struct transfer_event e;
	bool got;
	struct transfer_in in = {&p.header, p.payload, p.len};
	switch (p.header.which_body) {
	case MSG_begin:
	case MSG_chunk:
	case MSG_cancel: {
		enum err err = transfer_rx_take(w->rx, &in, w->now_ns, &e, &got);
		if (err)
			w->last_error = err;
		if (got)
			on_received(w, &e);
		break;
	}
	default:
		if (transfer_tx_take(w->tx, &p.header, w->now_ns, &e)) {
			w->delivered += e.what == TRANSFER_delivered;
			w->declined += e.what == TRANSFER_declined;
			if (e.what == TRANSFER_declined)
				w->last.why = e.why;
		}
	}
	free(p.payload);
}

static void cut(struct world *w)
{
	for (size_t i = 0; i < w->in_flight; i++)
		free(w->flight[i].payload);
	w->in_flight = 0;
	transfer_tx_restart(w->tx, w->seed % 2 ? w->limits.eager : 0);
}

/* One turn: send what may be sent, deliver what is due. */
static void turn(struct world *w, uint64_t step_ns)
{
	struct transfer_out out;
	for (int i = 0; i < 64 && transfer_tx_next(w->tx, w->now_ns, &out); i++)
		post(w, &out);
	for (int i = 0; i < 64 && transfer_rx_next(w->rx, w->now_ns, &out); i++)
		post(w, &out);
	w->now_ns += step_ns;
	if (draw(w, 1000) < w->weather.cut)
		cut(w);
	for (size_t i = 0; i < w->in_flight;) {
		if (w->flight[i].due_ns > w->now_ns) {
			i++;
			continue;
		}
		struct packet p = w->flight[i];
		// The order of the rest stays: TCP keeps it where the weather does not change it.
		memmove(&w->flight[i], &w->flight[i + 1], (--w->in_flight - i) * sizeof *w->flight);
		arrive(w, p);
	}
}

static struct shared *noise(uint64_t seed, size_t n)
{
	uint8_t *b = alloc_must(n);
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)rng_u32(seed, 2, i / 64);
	return shared_new(b, n);
}

static void push(struct world *w, uint64_t seed, size_t n, uint8_t meta)
{
	struct shared *s = noise(seed, n);
	transfer_tx_push(w->tx, KIND, s, &meta, 1);
	shared_drop(s);
}

static void run(struct world *w, size_t turns)
{
	while (turns-- && transfer_tx_count(w->tx))
		turn(w, CLOCK_MS);
	assert_int_equal(transfer_tx_count(w->tx), 0);
}

static void good_weather_sends_each_byte_once(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 1);
	w.weather.delay_ns = 0;
	static const size_t sizes[] = {1, CHUNK - 1, CHUNK, CHUNK + 1, 5u << 20};
	size_t total = 0;
	for (size_t i = 0; i < 5; total += sizes[i++])
		push(&w, i, sizes[i], (uint8_t)i);
	run(&w, 4000);
	assert_int_equal(w.received, 5);
	assert_int_equal(w.delivered, 5);
	assert_int_equal(w.chunk_bytes, total);
	assert_int_equal(w.last_error, 0);
	world_release(&w);
}

static void bad_weather_ends_in_the_same_bytes_once(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct world w;
		world_init(&w, seed);
		w.weather = (struct weather){
			draw(&w, 100), draw(&w, 200), draw(&w, 3), draw(&w, 2) * 20 * CLOCK_MS};
		w.limits.retry_ns = 200 * CLOCK_MS;
		for (uint8_t i = 0; i < 6; i++)
			push(&w, seed * 10 + i, 1 + draw(&w, 40 * CHUNK), i);
		run(&w, 400000);
		assert_int_equal(w.received, 6);
		assert_int_equal(w.delivered, 6);
		world_release(&w);
	}
}

static void a_cut_resumes_where_it_was(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 3);
	push(&w, 3, 200 * CHUNK, 0);
	while (w.chunk_bytes < 100 * CHUNK)
		turn(&w, CLOCK_MS);
	uint64_t before = w.chunk_bytes;
	cut(&w);
	run(&w, 4000);
	assert_int_equal(w.received, 1);
	// At most what was on the way is sent again.
	assert_true(w.chunk_bytes <= 200 * CHUNK + w.limits.window);
	assert_true(w.chunk_bytes - before < 200 * CHUNK);
	world_release(&w);
}

static void what_is_pushed_twice_is_delivered_once(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 4);
	push(&w, 4, 3 * CHUNK, 0);
	push(&w, 4, 3 * CHUNK, 0);
	assert_int_equal(transfer_tx_count(w.tx), 1);
	run(&w, 1000);
	assert_int_equal(w.received, 1);
	assert_int_equal(w.delivered, 1);
	assert_int_equal(w.chunk_bytes, 3 * CHUNK);
	push(&w, 4, 3 * CHUNK, 1); // the same bytes with another meta are another object
	run(&w, 1000);
	assert_int_equal(w.received, 2);
	world_release(&w);
}

/* A disk that was full has room again, a round that was given up is opened again. */
static void what_was_answered_is_judged_anew_when_it_is_pushed_again(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 4);
	static const enum err verdicts[] = {ERR_full, ERR_OK, ERR_wrong_round, ERR_OK, ERR_OK};
	for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
		w.verdict = verdicts[i];
		push(&w, 4, 3 * CHUNK, 0);
		run(&w, 4000);
		assert_int_equal(w.received, i + 1);
		if (!w.verdict)
			continue;
		assert_int_equal(w.last.why.code, w.verdict);
		assert_string_equal(w.last.why.text, "as the test wants it");
	}
	assert_int_equal(w.delivered, 3);
	assert_int_equal(w.declined, 2);
	/* a sender that began anew pushes it as its first object */
	transfer_tx_free(w.tx);
	w.limits.push = 1u << 20;
	w.tx = transfer_tx_new(&w.limits);
	push(&w, 4, 3 * CHUNK, 0);
	run(&w, 4000);
	assert_int_equal(w.received, 6);
	world_release(&w);
}

static void what_is_too_large_or_unknown_is_declined_before_any_byte(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 6);
	w.kind.size_most = 1000;
	push(&w, 6, 1001, 0);
	run(&w, 1000);
	assert_int_equal(w.declined, 1);
	assert_int_equal(w.last.why.code, ERR_toobig);
	assert_non_null(strstr(w.last.why.text, "1001"));
	w.kind.kind = KIND + 1;
	push(&w, 7, 10, 0);
	run(&w, 1000);
	assert_int_equal(w.declined, 2);
	assert_int_equal(w.last.why.code, ERR_unsupported);
	assert_int_equal(w.chunk_bytes, 0);
	world_release(&w);
}

static void bytes_that_do_not_match_are_declined(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 8);
	struct transfer_event e;
	bool got;
	shoal_header h = shoal_header_init_zero;
	h.which_body = MSG_begin;
	h.body.begin = (shoal_begin){.kind = KIND, .size = 3, .chunk = CHUNK, .attempt = 1};
	struct transfer_in in = {.header = &h};
	assert_int_equal(transfer_rx_take(w.rx, &in, 1, &e, &got), ERR_OK);
	struct transfer_out out;
	assert_true(transfer_rx_next(w.rx, 1, &out));
	assert_int_equal(out.header.which_body, MSG_credit);
	assert_int_equal(out.header.body.credit.upto, 3);
	h.which_body = MSG_chunk;
	h.body.chunk = (shoal_chunk){.ref = out.header.body.credit.ref};
	in.payload = (const uint8_t *)"abc";
	in.payload_len = 2; // a short chunk is not taken
	assert_int_equal(transfer_rx_take(w.rx, &in, 1, &e, &got), ERR_syntax);
	in.payload_len = 3;
	assert_int_equal(transfer_rx_take(w.rx, &in, 1, &e, &got), ERR_hash);
	assert_false(got);
	assert_true(transfer_rx_next(w.rx, 1, &out));
	assert_int_equal(out.header.which_body, MSG_decline);
	assert_int_equal(out.header.body.decline.code, ERR_hash);
	world_release(&w);
}

static void memory_is_granted_one_after_another(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 9);
	w.budget.most = 10 * CHUNK;
	for (uint8_t i = 0; i < 8; i++)
		push(&w, 9 + i, 8 * CHUNK, i);
	for (int i = 0; i < 5000 && transfer_tx_count(w.tx); i++) {
		turn(&w, CLOCK_MS);
		assert_true(w.budget.used <= w.budget.most);
	}
	assert_int_equal(w.received, 8);
	world_release(&w);
}

static void a_failed_allocation_only_waits(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 10);
	push(&w, 10, 5 * CHUNK, 0);
	alloc_fail_at(1);
	run(&w, 1000);
	alloc_fail_at(0);
	assert_int_equal(w.received, 1);
	world_release(&w);
}

static void more_objects_than_begin_at_once_all_arrive(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 11);
	w.limits.objects = 4;
	for (uint8_t i = 0; i < 100; i++)
		push(&w, 11, 100 + i, i);
	for (int i = 0; i < 5000 && transfer_tx_count(w.tx); i++) {
		turn(&w, CLOCK_MS);
		assert_true(transfer_rx_count(w.rx) <= 4);
	}
	assert_int_equal(w.received, 100);
	world_release(&w);
}

static void a_cancelled_object_frees_the_receiver(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 12);
	struct shared *s = noise(12, 400 * CHUNK);
	uint64_t ref = transfer_tx_push(w.tx, KIND, s, NULL, 0);
	shared_drop(s);
	for (int i = 0; i < 3; i++)
		turn(&w, CLOCK_MS);
	assert_int_equal(w.budget.used, 400 * CHUNK);
	transfer_tx_cancel(w.tx, ref);
	turn(&w, CLOCK_MS);
	assert_int_equal(w.budget.used, 0);
	assert_int_equal(w.received + w.delivered + w.declined, 0);
	world_release(&w);
}

static void what_stalls_is_dropped_and_begins_again(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 13);
	push(&w, 13, 400 * CHUNK, 0);
	for (int i = 0; i < 3; i++)
		turn(&w, CLOCK_MS);
	assert_true(w.budget.used > 0);
	w.weather.lost = 1000;
	for (int i = 0; i < 200; i++)
		turn(&w, CLOCK_SECOND);
	assert_int_equal(w.budget.used, 0);
	w.weather.lost = 0;
	run(&w, 400000);
	assert_int_equal(w.received, 1);
	world_release(&w);
}

/* A link of so many bytes per turn: a message behind the chunks waits about as long as delay_ns. */
static void a_slow_link_holds_little(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 14);
	w.limits.window = 64u << 20; // credit is not what holds it back
	push(&w, 14, 800 * CHUNK, 0);
	uint64_t queue = 0, most = 0, turns = 0;
	const uint64_t per_turn = CHUNK / 4; // 4 MB/s
	for (struct transfer_out out; transfer_tx_count(w.tx) && turns < 100000; turns++) {
		while (transfer_tx_next(w.tx, w.now_ns, &out)) {
			queue += out.len;
			post(&w, &out);
			w.flight[w.in_flight - 1].due_ns = w.now_ns + queue / per_turn * CLOCK_MS;
		}
		most = queue > most ? queue : most;
		while (transfer_rx_next(w.rx, w.now_ns, &out))
			post(&w, &out);
		turn(&w, CLOCK_MS);
		queue -= queue < per_turn ? queue : per_turn;
	}
	assert_int_equal(w.received, 1);
	double per_s = (double)per_turn * 1000;
	assert_true(transfer_tx_rate(w.tx) > per_s / 3 && transfer_tx_rate(w.tx) < per_s * 3);
	assert_true((double)most < 1.5 * per_s);
	assert_true(turns < 800 * 4 * 5 / 4); // and the link was busy
	world_release(&w);
}

static enum err give(struct world *w, const shoal_header *h, const uint8_t *bytes, size_t n)
{
	struct transfer_event e;
	bool got;
	struct transfer_in in = {h, bytes, n};
	enum err err = transfer_rx_take(w->rx, &in, w->now_ns, &e, &got);
	if (got)
		on_received(w, &e);
	return err;
}

static void a_chunk_beyond_the_credit_is_not_taken(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 16);
	w.limits.window = TRANSFER_CHUNK_MOST;
	static const uint8_t zeros[CHUNK];
	const uint64_t chunks = 2 * TRANSFER_CHUNK_MOST / CHUNK;
	struct shared *s = shared_new(alloc_must_zero(chunks, CHUNK), chunks * CHUNK);
	shoal_header h = {.which_body = MSG_begin,
		.body.begin = {.kind = KIND, .size = chunks * CHUNK, .chunk = CHUNK}};
	memcpy(h.body.begin.name, shared_name(s)->b, sizeof h.body.begin.name);
	shoal_header begin = h;
	h = (shoal_header){.which_body = MSG_chunk};
	h.body.chunk.ref = transfer_ref(KIND, shared_name(s), NULL, 0);
	assert_int_equal(give(&w, &h, zeros, CHUNK), ERR_range); // not even begun
	assert_int_equal(give(&w, &begin, NULL, 0), ERR_OK);
	struct transfer_out out;
	assert_true(transfer_rx_next(w.rx, w.now_ns, &out));
	assert_int_equal(out.header.body.credit.upto, TRANSFER_CHUNK_MOST);
	for (; h.body.chunk.offset < TRANSFER_CHUNK_MOST; h.body.chunk.offset += CHUNK)
		assert_int_equal(give(&w, &h, zeros, CHUNK), ERR_OK);
	assert_int_equal(give(&w, &h, zeros, CHUNK), ERR_range);
	assert_true(transfer_rx_next(w.rx, w.now_ns, &out));
	assert_int_equal(out.header.body.credit.upto, chunks * CHUNK);
	for (; h.body.chunk.offset < chunks * CHUNK; h.body.chunk.offset += CHUNK)
		assert_int_equal(give(&w, &h, zeros, CHUNK), ERR_OK);
	assert_int_equal(w.received, 1);
	shared_drop(s);
	world_release(&w);
}

static void what_is_granted_ends_with_whole_chunks(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 17);
	w.limits.window = TRANSFER_CHUNK_MOST + CHUNK / 2;
	push(&w, 17, TRANSFER_CHUNK_MOST * 3, 0);
	struct transfer_out out;
	struct transfer_event e;
	bool got;
	assert_true(transfer_tx_next(w.tx, 1, &out));
	struct transfer_in in = {.header = &out.header};
	assert_int_equal(transfer_rx_take(w.rx, &in, 1, &e, &got), ERR_OK);
	assert_true(transfer_rx_next(w.rx, 1, &out));
	assert_int_equal(out.header.body.credit.upto, TRANSFER_CHUNK_MOST);
	world_release(&w);
}

static void an_old_credit_does_not_turn_back(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 18);
	struct shared *s = noise(18, 100 * CHUNK);
	uint64_t ref = transfer_tx_push(w.tx, KIND, s, NULL, 0);
	struct transfer_out out;
	struct transfer_event e;
	assert_true(transfer_tx_next(w.tx, 1, &out));
	shoal_header h = {.which_body = MSG_credit, .body.credit = {ref, 1, 0, 100 * CHUNK}};
	transfer_tx_take(w.tx, &h, 1, &e);
	assert_true(transfer_tx_next(w.tx, 1, &out));
	assert_true(transfer_tx_next(w.tx, 1, &out));
	h.body.credit.have = 2 * CHUNK;
	transfer_tx_take(w.tx, &h, 2, &e);
	h.body.credit.have = CHUNK; // overtaken on the way
	transfer_tx_take(w.tx, &h, 2, &e);
	h.body.credit =
		(shoal_credit){ref, 7, 50 * CHUNK, 100 * CHUNK}; // of an attempt that never was
	transfer_tx_take(w.tx, &h, 2, &e);
	assert_true(transfer_tx_next(w.tx, 2, &out));
	assert_int_equal(out.offset, 2 * CHUNK);
	assert_true(transfer_tx_next(w.tx, 2, &out));
	assert_int_equal(out.offset, 3 * CHUNK);
	shared_drop(s);
	world_release(&w);
}

static void lies_of_a_receiver_change_nothing(void **state)
{
	(void)state;
	struct world w;
	world_init(&w, 20); // even: no byte goes before its credit
	struct shared *s = noise(15, 10 * CHUNK);
	uint64_t ref = transfer_tx_push(w.tx, KIND, s, NULL, 0);
	struct transfer_event e;
	shoal_header h = shoal_header_init_zero;
	h.which_body = MSG_done;
	h.body.done.ref = ref;
	assert_false(transfer_tx_take(w.tx, &h, 1, &e)); // never begun
	struct transfer_out out;
	assert_true(transfer_tx_next(w.tx, 1, &out));
	h.which_body = MSG_credit;
	h.body.credit = (shoal_credit){ref, 1, UINT64_MAX, UINT64_MAX};
	assert_false(transfer_tx_take(w.tx, &h, 1, &e));
	assert_false(transfer_tx_next(w.tx, 1, &out));
	h.body.credit = (shoal_credit){ref ^ 1, 1, 0, CHUNK};
	assert_false(transfer_tx_take(w.tx, &h, 1, &e));
	assert_false(transfer_tx_next(w.tx, 1, &out));
	h.body.credit = (shoal_credit){ref, 1, 0, CHUNK};
	assert_false(transfer_tx_take(w.tx, &h, 1, &e));
	assert_true(transfer_tx_next(w.tx, 1, &out));
	assert_int_equal(out.len, CHUNK);
	assert_false(transfer_tx_next(w.tx, 1, &out)); // no more than the credit
	h.which_body = MSG_decline;
	h.body.decline = (shoal_decline){.ref = ref, .code = 99999};
	assert_true(transfer_tx_take(w.tx, &h, 1, &e));
	assert_int_equal(e.what, TRANSFER_declined);
	assert_int_equal(e.why.code, ERR_refused);
	shared_drop(s);
	world_release(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_weather_sends_each_byte_once),
		cmocka_unit_test(bad_weather_ends_in_the_same_bytes_once),
		cmocka_unit_test(a_cut_resumes_where_it_was),
		cmocka_unit_test(what_is_pushed_twice_is_delivered_once),
		cmocka_unit_test(what_was_answered_is_judged_anew_when_it_is_pushed_again),
		cmocka_unit_test(what_is_too_large_or_unknown_is_declined_before_any_byte),
		cmocka_unit_test(bytes_that_do_not_match_are_declined),
		cmocka_unit_test(memory_is_granted_one_after_another),
		cmocka_unit_test(a_failed_allocation_only_waits),
		cmocka_unit_test(more_objects_than_begin_at_once_all_arrive),
		cmocka_unit_test(a_cancelled_object_frees_the_receiver),
		cmocka_unit_test(what_stalls_is_dropped_and_begins_again),
		cmocka_unit_test(a_slow_link_holds_little),
		cmocka_unit_test(lies_of_a_receiver_change_nothing),
		cmocka_unit_test(a_chunk_beyond_the_credit_is_not_taken),
		cmocka_unit_test(what_is_granted_ends_with_whole_chunks),
		cmocka_unit_test(an_old_credit_does_not_turn_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
