/* Members that lie, vanish, drift or are put out: refused with a code, counted, and the others go
 * on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/help_coordinator.h"

/* A round is open, nobody has contributed. */
static void open_round(struct hub *h, struct spec **spec)
{
	*spec = help_coordinator_spec();
	help_coordinator_open(h, *spec);
	for (uint32_t i = 0; i < HELP_COORDINATOR_MEMBERS; i++)
		help_coordinator_hello(h, i);
	assert_int_equal(rounds_ask_state(h->rounds), ROUNDS_open);
}

static void close_all(struct hub *h, struct spec *spec)
{
	hub_close(h);
	spec_free(spec);
}

static void count_code(void *arg, enum err code, uint64_t count)
{
	((uint64_t *)arg)[code] += count;
}

static uint64_t refusals(struct hub *h, enum err code)
{
	uint64_t counts[100] = {0};
	struct why why;
	hub_store_refusals(h);
	assert_int_equal(store_refusal_counts(h->run.store, count_code, counts, &why), ERR_OK);
	return counts[code];
}

static uint64_t wanted; /* refusals that until_refused waits for */

static bool refused(const struct hub *h)
{
	return h->refusals >= wanted;
}

/* The object is refused with this code. */
static void refuses(struct hub *h, uint32_t i, const struct buf *b, enum err code)
{
	uint64_t before = refusals(h, code);
	wanted = h->refusals + 1;
	help_coordinator_object(h, i, b->data, b->len);
	help_coordinator_until(h, refused);
	assert_int_equal(h->refusals, wanted);
	if (refusals(h, code) != before + 1)
		fail_msg("not refused as %s: %s", err_name(code), err_text(code));
}

static void seal(struct hub *h, uint32_t i, uint32_t shard, struct buf *b)
{
	buf_init(b, 1 << 20);
	help_coordinator_seal(h, i, shard, b);
	assert_true(buf_ok(b));
}

static void contributions_are_not_believed(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	struct buf b, old;
	open_round(&h, &spec);

	buf_init(&b, 100);
	buf_put(&b, "hello", 5);
	refuses(&h, 0, &b, ERR_magic);
	buf_release(&b);

	seal(&h, 0, 0, &b);
	b.data[b.len - 1] ^= 1; /* the frame */
	uint64_t before = h.refusals;
	wanted = before + 1;
	help_coordinator_object(&h, 0, b.data, b.len);
	help_coordinator_until(&h, refused);
	buf_release(&b);

	seal(&h, 0, 0, &b);
	refuses(&h, 1, &b, ERR_unknown_peer); /* somebody else's */
	b.data[12] ^= 3;                      /* and signed over to the sender */
	refuses(&h, 1, &b, ERR_signature);
	buf_release(&b);

	seal(&h, 0, 0, &b);
	memset(b.data + 80, 9, 8); /* another round */
	refuses(&h, 0, &b, ERR_wrong_round);
	buf_release(&b);

	seal(&h, 0, 0, &old);
	help_coordinator_play(&h, 1);
	refuses(&h, 0, &old, ERR_wrong_round); /* replayed */
	buf_release(&old);

	help_coordinator_play(&h, 2);
	close_all(&h, spec);
}

static bool shard_in(const struct hub *h)
{
	return h->members[MEMBERS_FIRST].arrived[0].have;
}

static void twice_is_once(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	struct buf b;
	open_round(&h, &spec);
	seal(&h, 0, 0, &b);
	help_coordinator_object(&h, 0, b.data, b.len);
	help_coordinator_object(&h, 0, b.data, b.len); /* while the first is being looked at */
	help_coordinator_until(&h, shard_in);
	help_coordinator_object(&h, 0, b.data, b.len);
	help_coordinator_contribute(&h, 0, 1);
	help_coordinator_play(&h, 1);
	assert_int_equal(h.refusals, 0); /* the very same is no fault */
	assert_int_equal(ledger_peer_tokens(h.run.ledger, MEMBERS_FIRST), 32);
	buf_release(&b);
	close_all(&h, spec);
}

/* Plan or report were lost on the way: both sides would wait for ever. */
static void who_waits_for_us_is_told_again(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	shoal_header m = {.which_body = MSG_heartbeat};
	open_round(&h, &spec);
	m.body.heartbeat.state = shoal_state_ready;
	help_coordinator_message(&h, 0, &m); /* at once: the plan is still on its way */
	assert_int_equal(h.members[MEMBERS_FIRST].nudged_ns, 0);
	struct link_event *e = link_event_new(LINK_message, help_coordinator_link(0));
	e->header = m;
	hub_take(&h, &e->mail, clock_now_ns() + 5 * CLOCK_SECOND);
	assert_true(h.members[MEMBERS_FIRST].nudged_ns > 0);
	close_all(&h, spec);
}

static bool is_closed(const struct hub *h)
{
	return run_head(&h->run).round == 1;
}

static void a_vanished_member_is_left_out(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	size_t n;
	open_round(&h, &spec);
	help_coordinator_contribute(&h, 2, 0); /* half of what it owes */
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t s = 0; s < 2; s++)
			help_coordinator_contribute(&h, i, s);
	help_coordinator_lost(&h, 2);
	assert_int_not_equal(rounds_ask_deadline(h.rounds), UINT64_MAX);
	uint64_t later = clock_now_ns() + 3600 * CLOCK_SECOND;
	while (run_head(&h.run).round == 0) {
		rounds_tick(h.rounds, later);
		hub_settle(&h, later);
		struct mail *m = mailbox_wait(h.mail, 30 * CLOCK_SECOND);
		assert_non_null(m);
		hub_take(&h, m, later);
	}
	help_coordinator_until(&h, is_closed);
	assert_int_equal(ledger_tokens(h.run.ledger), 64);
	assert_int_equal(ledger_peer_tokens(h.run.ledger, MEMBERS_FIRST + 2), 0);
	const struct span *pool = rounds_ask_pool(h.rounds, &n);
	assert_int_equal(n, 1); /* its four sequences come back */
	assert_int_equal(pool[0].last - pool[0].first, 4);

	/* also after a restart; and they are given out again */
	hub_close(&h);
	help_coordinator_open(&h, spec);
	rounds_ask_pool(h.rounds, &n);
	assert_int_equal(n, 1);
	help_coordinator_play(&h, 2);
	rounds_ask_pool(h.rounds, &n);
	assert_int_equal(n, 0);
	close_all(&h, spec);
}

static void who_was_dropped_is_not_blamed(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	struct buf b;
	open_round(&h, &spec);
	seal(&h, 2, 0, &b);
	help_coordinator_lost(&h, 2);
	rounds_tick(h.rounds, clock_now_ns() + 3600 * CLOCK_SECOND);
	hub_settle(&h, clock_now_ns());
	assert_false(rounds_ask_member(h.rounds, MEMBERS_FIRST + 2)->assigned);
	assert_int_equal(rounds_ask_state(h.rounds), ROUNDS_open);
	help_coordinator_hello(&h, 2);
	refuses(&h, 2, &b, ERR_wrong_round);
	buf_release(&b);
	close_all(&h, spec);
}

static void reports_and_losses_are_checked(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	shoal_header m = {.which_body = MSG_report};
	open_round(&h, &spec);
	m.body.report.sequence = run_head(&h.run).sequence;
	help_coordinator_message(&h, 0, &m); /* a state of zeros */
	assert_int_equal(refusals(&h, ERR_hash), 1);
	assert_int_equal(h.diverged, 1);

	uint32_t asked = h.validator - MEMBERS_FIRST, other = (asked + 1) % 3;
	m = (shoal_header){.which_body = MSG_validation};
	m.body.validation.nats_per_token = m.body.validation.nats_per_byte = 1;
	m.body.validation.tokens = 1;
	help_coordinator_message(&h, other, &m);
	assert_int_equal(refusals(&h, ERR_refused), 1);
	m.body.validation.nats_per_byte = NAN;
	help_coordinator_message(&h, asked, &m);
	assert_int_equal(refusals(&h, ERR_not_finite), 1);
	assert_false(h.have_loss);
	m.body.validation.nats_per_byte = 2;
	help_coordinator_message(&h, asked, &m);
	assert_true(h.have_loss);
	help_coordinator_message(&h, asked, &m); /* once */
	assert_int_equal(refusals(&h, ERR_refused), 2);
	close_all(&h, spec);
}

static void say_hello(struct hub *h, uint32_t i, const shoal_hello *hello)
{
	struct link_event *e = link_event_new(LINK_connected, help_coordinator_link(i));
	e->header.which_body = MSG_hello;
	e->header.body.hello = *hello;
	hub_take(h, &e->mail, clock_now_ns());
}

static void hellos_are_checked(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec = help_coordinator_spec();
	help_coordinator_open(&h, spec);
	help_coordinator_play(&h, 1);
	struct ledger_head head = run_head(&h.run);
	shoal_hello good = {.number = MEMBERS_FIRST, .instance = 1, .sequence = head.sequence}, bad;
	memcpy(good.run, spec->id.b, sizeof good.run);
	memcpy(good.head, head.hash.b, sizeof good.head);

	bad = good;
	bad.number = 2;
	say_hello(&h, 0, &bad);
	assert_int_equal(refusals(&h, ERR_unknown_peer), 1);
	bad = good;
	bad.run[3] ^= 1;
	say_hello(&h, 0, &bad);
	assert_int_equal(refusals(&h, ERR_wrong_run), 1);
	bad = good;
	bad.head[3] ^= 1;
	say_hello(&h, 0, &bad);
	assert_int_equal(refusals(&h, ERR_fork), 1);
	bad = good;
	bad.sequence = 1000;
	say_hello(&h, 0, &bad);
	assert_int_equal(refusals(&h, ERR_fork), 2);
	bad = good;
	bad.sequence = 0;
	memcpy(bad.head, h.run.genesis.b, sizeof bad.head);
	say_hello(&h, 0, &bad); /* behind, and that is well */
	assert_int_equal(rounds_ask_member(h.rounds, MEMBERS_FIRST)->state, MEMBER_syncing);
	assert_int_equal(h.refusals, 4);
	close_all(&h, spec);
}

static bool one_round(const struct hub *h)
{
	return run_head(&h->run).round >= 1;
}

static void who_is_kicked_stays_out(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	open_round(&h, &spec);
	uint64_t version = roster_version(members_roster(h.run.members));
	assert_int_equal(hub_kick(&h, 77, clock_now_ns()), ERR_missing);
	assert_int_equal(hub_kick(&h, MEMBERS_FIRST, clock_now_ns()), ERR_OK);
	hub_settle(&h, clock_now_ns());
	assert_int_equal(roster_version(members_roster(h.run.members)), version + 1);
	assert_int_equal(members_by_link(h.run.members, help_coordinator_link(0)), MEMBERS_NONE);
	assert_int_equal(members_count(h.run.members), 2);
	assert_false(rounds_ask_member(h.rounds, MEMBERS_FIRST)->assigned);
	for (uint32_t i = 1; i < 3; i++)
		for (uint32_t s = 0; s < 2; s++)
			help_coordinator_contribute(&h, i, s);
	help_coordinator_until(&h, one_round);
	help_coordinator_hello(&h, 0);
	assert_int_equal(refusals(&h, ERR_unknown_peer), 1);
	hub_close(&h);
	help_coordinator_open(&h, spec);
	assert_int_equal(members_count(h.run.members), 2);
	assert_int_equal(rounds_ask_member(h.rounds, MEMBERS_FIRST)->state, MEMBER_gone);
	close_all(&h, spec);
}

static void paused_is_paused(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec;
	open_round(&h, &spec);
	hub_pause(&h, true, clock_now_ns());
	for (uint32_t i = 0; i < 3; i++)
		for (uint32_t s = 0; s < 2; s++)
			help_coordinator_contribute(&h, i, s);
	help_coordinator_until(&h, one_round);
	for (uint32_t i = 0; i < 3; i++)
		help_coordinator_report(&h, i);
	assert_int_equal(rounds_ask_state(h.rounds), ROUNDS_waiting);
	hub_close(&h);
	help_coordinator_open(&h, spec); /* it is remembered */
	for (uint32_t i = 0; i < 3; i++)
		help_coordinator_hello(&h, i);
	assert_int_equal(rounds_ask_state(h.rounds), ROUNDS_waiting);
	hub_pause(&h, false, clock_now_ns());
	hub_settle(&h, clock_now_ns());
	assert_int_equal(rounds_ask_state(h.rounds), ROUNDS_open);
	close_all(&h, spec);
}

static bool over(const struct hub *h)
{
	return h->ended && !h->snapshot_due;
}

static void the_run_ends(void **state)
{
	(void)state;
	struct hub h;
	struct spec *spec = help_coordinator_spec();
	help_coordinator_open(&h, spec);
	help_coordinator_play(&h, 10);
	assert_int_equal(rounds_ask_state(h.rounds), ROUNDS_finishing);
	assert_int_not_equal(h.validator, MEMBERS_NONE); /* asked for the last loss */
	shoal_header v = {.which_body = MSG_validation};
	v.body.validation = (shoal_validation){
		.round = 10, .nats_per_token = 1, .nats_per_byte = 1, .tokens = 5};
	help_coordinator_message(&h, h.validator - MEMBERS_FIRST, &v);
	assert_int_equal(rounds_ask_state(h.rounds), ROUNDS_finished);
	help_coordinator_until(&h, over);
	hub_close(&h);
	help_coordinator_open(&h, spec);
	assert_int_equal(rounds_ask_state(h.rounds), ROUNDS_finished);
	help_coordinator_until(&h, over);
	close_all(&h, spec);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, help_coordinator_setup, help_coordinator_teardown)

int main(void)
{
	struct why why;
	if (log_select("0", &why))
		return 1;
	const struct CMUnitTest tests[] = {
		TEST(contributions_are_not_believed),
		TEST(twice_is_once),
		TEST(who_waits_for_us_is_told_again),
		TEST(a_vanished_member_is_left_out),
		TEST(who_was_dropped_is_not_blamed),
		TEST(reports_and_losses_are_checked),
		TEST(hellos_are_checked),
		TEST(who_is_kicked_stays_out),
		TEST(paused_is_paused),
		TEST(the_run_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
