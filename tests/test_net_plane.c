/* The engine without its thread: what happens while nobody reads, at moments that a test chooses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>
#include "base/clock.h"
#include "net/plane.h"
#include "tests/help_net.h"

static struct help_net_end end;
static struct help_net_keys keys;
static struct plane *plane;
static void *context, *bare;

static int setup(void **state)
{
	(void)state;
	struct why why;
	help_net_init(&end, LINK_coordinator);
	help_net_keys(&keys);
	assert_int_equal(plane_new(&end.config, &plane, &why), ERR_OK);
	plane_admit(plane, keys.public_key, 1);
	context = zmq_ctx_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	int none_ms = 0;
	zmq_setsockopt(bare, ZMQ_LINGER, &none_ms, sizeof none_ms);
	zmq_close(bare);
	zmq_ctx_term(context);
	plane_free(plane);
	help_net_stop(&end);
	return 0;
}

static void open_bare(uint16_t port, int heartbeat_ms)
{
	char address[64];
	int patient_ms = 20000;
	bare = zmq_socket(context, ZMQ_DEALER);
	zmq_setsockopt(bare, ZMQ_CURVE_SERVERKEY, end.keys.public_key, LINK_KEY);
	zmq_setsockopt(bare, ZMQ_CURVE_PUBLICKEY, keys.public_key, LINK_KEY);
	zmq_setsockopt(bare, ZMQ_CURVE_SECRETKEY, keys.secret_key, LINK_KEY);
	zmq_setsockopt(bare, ZMQ_HEARTBEAT_IVL, &heartbeat_ms, sizeof heartbeat_ms);
	zmq_setsockopt(bare, ZMQ_HEARTBEAT_TIMEOUT, &patient_ms, sizeof patient_ms);
	snprintf(address, sizeof address, "tcp://127.0.0.1:%u", port);
	assert_int_equal(zmq_connect(bare, address), 0);
}

static void say(const shoal_header *h)
{
	uint8_t frame[MSG_HEAD_MAX];
	size_t n = msg_encode(h, frame);
	assert_true(zmq_send(bare, frame, n, 0) >= 0);
}

/* Turn until the next event of this kind. */
static void turn_until(enum link_event_kind kind)
{
	uint64_t until = clock_now_ns() + 30 * CLOCK_SECOND;
	for (bool found = false; !found;) {
		assert_true(clock_now_ns() < until);
		plane_turn(plane);
		for (struct mail *m; !found && (m = mailbox_take(end.box)); m->drop(m))
			found = m->kind == (int)kind;
		if (!found)
			plane_wait(plane, mailbox_fd(end.box));
	}
}

static void greet(void)
{
	shoal_header h = {.which_body = MSG_hello, .body.hello = help_net_hello(1)};
	say(&h);
	turn_until(LINK_connected);
	h = (shoal_header){.which_body = MSG_welcome};
	plane_send(plane, keys.public_key, &h, NULL);
}

/* With a receive limit libzmq stops the input, keeps the broken connection until we read, and then
 * ends the process at the first PING that is left in its buffer. */
static void a_connection_may_break_while_nobody_reads(void **state)
{
	(void)state;
	uint16_t port;
	struct help_net_relay *r = help_net_relay_new(plane_port(plane), &port);
	open_bare(port, 1);
	greet();
	help_net_relay_hold(r, true);
	shoal_header h = {.which_body = MSG_heartbeat};
	for (int i = 0; i < 40; i++) {
		say(&h);
		poll(NULL, 0, i % 4 == 0); // so that PINGs stand between the messages
	}
	help_net_relay_hold(r, false);
	poll(NULL, 0, 50); // libzmq's thread reads; there is no event of it to wait for
	help_net_relay_cut_after(r, 1);
	while (!help_net_relay_cuts(r)) // the next PING
		poll(NULL, 0, 1);
	poll(NULL, 0, 50);
	turn_until(LINK_lost);
	help_net_relay_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_connection_may_break_while_nobody_reads, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
