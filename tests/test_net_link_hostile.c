/* A member of the roster that does not keep to the protocol: a bare DEALER against a coordinator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/help_net.h"

static struct help_net_end coordinator;
static struct help_net_keys keys;
static void *context, *bare;

static void open_bare(const char *routing_id)
{
	char address[64];
	int wait_ms = 100, linger = 0;
	bare = zmq_socket(context, ZMQ_DEALER);
	zmq_setsockopt(bare, ZMQ_CURVE_SERVERKEY, coordinator.keys.public_key, LINK_KEY);
	zmq_setsockopt(bare, ZMQ_CURVE_PUBLICKEY, keys.public_key, LINK_KEY);
	zmq_setsockopt(bare, ZMQ_CURVE_SECRETKEY, keys.secret_key, LINK_KEY);
	zmq_setsockopt(bare, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
	zmq_setsockopt(bare, ZMQ_SNDTIMEO, &wait_ms, sizeof wait_ms);
	zmq_setsockopt(bare, ZMQ_LINGER, &linger, sizeof linger);
	if (routing_id)
		zmq_setsockopt(bare, ZMQ_ROUTING_ID, routing_id, strlen(routing_id));
	snprintf(address, sizeof address, "tcp://127.0.0.1:%u", link_port(coordinator.link));
	assert_int_equal(zmq_connect(bare, address), 0);
}

static int setup(void **state)
{
	(void)state;
	help_net_init(&coordinator, LINK_coordinator);
	help_net_keys(&keys);
	coordinator.config.messages_per_s = 100;
	coordinator.config.messages_burst = 40;
	// So that silence alone cuts nobody here.
	coordinator.config.connect_ns = coordinator.config.timeout_ns = 60 * CLOCK_SECOND;
	help_net_start(&coordinator);
	help_net_admit(&coordinator, keys.public_key);
	context = zmq_ctx_new();
	open_bare(NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	zmq_close(bare);
	zmq_ctx_term(context);
	help_net_stop(&coordinator);
	return 0;
}

static bool send_frames(const void *one, size_t n, const void *two, size_t m)
{
	if (zmq_send(bare, one, n, two ? ZMQ_SNDMORE : 0) < 0)
		return false;
	return !two || zmq_send(bare, two, m, 0) >= 0;
}

static void say(const shoal_header *h, const void *payload, size_t n)
{
	uint8_t frame[MSG_HEAD_MAX];
	assert_true(send_frames(frame, msg_encode(h, frame), payload, n));
}

/* Frame 1 of the next message; false when none came within the deadline. */
static bool hear(shoal_header *h)
{
	uint8_t frame[MSG_HEAD_MAX], rest[16];
	struct why why;
	uint64_t end = clock_now_ns() + 20 * CLOCK_SECOND;
	do {
		int n = zmq_recv(bare, frame, sizeof frame, 0), more = 1;
		size_t size = sizeof more;
		if (n < 0)
			continue;
		while (zmq_getsockopt(bare, ZMQ_RCVMORE, &more, &size) == 0 && more)
			zmq_recv(bare, rest, sizeof rest, 0);
		return !msg_decode(frame, (size_t)n, h, &why);
	} while (clock_now_ns() < end);
	return false;
}

static void expect_refusal(enum err code)
{
	shoal_header h;
	do {
		assert_true(hear(&h));
	} while (h.which_body != MSG_refusal);
	assert_int_equal(h.body.refusal.code, code);
	assert_true(h.body.refusal.text[0] != 0);
}

static void greet(void)
{
	shoal_header h = shoal_header_init_zero;
	h.which_body = MSG_hello;
	h.body.hello = help_net_hello(1);
	say(&h, NULL, 0);
	help_net_expect(&coordinator, LINK_connected);
	help_net_welcome(&coordinator, keys.public_key);
	assert_true(hear(&h));
	assert_int_equal(h.which_body, MSG_welcome);
}

/* The link still works: a heartbeat is echoed. */
static void still_there(void)
{
	shoal_header h = {.which_body = MSG_heartbeat, .body.heartbeat.sequence = 77};
	say(&h, NULL, 0);
	do {
		assert_true(hear(&h));
	} while (h.which_body != MSG_echo || h.body.echo.sequence != 77);
}

static struct link_counters counted(void)
{
	struct link_counters c;
	poll(NULL, 0, 20); // the copy for others is made once a turn
	link_counters(coordinator.link, &c);
	return c;
}

static void garbage_is_refused_and_counted(void **state)
{
	(void)state;
	greet();
	assert_true(send_frames("", 0, NULL, 0));
	expect_refusal(ERR_truncated);
	assert_true(send_frames("GET / HTTP/1.1", 14, NULL, 0));
	expect_refusal(ERR_magic);
	assert_true(send_frames("SHOL\1\0\0\0\xff\xff\xff\xff", 12, NULL, 0));
	expect_refusal(ERR_syntax);
	uint8_t big[MSG_HEAD_MAX + 1] = "SHOL\1";
	assert_true(send_frames(big, sizeof big, NULL, 0));
	expect_refusal(ERR_toobig);
	still_there();
	struct link_counters c = counted();
	assert_int_equal(c.refused_header, 3);
	assert_int_equal(c.refused_magic, 1);
}

static void another_major_is_told_both_versions(void **state)
{
	(void)state;
	shoal_header h;
	char version[16];
	snprintf(version, sizeof version, "%d.%d", MSG_MAJOR, MSG_MINOR);
	assert_true(send_frames("SHOL\2\0\7\0anything at all", 23, NULL, 0));
	assert_true(hear(&h));
	assert_int_equal(h.which_body, MSG_refusal);
	assert_int_equal(h.body.refusal.code, ERR_version);
	assert_non_null(strstr(h.body.refusal.text, "2.7"));
	assert_non_null(strstr(h.body.refusal.text, version));
	assert_int_equal(counted().refused_version, 1);
}

static void a_kind_of_a_later_minor_is_passed_over(void **state)
{
	(void)state;
	greet();
	// Field 200, empty: a kind that does not exist yet.
	assert_true(send_frames("SHOL\1\0\x09\0\xc2\x0c\0", 11, NULL, 0));
	still_there();
	assert_int_equal(counted().refused_kind, 1);
}

static void payloads_and_directions_are_checked(void **state)
{
	(void)state;
	greet();
	shoal_header h = {.which_body = MSG_plan};
	say(&h, "x", 1);
	expect_refusal(ERR_permission);
	h = (shoal_header){.which_body = MSG_report};
	say(&h, "x", 1);
	expect_refusal(ERR_syntax);
	h = (shoal_header){.which_body = MSG_chunk};
	say(&h, NULL, 0);
	expect_refusal(ERR_syntax);
	uint8_t *most = alloc_must_zero(1, MSG_PAYLOAD_MAX + 1);
	say(&h, most, MSG_PAYLOAD_MAX + 1);
	expect_refusal(ERR_toobig);
	free(most);
	still_there();
	struct link_counters c = counted();
	assert_int_equal(c.refused_way, 1);
	assert_int_equal(c.refused_payload, 3);
}

static bool none_connected(const struct link_counters *c)
{
	return c->connections == 0;
}

static void a_frame_beyond_all_limits_ends_the_connection(void **state)
{
	(void)state;
	greet();
	shoal_header h = {.which_body = MSG_chunk};
	uint8_t *huge = alloc_must_zero(1, 4u << 20);
	say(&h, huge, 4u << 20);
	free(huge);
	help_net_counters(&coordinator, none_connected);
}

static void more_than_two_frames_are_read_away(void **state)
{
	(void)state;
	greet();
	for (int i = 0; i < 1000; i++)
		assert_int_equal(zmq_send(bare, "x", 1, ZMQ_SNDMORE), 1);
	assert_int_equal(zmq_send(bare, "x", 1, 0), 1);
	still_there();
	assert_int_equal(counted().refused_frames, 1);
}

static bool was_cut(const struct link_counters *c)
{
	return c->cut > 0;
}

static void keep(void *data, void *hint)
{
	(void)data, (void)hint;
}

/* The coordinator's libzmq would collect it, until it ends or memory does.  This one is so long
 * that the guard looks while it is on its way. */
static void a_message_without_end_is_cut(void **state)
{
	(void)state;
	greet();
	uint8_t *part = alloc_must_zero(1, MSG_PAYLOAD_MAX);
	for (int left = 1000; left--;) {
		zmq_msg_t m;
		zmq_msg_init_data(&m, part, MSG_PAYLOAD_MAX, keep, NULL);
		assert_true(zmq_msg_send(&m, bare, left ? ZMQ_SNDMORE : 0) >= 0);
	}
	struct link_counters c = help_net_counters(&coordinator, was_cut);
	assert_int_equal(c.refused_frames, 0); // it never came to its end
	zmq_close(bare);
	zmq_ctx_term(context);
	free(part);
	context = zmq_ctx_new();
	open_bare(NULL);
}

static bool one_handshake(const struct link_counters *c)
{
	return c->handshakes == 1;
}

static bool refused_user(const struct link_counters *c)
{
	return c->refused_user == 1 && c->cut == 1;
}

/* The handshake was in order; the message is not any more. */
static void a_key_removed_before_its_first_message_is_refused(void **state)
{
	(void)state;
	struct help_net_keys other;
	help_net_keys(&other);
	help_net_counters(&coordinator, one_handshake);
	help_net_admit(&coordinator, other.public_key);
	shoal_header h = {.which_body = MSG_hello, .body.hello = help_net_hello(1)};
	say(&h, NULL, 0);
	help_net_counters(&coordinator, refused_user);
	assert_null(mailbox_take(coordinator.box));
}

static void a_message_before_hello_is_refused(void **state)
{
	(void)state;
	shoal_header h = {.which_body = MSG_heartbeat};
	say(&h, NULL, 0);
	struct link_counters c = help_net_counters(&coordinator, was_cut);
	assert_int_equal(c.refused_hello, 1);
	assert_int_equal(c.links, 0);
}

static bool refused_hello(const struct link_counters *c)
{
	return c->refused_hello == 1;
}

static void a_message_before_our_welcome_has_no_effect(void **state)
{
	(void)state;
	shoal_header h = {.which_body = MSG_hello, .body.hello = help_net_hello(1)};
	say(&h, NULL, 0);
	help_net_expect(&coordinator, LINK_connected);
	h = (shoal_header){.which_body = MSG_report};
	say(&h, NULL, 0);
	help_net_counters(&coordinator, refused_hello);
	help_net_welcome(&coordinator, keys.public_key);
	assert_true(hear(&h));
	still_there();
	struct link_event *e = help_net_wait(&coordinator, LINK_message);
	assert_int_equal(e->header.which_body, MSG_heartbeat); // and not the report
	link_event_free(e);
}

static bool refused_routing(const struct link_counters *c)
{
	return c->refused_routing > 0;
}

static void a_chosen_routing_id_means_nothing(void **state)
{
	(void)state;
	zmq_close(bare);
	open_bare("me");
	shoal_header h = {.which_body = MSG_hello, .body.hello = help_net_hello(1)};
	say(&h, NULL, 0);
	help_net_counters(&coordinator, refused_routing);
	assert_null(mailbox_take(coordinator.box));
}

static void a_flood_is_dropped_told_and_cut(void **state)
{
	(void)state;
	greet();
	shoal_header h = {.which_body = MSG_heartbeat};
	for (int i = 0; i < 200; i++)
		say(&h, NULL, 0);
	expect_refusal(ERR_busy);
	uint8_t frame[MSG_HEAD_MAX];
	size_t n = msg_encode(&h, frame);
	struct link_counters c = {0};
	uint64_t end = clock_now_ns() + 30 * CLOCK_SECOND;
	while (!c.cut && clock_now_ns() < end) {
		(void)!send_frames(frame, n, NULL, 0);
		link_counters(coordinator.link, &c);
	}
	assert_true(c.cut > 0);
	assert_true(c.refused_rate > 100);
	size_t taken = 0;
	for (struct mail *m; (m = mailbox_take(coordinator.box)); m->drop(m))
		taken++;
	assert_true(taken < c.messages_in);
}

static void chunks_without_credit_are_dropped(void **state)
{
	(void)state;
	greet();
	uint8_t part[1000] = {0};
	shoal_header h = {.which_body = MSG_chunk, .body.chunk = {.ref = 5}};
	for (int i = 0; i < 10; i++)
		say(&h, part, sizeof part);
	h = (shoal_header){.which_body = MSG_begin,
		.body.begin = {HELP_NET_KIND, {1}, UINT64_MAX, 1u << 16, 1, {0}}};
	say(&h, NULL, 0);
	do {
		assert_true(hear(&h));
	} while (h.which_body != MSG_decline);
	assert_int_equal(h.body.decline.code, ERR_toobig);
	struct link_counters c = counted();
	assert_int_equal(c.refused_chunk, 10);
	assert_int_equal(c.refused_object, 1);
}

static bool connections_bounded(const struct link_counters *c)
{
	return c->cut >= 10 && c->connections <= 5;
}

static void connections_are_bounded(void **state)
{
	(void)state;
	help_net_stop(&coordinator);
	struct help_net_keys again = coordinator.keys;
	help_net_init(&coordinator, LINK_coordinator);
	coordinator.keys = again;
	memcpy(coordinator.config.public_key, again.public_key, LINK_KEY);
	memcpy(coordinator.config.secret_key, again.secret_key, LINK_KEY);
	coordinator.config.connections_most = 5;
	help_net_start(&coordinator);
	void *first = bare, *many[15];
	for (int i = 0; i < 15; i++) {
		open_bare(NULL);
		many[i] = bare;
	}
	help_net_counters(&coordinator, connections_bounded);
	for (int i = 0; i < 15; i++)
		zmq_close(many[i]);
	bare = first;
}

static void a_connection_that_says_nothing_is_cut(void **state)
{
	(void)state;
	help_net_stop(&coordinator);
	zmq_close(bare);
	help_net_init(&coordinator, LINK_coordinator);
	coordinator.config.timeout_ns = 300 * CLOCK_MS;
	coordinator.config.connect_ns = 300 * CLOCK_MS;
	help_net_start(&coordinator);
	help_net_admit(&coordinator, keys.public_key);
	open_bare(NULL);
	struct link_counters c = help_net_counters(&coordinator, was_cut);
	assert_true(c.handshakes > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(garbage_is_refused_and_counted),
		T(another_major_is_told_both_versions),
		T(a_kind_of_a_later_minor_is_passed_over),
		T(payloads_and_directions_are_checked),
		T(a_frame_beyond_all_limits_ends_the_connection),
		T(more_than_two_frames_are_read_away),
		T(a_message_without_end_is_cut),
		T(a_key_removed_before_its_first_message_is_refused),
		T(a_message_before_hello_is_refused),
		T(a_message_before_our_welcome_has_no_effect),
		T(a_chosen_routing_id_means_nothing),
		T(a_flood_is_dropped_told_and_cut),
		T(chunks_without_credit_are_dropped),
		T(connections_are_bounded),
		T(a_connection_that_says_nothing_is_cut),
#undef T
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
