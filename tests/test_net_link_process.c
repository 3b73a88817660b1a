/* A coordinator in a process of its own that is killed, stopped and started again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/help_net.h"

static struct help_net_keys server;

/* Welcomes everybody, accepts every object, and never returns. */
static void serve(const uint8_t *admitted, const char *address, int tell)
{
	struct help_net_end c;
	help_net_init(&c, LINK_coordinator);
	memcpy(c.config.public_key, server.public_key, LINK_KEY);
	memcpy(c.config.secret_key, server.secret_key, LINK_KEY);
	c.config.bind = address;
	struct why why;
	if (link_new(&c.config, &c.link, &why))
		_exit(1);
	link_admit(c.link, admitted, 1);
	uint16_t port = link_port(c.link);
	if (write(tell, &port, sizeof port) != sizeof port)
		_exit(1);
	for (;;) {
		struct link_event *e = link_event_of(mailbox_wait(c.box, UINT64_MAX));
		if (e->mail.kind == LINK_connected)
			help_net_welcome(&c, e->key);
		if (e->mail.kind == LINK_object)
			link_answer(c.link, e->key, e->ref, ERR_OK, NULL);
		link_event_free(e);
	}
}

/* Starts one on this port (0: any) and gives its port.  Only before this process has threads. */
static pid_t start(const uint8_t *admitted, uint16_t *port)
{
	int tell[2];
	char address[32];
	snprintf(address, sizeof address, "127.0.0.1:%u", *port);
	assert_int_equal(pipe(tell), 0);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // also when the test fails
		close(tell[0]);
		serve(admitted, address, tell[1]);
	}
	close(tell[1]);
	struct pollfd f = {.fd = tell[0], .events = POLLIN};
	assert_int_equal(poll(&f, 1, 30000), 1);
	assert_int_equal(read(tell[0], port, sizeof *port), sizeof *port);
	close(tell[0]);
	return pid;
}

static void connect_to(struct help_net_end *peer, uint16_t port)
{
	char address[32];
	shoal_hello hello = help_net_hello(1);
	snprintf(address, sizeof address, "127.0.0.1:%u", port);
	link_connect(peer->link, server.public_key, address, &hello);
	help_net_expect(peer, LINK_connected);
}

static void deliver(struct help_net_end *peer, uint64_t seed)
{
	struct shared *s = help_net_bytes(seed, 300000);
	help_net_push(peer, server.public_key, s);
	shared_drop(s);
	assert_int_equal(help_net_expect(peer, LINK_delivered), ERR_OK);
}

static void end(pid_t pid)
{
	int status;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status)); // and had not ended by itself
}

static void killed_and_back(void **state)
{
	(void)state;
	struct help_net_end peer;
	uint16_t port = 0, relayed;
	help_net_keys(&server);
	help_net_init(&peer, LINK_peer);
	// Both processes are there before the first thread; a relay leads to one after the other.
	pid_t first = start(peer.keys.public_key, &port);
	uint16_t second_port = 0;
	pid_t second = start(peer.keys.public_key, &second_port);
	struct help_net_relay *r = help_net_relay_new(port, &relayed);
	help_net_start(&peer);
	connect_to(&peer, relayed);
	deliver(&peer, 1);

	end(first);
	help_net_expect(&peer, LINK_lost);
	help_net_expect(&peer, LINK_waiting);
	struct shared *s = help_net_bytes(2, 3000000); // pushed while nobody is there
	help_net_push(&peer, server.public_key, s);
	shared_drop(s);
	help_net_relay_to(r, second_port);
	help_net_expect(&peer, LINK_connected);
	help_net_expect(&peer, LINK_delivered);
	deliver(&peer, 3);

	help_net_stop(&peer);
	help_net_relay_free(r);
	end(second);
}

static void stopped_and_continued(void **state)
{
	(void)state;
	struct help_net_end peer;
	uint16_t port = 0;
	help_net_keys(&server);
	help_net_init(&peer, LINK_peer);
	peer.config.timeout_ns = CLOCK_SECOND;
	peer.config.connect_ns = CLOCK_SECOND;
	pid_t pid = start(peer.keys.public_key, &port);
	help_net_start(&peer);
	connect_to(&peer, port);
	kill(pid, SIGSTOP);
	struct link_event *e = help_net_wait(&peer, LINK_lost);
	assert_int_equal(e->why.code, ERR_timeout);
	assert_non_null(strstr(e->why.text, "nothing heard for 1.0 s"));
	link_event_free(e);
	help_net_expect(&peer, LINK_waiting); // its machine accepts, it does not answer
	kill(pid, SIGCONT);
	help_net_expect(&peer, LINK_connected);
	deliver(&peer, 1);
	help_net_stop(&peer);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_and_back),
		cmocka_unit_test(stopped_and_continued),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
