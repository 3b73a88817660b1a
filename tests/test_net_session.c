/* Sessions under a virtual clock: who is in charge of a key, signs of life, rates, what may be said
 * when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "net/session.h"

#define SENT 4096

static struct link_config config;
static struct link_counters counters;
static struct session_world world;
static struct session *session;
static struct mailbox *events;
static const uint8_t key[LINK_KEY] = {1, 2, 3};
static uint64_t now_ns;

static struct {
	shoal_header header;
	uint32_t conn;
} sent[SENT];
static size_t n_sent, n_cuts;
static uint32_t last_cut;
static enum err send_result;

static enum err on_send(void *arg, const uint8_t *to, uint32_t conn, const struct transfer_out *out)
{
	(void)arg;
	assert_memory_equal(to, key, LINK_KEY);
	if (send_result)
		return send_result;
	assert_true(n_sent < SENT);
	sent[n_sent].header = out->header;
	sent[n_sent++].conn = conn;
	return ERR_OK;
}

static void on_event(void *arg, struct link_event *e)
{
	(void)arg;
	mailbox_put(events, &e->mail);
}

static void on_cut(void *arg, const struct session_conn *conn)
{
	(void)arg;
	n_cuts++;
	last_cut = conn->id;
}

static void begin(enum link_role role)
{
	link_config_init(&config);
	config.role = role;
	counters = (struct link_counters){0};
	world = (struct session_world){.config = &config,
		.io = {NULL, on_send, on_event, on_cut},
		.counters = &counters,
		.budget = {0, 1u << 20}};
	events = mailbox_new();
	session = session_new(&world, key);
	n_sent = n_cuts = 0;
	send_result = ERR_OK;
	now_ns = 1000 * CLOCK_SECOND;
}

static int end(void **state)
{
	(void)state;
	session_free(session);
	mailbox_free(events);
	assert_int_equal(world.budget.used, 0);
	assert_int_equal(counters.links, 0);
	return 0;
}

static int begin_coordinator(void **state)
{
	(void)state;
	begin(LINK_coordinator);
	return 0;
}

static int begin_peer(void **state)
{
	(void)state;
	begin(LINK_peer);
	return 0;
}

static bool take(uint32_t conn, const shoal_header *h)
{
	struct session_in in = {.conn = {conn, (int)conn}, .header = h};
	return session_take(session, &in, now_ns);
}

static bool hello(uint32_t conn, uint64_t instance)
{
	shoal_header h = {.which_body = MSG_hello, .body.hello.instance = instance};
	return take(conn, &h);
}

static void welcome(void)
{
	shoal_header h = {.which_body = MSG_welcome};
	session_send(session, &h, NULL);
}

/* The next event must be of this kind; its code is given. */
static enum err next_event(enum link_event_kind kind)
{
	struct link_event *e = link_event_of(mailbox_take(events));
	assert_non_null(e);
	assert_string_equal(
		link_event_name((enum link_event_kind)e->mail.kind), link_event_name(kind));
	enum err code = e->why.code;
	link_event_free(e);
	return code;
}

static void no_event(void)
{
	assert_null(mailbox_take(events));
}

static const shoal_header *last_sent(void)
{
	assert_true(n_sent > 0);
	return &sent[n_sent - 1].header;
}

static void one_process_reconnects(void **state)
{
	(void)state;
	assert_true(hello(10, 5));
	next_event(LINK_connected);
	welcome();
	assert_true(session_is_open(session));
	assert_true(hello(11, 5));
	assert_int_equal(next_event(LINK_lost), ERR_closed);
	next_event(LINK_connected);
	assert_int_equal(last_cut, 10);
	welcome();
	assert_int_equal(sent[n_sent - 1].conn, 11);
	assert_true(hello(11, 5)); // said twice on one connection: nothing
	no_event();
	// A late word from the connection before.
	shoal_header h = {.which_body = MSG_heartbeat};
	assert_false(take(10, &h));
	no_event();
	assert_int_equal(counters.refused_hello + counters.refused_clone, 0);
}

static void a_restart_takes_over_and_is_no_clone(void **state)
{
	(void)state;
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	assert_true(hello(11, 6));
	assert_int_equal(next_event(LINK_lost), ERR_exists);
	next_event(LINK_connected);
	welcome();
	// The last hello of the dead process was still on its way.
	now_ns += config.timeout_ns;
	assert_false(hello(12, 5));
	assert_int_equal(last_sent()->which_body, MSG_refusal);
	assert_int_equal(last_sent()->body.refusal.code, ERR_exists);
	assert_int_equal(sent[n_sent - 1].conn, 12);
	no_event();
	assert_true(session_is_open(session));
}

static void a_lower_instance_that_lives_is_a_clone(void **state)
{
	(void)state;
	hello(10, 6);
	welcome();
	next_event(LINK_connected);
	now_ns += config.timeout_ns + 1;
	assert_false(hello(12, 5));
	struct link_event *e = link_event_of(mailbox_take(events));
	assert_int_equal(e->mail.kind, LINK_clone);
	assert_int_equal(e->instance, 6);
	assert_int_equal(e->other_instance, 5);
	link_event_free(e);
	assert_int_equal(counters.refused_clone, 1);
	// Once the one in charge is gone, the other may come.
	session_tick(session, now_ns);
	assert_int_equal(next_event(LINK_lost), ERR_timeout);
	assert_true(hello(13, 5));
	next_event(LINK_connected);
}

static void silence_is_a_loss_and_any_message_a_sign_of_life(void **state)
{
	(void)state;
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	for (int i = 0; i < 10; i++) {
		now_ns += config.timeout_ns;
		session_tick(session, now_ns);
		shoal_header h = {.which_body = MSG_report};
		assert_true(take(10, &h));
		next_event(LINK_message);
	}
	now_ns += config.timeout_ns + 1;
	session_tick(session, now_ns);
	assert_int_equal(next_event(LINK_lost), ERR_timeout);
	assert_int_equal(last_cut, 10);
	session_tick(session, now_ns); // once
	no_event();
	welcome(); // too late
	assert_int_equal(counters.unsent, 1);
}

static void nothing_is_heard_before_hello_and_welcome(void **state)
{
	(void)state;
	shoal_header h = {.which_body = MSG_heartbeat};
	assert_false(take(10, &h));
	assert_int_equal(last_sent()->body.refusal.code, ERR_state);
	assert_int_equal(last_cut, 10);
	hello(10, 5);
	next_event(LINK_connected);
	assert_false(take(10, &h));
	no_event();
	assert_int_equal(counters.refused_hello, 2);
	h = msg_refusal(MSG_hello, ERR_wrong_run, "not this run");
	session_send(session, &h, NULL);
	assert_true(session_is_down(session));
	no_event();
}

static void heartbeats_are_echoed(void **state)
{
	(void)state;
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	shoal_header h = {.which_body = MSG_heartbeat, .body.heartbeat.sequence = 77};
	assert_true(take(10, &h));
	assert_int_equal(last_sent()->which_body, MSG_echo);
	assert_int_equal(last_sent()->body.echo.sequence, 77);
	next_event(LINK_message);
}

static void too_many_messages_are_dropped_told_once_and_cut(void **state)
{
	(void)state;
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	shoal_header h = {.which_body = MSG_report};
	uint32_t taken = 0, told = 0;
	for (uint32_t i = 0; i < config.messages_burst * 8; i++)
		taken += take(10, &h);
	for (size_t i = 0; i < n_sent; i++)
		told += sent[i].header.which_body == MSG_refusal;
	assert_int_equal(taken, config.messages_burst - 1); // hello was one
	assert_int_equal(told, 1);
	assert_int_equal(n_cuts, 0);
	for (uint32_t i = 0; i < config.messages_burst * 4; i++)
		take(10, &h);
	assert_int_equal(n_cuts, 1);
	now_ns += CLOCK_SECOND;
	taken = 0;
	for (uint32_t i = 0; i < config.messages_burst; i++)
		taken += take(10, &h);
	assert_int_equal(taken, config.messages_per_s);
}

static void a_full_queue_ends_the_link(void **state)
{
	(void)state;
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	send_result = ERR_busy;
	shoal_header h = {.which_body = MSG_park};
	session_send(session, &h, NULL);
	assert_int_equal(next_event(LINK_lost), ERR_network);
	assert_int_equal(counters.unsent, 1);
}

static void a_document_too_large_is_not_sent(void **state)
{
	(void)state;
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	size_t before = n_sent;
	struct shared *s = shared_new(alloc_must_zero(1, MSG_PAYLOAD_MAX + 1), MSG_PAYLOAD_MAX + 1);
	shoal_header h = {.which_body = MSG_roster};
	session_send(session, &h, s);
	shared_drop(s);
	assert_int_equal(n_sent, before);
	assert_int_equal(counters.unsent, 1);
	assert_true(session_is_open(session));
}

static void a_chunk_that_does_not_fit_waits(void **state)
{
	(void)state;
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	struct shared *s = shared_copy("abc", 3);
	struct link_object o = {1, s, NULL, 0};
	session_push(session, &o);
	assert_int_equal(session_pump(session, now_ns), SESSION_rest_none);
	assert_int_equal(last_sent()->which_body, MSG_begin);
	uint64_t ref = transfer_ref(1, shared_name(s), NULL, 0);
	shoal_header credit = {.which_body = MSG_credit, .body.credit = {ref, 1, 0, 3}};
	assert_true(take(10, &credit));
	send_result = ERR_busy;
	assert_int_equal(session_pump(session, now_ns), SESSION_rest_queue);
	assert_int_equal(session_pump(session, now_ns), SESSION_rest_queue);
	assert_true(session_is_open(session));
	send_result = ERR_OK;
	assert_int_equal(session_pump(session, now_ns), SESSION_rest_none);
	assert_int_equal(last_sent()->which_body, MSG_chunk);
	shoal_header done = {.which_body = MSG_done, .body.done = {ref}};
	assert_true(take(10, &done));
	next_event(LINK_delivered);
	shared_drop(s);
}

static void bulk_waits_for_the_egress_and_nothing_else_does(void **state)
{
	(void)state;
	struct egress *egress = config.egress = egress_new(8000000);
	hello(10, 5);
	welcome();
	next_event(LINK_connected);
	egress_count(egress, EGRESS_bulk, 3000000, now_ns); /* of others: three seconds */
	struct shared *s = shared_copy("abc", 3);
	struct link_object o = {1, s, NULL, 0};
	session_push(session, &o);
	const size_t before = n_sent;
	assert_int_equal(session_pump(session, now_ns), SESSION_rest_egress);
	assert_int_equal(n_sent, before);
	/* What the other side brings is granted and answered, and it hears echoes and heads. */
	shoal_header h = {
		.which_body = MSG_begin, .body.begin = {.kind = 1, .size = 3, .attempt = 1}};
	memcpy(h.body.begin.name, shared_name(s)->b, sizeof shared_name(s)->b);
	take(10, &h);
	assert_int_equal(session_pump(session, now_ns), SESSION_rest_egress);
	assert_int_equal(n_sent, before + 1);
	assert_true(
		last_sent()->which_body == MSG_credit || last_sent()->which_body == MSG_decline);
	h = (shoal_header){.which_body = MSG_heartbeat, .body.heartbeat.sequence = 3};
	take(10, &h);
	assert_int_equal(last_sent()->which_body, MSG_echo);
	next_event(LINK_message);
	now_ns += 3 * CLOCK_SECOND;
	assert_int_equal(session_pump(session, now_ns), SESSION_rest_none);
	assert_int_equal(last_sent()->which_body, MSG_begin);
	shared_drop(s);
	config.egress = NULL;
	egress_free(egress);
}

/* ---- peer */

static void a_peer_greets_beats_and_measures(void **state)
{
	(void)state;
	shoal_hello say = {.instance = 3};
	session_up(session, 1, &say, now_ns);
	assert_int_equal(last_sent()->which_body, MSG_hello);
	session_tick(session, now_ns += CLOCK_SECOND);
	assert_int_equal(n_sent, 1); // no heartbeat before welcome
	shoal_header h = {.which_body = MSG_welcome};
	take(1, &h);
	next_event(LINK_connected);
	shoal_heartbeat status = {.state = shoal_state_ready, .sequence = 999, .rtt_us = 999};
	session_status(session, &status, now_ns);
	for (uint32_t i = 1; i <= 3; i++) {
		now_ns += config.heartbeat_ns;
		session_tick(session, now_ns);
		session_tick(session, now_ns);
		const shoal_heartbeat *b = &last_sent()->body.heartbeat;
		assert_int_equal(n_sent, 1 + i);
		assert_int_equal(b->sequence, i);
		assert_int_equal(b->state, shoal_state_ready);
		assert_int_equal(b->age_ms, i * config.heartbeat_ns / CLOCK_MS);
		assert_int_equal(b->rtt_us, i == 1 ? 0 : 7000);
		h = (shoal_header){.which_body = MSG_echo, .body.echo.sequence = i};
		now_ns += 7 * CLOCK_MS;
		take(1, &h);
		now_ns -= 7 * CLOCK_MS;
		no_event();
	}
}

static void a_peer_learns_why_a_greeting_failed(void **state)
{
	(void)state;
	shoal_hello say = {.instance = 3};
	struct why why;
	session_up(session, 1, &say, now_ns);
	shoal_header h = {.which_body = MSG_plan};
	assert_false(take(1, &h)); // not before welcome
	h = msg_refusal(MSG_hello, ERR_version, "update");
	take(1, &h);
	assert_true(session_failed(session, &why));
	assert_int_equal(why.code, ERR_version);
	assert_string_equal(why.text, "update");
	assert_false(session_failed(session, &why));
	session_up(session, 2, &say, now_ns);
	now_ns += config.connect_ns + 1;
	session_tick(session, now_ns);
	assert_true(session_failed(session, &why));
	assert_int_equal(why.code, ERR_timeout);
	no_event(); // none of these was a link
}

static void a_peer_never_answers_what_it_cannot_read(void **state)
{
	(void)state;
	shoal_hello say = {.instance = 3};
	struct why why, other;
	session_up(session, 1, &say, now_ns);
	err_why(&other, ERR_version, "2.0 and 1.0");
	struct session_in in = {.conn = {1, -1}, .why = &other};
	assert_false(session_take(session, &in, now_ns));
	assert_int_equal(n_sent, 1); // the hello
	assert_true(session_failed(session, &why));
	assert_int_equal(why.code, ERR_version);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define C(name) cmocka_unit_test_setup_teardown(name, begin_coordinator, end)
#define P(name) cmocka_unit_test_setup_teardown(name, begin_peer, end)
		C(one_process_reconnects),
		C(a_restart_takes_over_and_is_no_clone),
		C(a_lower_instance_that_lives_is_a_clone),
		C(silence_is_a_loss_and_any_message_a_sign_of_life),
		C(nothing_is_heard_before_hello_and_welcome),
		C(heartbeats_are_echoed),
		C(too_many_messages_are_dropped_told_once_and_cut),
		C(a_full_queue_ends_the_link),
		C(a_document_too_large_is_not_sent),
		C(a_chunk_that_does_not_fit_waits),
		C(bulk_waits_for_the_egress_and_nothing_else_does),
		P(a_peer_greets_beats_and_measures),
		P(a_peer_learns_why_a_greeting_failed),
		P(a_peer_never_answers_what_it_cannot_read),
#undef C
#undef P
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
