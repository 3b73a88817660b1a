/* What breaks around a peer and its coordinator: the line between them, disks, clocks.  Nothing
 * may be lost, and whoever waits says why. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <poll.h>
#include <cmocka.h>
#include "base/clock.h"
#include "tests/help_relay.h"
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 150

static const char *const timed[] = {"timed", NULL};

/* A swarm, and one that reaches its coordinator by a relay. */
struct bad {
	struct swarm s, far;
	struct relay *relay;
};

static void start(struct bad *b, const char *const *changes)
{
	help_swarm_start(&b->s, changes);
	const uint16_t ports[] = {b->s.port, b->s.link_port};
	b->relay = relay_start("127.0.0.2", ports, 2);
	b->far = b->s;
	b->far.link = relay_link(b->s.link, "127.0.0.2");
}

/* What `shoal-peer status` says of the peer of this name; it must say part within the time. */
static const char *status_says(
	const struct swarm *s, const char *name, const char *part, unsigned seconds)
{
	const uint64_t until = clock_now_ns() + seconds * CLOCK_SECOND;
	for (;;) {
		struct proc *p = PROC_START(
			"shoal-peer", "status", "--dir", proc_text("%s/%s", s->scratch, name));
		(void)proc_wait(p, WAIT);
		const char *says = proc_text("%s", proc_out(p));
		if (strstr(says, part))
			return says;
		if (clock_now_ns() > until)
			fail_msg("\"%s\" is not in, after %u s:\n%s%s", part, seconds, says,
				proc_err(p));
		poll(NULL, 0, 100);
	}
}

/* Until something of that peer's is listed beyond what was. */
static void goes_on(const struct swarm *s, const char *name, uint64_t before, unsigned seconds)
{
	const uint64_t until = clock_now_ns() + seconds * CLOCK_SECOND;
	while (help_swarm_tokens(s, name) <= before) {
		if (clock_now_ns() > until)
			fail_msg("nothing more of %s's is listed after %u s", name, seconds);
		poll(NULL, 0, 50);
	}
}

static void a_peer_cut_off_for_rounds_trains_on_and_comes_back(void **state)
{
	(void)state;
	struct bad b;
	start(&b, timed);
	help_swarm_peer(&b.s, "near");
	struct proc *far = help_swarm_peer(&b.far, "far");
	goes_on(&b.s, "far", 0, WAIT);
	relay_stall(b.relay, RELAY_up);
	relay_stall(b.relay, RELAY_down);
	proc_line(far, "the link to the coordinator is down", WAIT);
	status_says(&b.s, "far", "link", WAIT);
	help_swarm_round(&b.s, 20, WAIT);
	uint64_t before = help_swarm_tokens(&b.s, "far");
	relay_heal(b.relay);
	goes_on(&b.s, "far", before, 20);
	help_swarm_verify(&b.s, help_swarm_stop(&b.s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			a_peer_cut_off_for_rounds_trains_on_and_comes_back, relay_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
