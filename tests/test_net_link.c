/* Links between real sockets on loopback: greeting, admission, loss, clones, objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/help_net.h"

static struct help_net_end coordinator, peer;

static int setup(void **state)
{
	(void)state;
	help_net_init(&coordinator, LINK_coordinator);
	help_net_init(&peer, LINK_peer);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	help_net_stop(&peer);
	help_net_stop(&coordinator);
	return 0;
}

static void start(void)
{
	help_net_start(&coordinator);
	help_net_start(&peer);
}

static void join(void)
{
	start();
	help_net_join(&peer, &coordinator, link_port(coordinator.link));
}

static void connect_to(const uint8_t *key, uint16_t port)
{
	char address[32];
	shoal_hello hello = help_net_hello(1);
	snprintf(address, sizeof address, "127.0.0.1:%u", port);
	link_connect(peer.link, key, address, &hello);
}

static void greeting_heartbeats_messages_and_goodbye(void **state)
{
	(void)state;
	start();
	help_net_admit(&coordinator, peer.keys.public_key);
	shoal_heartbeat status = {.state = shoal_state_working, .round = 9, .steps = 30};
	connect_to(coordinator.keys.public_key, link_port(coordinator.link));
	link_status(peer.link, &status);

	struct link_event *e = help_net_wait(&coordinator, LINK_connected);
	assert_memory_equal(e->key, peer.keys.public_key, LINK_KEY);
	assert_int_equal(e->header.which_body, MSG_hello);
	assert_int_equal(e->header.body.hello.sequence, 17);
	assert_int_equal(e->header.body.hello.run[31], 0xab);
	link_event_free(e);
	help_net_welcome(&coordinator, peer.keys.public_key);
	e = help_net_wait(&peer, LINK_connected);
	assert_memory_equal(e->key, coordinator.keys.public_key, LINK_KEY);
	assert_int_equal(e->header.body.welcome.number, 4);
	link_event_free(e);

	uint32_t last = 0;
	for (uint32_t rtt = 0; !rtt;) { // the first heartbeats do not know it yet
		e = help_net_wait(&coordinator, LINK_message);
		assert_int_equal(e->header.which_body, MSG_heartbeat);
		const shoal_heartbeat *h = &e->header.body.heartbeat;
		assert_true(h->sequence > last);
		assert_int_equal(h->state, shoal_state_working);
		assert_int_equal(h->round, 9);
		last = h->sequence;
		rtt = h->rtt_us;
		link_event_free(e);
	}

	shoal_header plan = {.which_body = MSG_plan, .body.plan.round = 10};
	struct shared *document = help_net_bytes(1, MSG_PAYLOAD_MAX);
	link_send(coordinator.link, peer.keys.public_key, &plan, document);
	e = help_net_wait(&peer, LINK_message);
	assert_int_equal(e->header.body.plan.round, 10);
	assert_int_equal(e->payload_len, MSG_PAYLOAD_MAX);
	assert_memory_equal(e->payload, shared_data(document), MSG_PAYLOAD_MAX);
	link_event_free(e);
	shared_drop(document);

	shoal_header bye = msg_bye("the test is over");
	link_send(peer.link, coordinator.keys.public_key, &bye, NULL);
	e = help_net_wait(&coordinator, LINK_lost);
	assert_int_equal(e->why.code, ERR_closed);
	assert_string_equal(e->why.text, "the test is over");
	link_event_free(e);
}

static void the_last_word_leaves_before_the_end(void **state)
{
	(void)state;
	join();
	shoal_header bye = msg_bye("going down");
	link_send(coordinator.link, peer.keys.public_key, &bye, NULL);
	help_net_stop(&coordinator);
	struct link_event *e = help_net_wait(&peer, LINK_lost);
	assert_int_equal(e->why.code, ERR_closed);
	assert_string_equal(e->why.text, "going down");
	link_event_free(e);
}

static void the_last_answer_leaves_before_the_end(void **state)
{
	(void)state;
	join();
	struct shared *s = help_net_bytes(6, 1000);
	help_net_push(&peer, coordinator.keys.public_key, s);
	shared_drop(s);
	struct link_event *e = help_net_wait(&coordinator, LINK_object);
	link_answer(coordinator.link, e->key, e->ref, ERR_OK, NULL);
	link_event_free(e);
	help_net_stop(&coordinator);
	help_net_expect(&peer, LINK_delivered);
}

static void what_is_sent_through_a_slow_line_arrives(void **state)
{
	(void)state;
	peer.config.send_bytes_per_s = 20e6;
	peer.config.send_delay_ns = 30 * CLOCK_MS;
	join();
	struct shared *s = help_net_bytes(9, 3u << 20);
	help_net_push(&peer, coordinator.keys.public_key, s);
	shared_drop(s);
	struct link_event *e = help_net_wait(&coordinator, LINK_object);
	assert_true(e->taken_ns >= 3 * CLOCK_SECOND / 25); // less one chunk, which is there first
	link_answer(coordinator.link, e->key, e->ref, ERR_OK, NULL);
	link_event_free(e);
	e = help_net_wait(&peer, LINK_delivered);
	assert_true(!e->rtt_ns || e->rtt_ns >= 30 * CLOCK_MS);
	link_event_free(e);
}

static void a_wrong_server_key_is_named(void **state)
{
	(void)state;
	struct help_net_keys other;
	help_net_keys(&other);
	start();
	help_net_admit(&coordinator, peer.keys.public_key);
	connect_to(other.public_key, link_port(coordinator.link));
	struct link_event *e = help_net_wait(&peer, LINK_waiting);
	assert_int_equal(e->why.code, ERR_network);
	assert_non_null(strstr(e->why.text, "another key"));
	assert_true(e->wait_ns > 0 && e->wait_ns <= peer.config.retry_most_ns);
	link_event_free(e);
	help_net_expect(&peer, LINK_waiting); // and it goes on trying
}

static void a_key_not_on_the_roster_waits_until_it_is(void **state)
{
	(void)state;
	start();
	connect_to(coordinator.keys.public_key, link_port(coordinator.link));
	struct link_event *e = help_net_wait(&peer, LINK_waiting);
	assert_int_equal(e->why.code, ERR_unknown_peer);
	assert_non_null(strstr(e->why.text, "roster"));
	link_event_free(e);
	link_admit(coordinator.link, peer.keys.public_key, 1);
	help_net_expect(&coordinator, LINK_connected);
	struct link_counters c;
	link_counters(coordinator.link, &c);
	assert_true(c.refused_key >= 1);
}

static void a_coordinator_that_is_not_there_is_named(void **state)
{
	(void)state;
	start();
	uint16_t port = link_port(coordinator.link);
	help_net_stop(&coordinator);
	connect_to(coordinator.keys.public_key, port);
	struct link_event *e = help_net_wait(&peer, LINK_waiting);
	assert_int_equal(e->why.code, ERR_network);
	assert_non_null(strstr(e->why.text, "nothing listens"));
	link_event_free(e);
	uint64_t first = 0;
	for (int i = 0; i < 4; i++) { // the waits grow, with jitter, to the most
		e = help_net_wait(&peer, LINK_waiting);
		first = i ? first : e->wait_ns;
		assert_true(e->wait_ns >= peer.config.retry_least_ns / 2);
		assert_true(e->wait_ns <= peer.config.retry_most_ns);
		link_event_free(e);
	}
}

static void an_address_that_is_none_is_named(void **state)
{
	(void)state;
	peer.config.connect_ns = CLOCK_SECOND;
	start();
	shoal_hello hello = help_net_hello(1);
	link_connect(peer.link, coordinator.keys.public_key, "no port", &hello);
	assert_int_equal(help_net_expect(&peer, LINK_waiting), ERR_syntax);
	link_connect(peer.link, coordinator.keys.public_key, "nowhere.invalid:1", &hello);
	struct link_event *e = help_net_wait(&peer, LINK_waiting);
	assert_non_null(strstr(e->why.text, "nowhere.invalid:1"));
	assert_non_null(strstr(e->why.text, "the name"));
	link_event_free(e);
}

static void a_port_in_use_is_named(void **state)
{
	(void)state;
	start();
	struct help_net_end second;
	char address[32];
	struct why why;
	struct link *l;
	help_net_init(&second, LINK_coordinator);
	snprintf(address, sizeof address, "127.0.0.1:%u", link_port(coordinator.link));
	second.config.bind = address;
	assert_int_equal(link_new(&second.config, &l, &why), ERR_network);
	assert_non_null(strstr(why.text, "in use"));
	second.config.bind = "192.0.2.1:0";
	assert_int_equal(link_new(&second.config, &l, &why), ERR_network);
	assert_non_null(strstr(why.text, "not an address of this machine"));
	second.config.bind = "nonsense";
	assert_int_equal(link_new(&second.config, &l, &why), ERR_syntax);
	second.config.timeout_ns = second.config.heartbeat_ns;
	assert_int_equal(link_new(&second.config, &l, &why), ERR_range);
	help_net_stop(&second);
}

static void a_key_removed_is_cut_and_cannot_come_back(void **state)
{
	(void)state;
	join();
	struct help_net_keys other;
	help_net_keys(&other);
	link_admit(coordinator.link, other.public_key, 1);
	assert_int_equal(help_net_expect(&coordinator, LINK_lost), ERR_unknown_peer);
	help_net_expect(&peer, LINK_lost);
	while (help_net_expect(&peer, LINK_waiting) != ERR_unknown_peer)
		;
}

static void a_refused_hello_tells_the_sentence(void **state)
{
	(void)state;
	start();
	help_net_admit(&coordinator, peer.keys.public_key);
	connect_to(coordinator.keys.public_key, link_port(coordinator.link));
	help_net_expect(&coordinator, LINK_connected);
	shoal_header h = msg_refusal(MSG_hello, ERR_wrong_run, "this is another run");
	link_send(coordinator.link, peer.keys.public_key, &h, NULL);
	struct link_event *e = help_net_wait(&peer, LINK_waiting);
	assert_int_equal(e->why.code, ERR_wrong_run);
	assert_string_equal(e->why.text, "this is another run");
	link_event_free(e);
	help_net_expect(&coordinator, LINK_connected); // it asks again
}

/* Both are stopped and continued by the relay, as a frozen machine or a dead path would be. */
static void a_silent_link_is_lost_on_both_sides_and_comes_back(void **state)
{
	(void)state;
	uint16_t port;
	coordinator.config.timeout_ns = peer.config.timeout_ns = 600 * CLOCK_MS;
	peer.config.connect_ns = coordinator.config.connect_ns = CLOCK_SECOND;
	start();
	struct help_net_relay *r = help_net_relay_new(link_port(coordinator.link), &port);
	help_net_join(&peer, &coordinator, port);
	help_net_relay_hold(r, true);
	enum err code = help_net_expect(&peer, LINK_lost);
	assert_true(code == ERR_timeout || code == ERR_network);
	code = help_net_expect(&coordinator, LINK_lost);
	assert_true(code == ERR_timeout || code == ERR_network);
	help_net_relay_hold(r, false);
	help_net_expect(&coordinator, LINK_connected);
	help_net_welcome(&coordinator, peer.keys.public_key);
	help_net_expect(&peer, LINK_connected);
	help_net_relay_free(r);
}

/* Wait for an event, and welcome whoever says hello meanwhile. */
static void welcome_all(struct help_net_end *c, const uint8_t *key, enum link_event_kind until,
	struct link_event **found)
{
	for (uint64_t end = clock_now_ns() + 60 * CLOCK_SECOND; clock_now_ns() < end;) {
		struct link_event *e = link_event_of(mailbox_wait(c->box, CLOCK_SECOND));
		if (e && e->mail.kind == (int)until) {
			*found = e;
			return;
		}
		if (e && e->mail.kind == LINK_connected)
			help_net_welcome(c, key);
		link_event_free(e);
	}
	fail_msg("no event %s", link_event_name(until));
}

static void a_copied_key_is_told_from_a_restart(void **state)
{
	(void)state;
	struct help_net_end second;
	coordinator.config.timeout_ns = CLOCK_SECOND;
	join(); // instance 1
	help_net_init(&second, LINK_peer);
	memcpy(second.config.public_key, peer.keys.public_key, LINK_KEY);
	memcpy(second.config.secret_key, peer.keys.secret_key, LINK_KEY);
	help_net_start(&second);
	char address[32];
	shoal_hello hello = help_net_hello(2);
	snprintf(address, sizeof address, "127.0.0.1:%u", link_port(coordinator.link));
	link_connect(second.link, coordinator.keys.public_key, address, &hello);
	assert_int_equal(help_net_expect(&coordinator, LINK_lost), ERR_exists);
	help_net_expect(&coordinator, LINK_connected); // the newer one has it
	help_net_welcome(&coordinator, peer.keys.public_key);
	help_net_expect(&second, LINK_connected);
	// The older one lives, comes back, and is told: that is what a restart never does.
	struct link_event *e = help_net_wait(&coordinator, LINK_clone);
	assert_int_equal(e->instance, 2);
	assert_int_equal(e->other_instance, 1);
	link_event_free(e);
	while (help_net_expect(&peer, LINK_waiting) != ERR_exists)
		;
	help_net_stop(&peer);
	// Only one is left: no more clones, and the link of the newer one stands.
	for (struct mail *m; (m = mailbox_take(coordinator.box));)
		m->drop(m);
	welcome_all(&coordinator, peer.keys.public_key, LINK_message, &e);
	assert_int_equal(e->header.which_body, MSG_heartbeat);
	link_event_free(e);
	help_net_stop(&second);
}

static void objects_go_both_ways_and_are_answered(void **state)
{
	(void)state;
	join();
	struct shared *up = help_net_bytes(1, 3000000), *down = help_net_bytes(2, 5);
	uint64_t up_ref = help_net_push(&peer, coordinator.keys.public_key, up);
	uint64_t down_ref = help_net_push(&coordinator, peer.keys.public_key, down);
	struct link_event *e = help_net_wait(&coordinator, LINK_object);
	assert_int_equal(e->ref, up_ref);
	assert_int_equal(e->object_kind, HELP_NET_KIND);
	assert_memory_equal(e->key, peer.keys.public_key, LINK_KEY);
	assert_memory_equal(&e->name, shared_name(up), sizeof e->name);
	assert_int_equal(e->meta_len, 4);
	assert_memory_equal(e->meta, "meta", 4);
	assert_int_equal(e->payload_len, shared_len(up));
	assert_memory_equal(e->payload, shared_data(up), shared_len(up));
	link_answer(coordinator.link, e->key, e->ref, ERR_OK, NULL);
	link_event_free(e);
	e = help_net_wait(&peer, LINK_delivered);
	assert_int_equal(e->ref, up_ref);
	assert_int_equal(e->size, shared_len(up));
	assert_true(e->taken_ns > 0);
	link_event_free(e);
	// The coordinator's came in meanwhile, or comes now.
	e = NULL;
	help_net_push(&coordinator, peer.keys.public_key, down); // the same: nothing more
	help_net_stop(&peer);                                    // with an object unanswered
	(void)down_ref;
	shared_drop(up);
	shared_drop(down);
}

static void an_object_tells_a_peer_the_round_trip(void **state)
{
	(void)state;
	join();
	uint32_t rtt_us = 0;
	while (!rtt_us) {
		struct link_event *beat = help_net_wait(&coordinator, LINK_message);
		if (beat->header.which_body == MSG_heartbeat)
			rtt_us = beat->header.body.heartbeat.rtt_us;
		link_event_free(beat);
	}
	struct shared *s = help_net_bytes(4, 1000);
	help_net_push(&coordinator, peer.keys.public_key, s);
	struct link_event *e = help_net_wait(&peer, LINK_object);
	assert_true(e->rtt_ns > 0 && e->size == 1000);
	link_answer(peer.link, e->key, e->ref, ERR_OK, NULL);
	link_event_free(e);
	shared_drop(s);
}

static void a_refused_object_tells_why(void **state)
{
	(void)state;
	join();
	struct shared *s = help_net_bytes(3, 100000);
	uint64_t ref = help_net_push(&coordinator, peer.keys.public_key, s);
	struct link_event *e = help_net_wait(&peer, LINK_object);
	assert_int_equal(e->ref, ref);
	link_answer(peer.link, e->key, e->ref, ERR_not_finite, "value 7 is NaN");
	link_event_free(e);
	e = help_net_wait(&coordinator, LINK_declined);
	assert_int_equal(e->ref, ref);
	assert_int_equal(e->why.code, ERR_not_finite);
	assert_string_equal(e->why.text, "value 7 is NaN");
	link_event_free(e);
	struct link_object unknown = {HELP_NET_KIND + 1, s, NULL, 0};
	link_push(peer.link, coordinator.keys.public_key, &unknown);
	assert_int_equal(help_net_expect(&peer, LINK_declined), ERR_unsupported);
	struct help_net_keys nobody;
	help_net_keys(&nobody);
	link_push(coordinator.link, nobody.public_key, &unknown);
	assert_int_equal(help_net_expect(&coordinator, LINK_declined), ERR_unknown_peer);
	shared_drop(s);
}

static void sixty_four_mib_through_three_cuts(void **state)
{
	(void)state;
	const size_t size = 64u << 20;
	uint16_t port;
	start();
	struct help_net_relay *r = help_net_relay_new(link_port(coordinator.link), &port);
	help_net_join(&peer, &coordinator, port);
	struct shared *s = help_net_bytes(4, size);
	for (int i = 0; i < 3; i++) {
		help_net_relay_cut_after(r, 15u << 20);
		if (!i)
			help_net_push(&peer, coordinator.keys.public_key, s);
		while (help_net_relay_cuts(r) == (uint32_t)i) {
			struct link_event *lost;
			welcome_all(&coordinator, peer.keys.public_key, LINK_lost, &lost);
			link_event_free(lost);
		}
	}
	struct link_event *e;
	welcome_all(&coordinator, peer.keys.public_key, LINK_object, &e);
	assert_int_equal(e->payload_len, size);
	assert_memory_equal(e->payload, shared_data(s), size);
	link_answer(coordinator.link, e->key, e->ref, ERR_OK, NULL);
	link_event_free(e);
	assert_int_equal(help_net_expect(&peer, LINK_delivered), ERR_OK);
	struct link_counters c;
	link_counters(peer.link, &c);
	// Resumed, not begun again: what was sent twice is at most what was on the way at a cut.
	assert_true(c.bytes_out < size + 3 * (coordinator.config.transfer.window + (8u << 20)));
	shared_drop(s);
	help_net_relay_free(r);
}

/* A receiver that answers nothing: what it holds stays within its budget and its objects. */
static void a_receiver_that_does_not_answer_holds_little(void **state)
{
	(void)state;
	const size_t size = 1u << 20;
	coordinator.config.receive_most = 3 * size;
	join();
	for (uint64_t i = 0; i < 20; i++) {
		struct shared *s = help_net_bytes(100 + i, size);
		help_net_push(&peer, coordinator.keys.public_key, s);
		shared_drop(s);
	}
	struct link_event *held[3];
	for (int i = 0; i < 3; i++)
		held[i] = help_net_wait(&coordinator, LINK_object);
	// Heartbeats go on, objects do not.
	for (int i = 0; i < 5; i++) {
		struct link_event *e = link_event_of(mailbox_wait(coordinator.box, CLOCK_SECOND));
		assert_non_null(e);
		assert_int_equal(e->mail.kind, LINK_message);
		link_event_free(e);
	}
	for (int i = 0; i < 20; i++) {
		struct link_event *e = i < 3 ? held[i] : help_net_wait(&coordinator, LINK_object);
		link_answer(coordinator.link, e->key, e->ref, ERR_OK, NULL);
		link_event_free(e);
	}
	for (int i = 0; i < 20; i++)
		help_net_expect(&peer, LINK_delivered);
}

static bool all_in(const struct link_counters *c)
{
	return c->objects_in == 500;
}

static bool all_out(const struct link_counters *c)
{
	return c->objects_out == 500;
}

static void many_small_objects_are_no_flood(void **state)
{
	(void)state;
	coordinator.config.messages_burst = peer.config.messages_burst = 60;
	join();
	for (uint64_t i = 0; i < 500; i++) {
		struct shared *s = help_net_bytes(i, 50 + i);
		help_net_push(&peer, coordinator.keys.public_key, s);
		shared_drop(s);
	}
	for (int i = 0; i < 500; i++) {
		struct link_event *e = help_net_wait(&coordinator, LINK_object);
		link_answer(coordinator.link, e->key, e->ref, ERR_OK, NULL);
		link_event_free(e);
	}
	for (int i = 0; i < 500; i++)
		help_net_expect(&peer, LINK_delivered);
	struct link_counters c = help_net_counters(&coordinator, all_in);
	struct link_counters p = help_net_counters(&peer, all_out);
	assert_int_equal(c.refused_rate + p.refused_rate, 0);
}

static void it_ends_in_any_state(void **state)
{
	(void)state;
	join();
	struct shared *s = help_net_bytes(5, 32u << 20);
	help_net_push(&peer, coordinator.keys.public_key, s);
	help_net_push(&coordinator, peer.keys.public_key, s);
	shared_drop(s);
	link_forget(peer.link, coordinator.keys.public_key);
	help_net_expect(&coordinator, LINK_lost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(greeting_heartbeats_messages_and_goodbye),
		T(the_last_word_leaves_before_the_end),
		T(the_last_answer_leaves_before_the_end),
		T(what_is_sent_through_a_slow_line_arrives),
		T(a_wrong_server_key_is_named),
		T(a_key_not_on_the_roster_waits_until_it_is),
		T(a_coordinator_that_is_not_there_is_named),
		T(an_address_that_is_none_is_named),
		T(a_port_in_use_is_named),
		T(a_key_removed_is_cut_and_cannot_come_back),
		T(a_refused_hello_tells_the_sentence),
		T(a_silent_link_is_lost_on_both_sides_and_comes_back),
		T(a_copied_key_is_told_from_a_restart),
		T(objects_go_both_ways_and_are_answered),
		T(an_object_tells_a_peer_the_round_trip),
		T(a_refused_object_tells_why),
		T(sixty_four_mib_through_three_cuts),
		T(a_receiver_that_does_not_answer_holds_little),
		T(many_small_objects_are_no_flood),
		T(it_ends_in_any_state),
#undef T
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
