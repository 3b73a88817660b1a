/* Virtual time: events in their order, lines that are shared, and how long a plan takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/rng.h"
#include "sim/events.h"
#include "sim/network.h"
#include "sim/pacing.h"

#define MANY 1000

static void events_come_by_time_then_by_order(void **state)
{
	(void)state;
	struct events e = {0};
	struct event out;
	for (uint32_t i = 0; i < MANY; i++)
		events_put(&e, (struct event){.at_ns = rng_below(1, 1, i, 50), .member = i});
	uint64_t at = 0, order = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		assert_true(events_next(&e, &out));
		assert_true(out.at_ns > at || (out.at_ns == at && (!i || out.order > order)));
		assert_int_equal(out.order, out.member);
		at = out.at_ns;
		order = out.order;
	}
	assert_false(events_next(&e, &out));
	events_release(&e);
}

/* 1 to 3 members at 8 Mbit/s up and 80 down, 10 ms away; the coordinator has a gigabit. */
static void open_network(struct network *w)
{
	network_init(w, 4);
	w->ends[0] = (struct network_end){.up = 1e9, .down = 1e9};
	for (uint32_t i = 1; i < 4; i++)
		w->ends[i] =
			(struct network_end){.up = 8e6, .down = 80e6, .away_ns = 10 * CLOCK_MS};
}

/* With nobody else at the receiver's line in between. */
static uint64_t send(struct network *w, uint32_t from, uint32_t to, size_t bytes, uint64_t now)
{
	const struct network_way way = network_send(w, from, to, bytes, now);
	return network_receive(w, to, bytes, way.last_ns, way.first_ns);
}

static void the_slower_line_and_the_distance_count(void **state)
{
	(void)state;
	struct network w;
	open_network(&w);
	/* a megabyte: a second up a line of 8 Mbit/s, a tenth down one of 80 */
	assert_int_equal(send(&w, 1, 0, 1000000, 0), CLOCK_SECOND + 10 * CLOCK_MS);
	assert_int_equal(send(&w, 0, 2, 1000000, 0), 110 * CLOCK_MS);
	assert_int_equal(w.ends[0].received, 1000000);
	assert_int_equal(w.ends[2].received, 1000000);
	network_release(&w);
}

static void a_line_is_shared_in_order(void **state)
{
	(void)state;
	struct network w;
	open_network(&w);
	const struct network_way one = network_send(&w, 1, 0, 1000000, 0),
				 two = network_send(&w, 1, 0, 1000000, 0),
				 other = network_send(&w, 2, 0, 1000000, 0);
	assert_int_equal(two.first_ns, one.first_ns + CLOCK_SECOND);
	/* both begin at once at a gigabit, which is not blocked by how slowly the first one comes
	 */
	assert_int_equal(network_receive(&w, 0, 1000000, one.last_ns, one.first_ns), one.last_ns);
	assert_int_equal(
		network_receive(&w, 0, 1000000, other.last_ns, other.first_ns), other.last_ns);
	assert_int_equal(network_receive(&w, 0, 1000000, two.last_ns, two.first_ns),
		one.last_ns + CLOCK_SECOND);
	/* two that a slow line takes: one after the other */
	const uint64_t first = send(&w, 0, 3, 1000000, 0);
	assert_int_equal(send(&w, 0, 3, 1000000, 0), first + 100 * CLOCK_MS);
	/* up does not wait for down, nor a line that was cut for what was in it */
	assert_true(send(&w, 3, 0, 1000, 0) < 20 * CLOCK_MS + CLOCK_SECOND);
	network_reset(&w, 1, 5);
	assert_true(network_send(&w, 1, 0, 1000, 5).last_ns < 20 * CLOCK_MS);
	network_release(&w);
}

static void a_plan_ends_by_steps_time_or_data(void **state)
{
	(void)state;
	const struct spec s = {.train = {.batch = 2, .seq = 50}};
	struct plan p = {.steps = 4, .n_spans = 1, .spans = {{0, 100}}};
	uint64_t takes = 0;
	assert_int_equal(pacing_steps(&p, &s, 1000, &takes), 4);
	assert_int_equal(takes, 400 * CLOCK_MS);
	p.seconds = 1.25; /* the step that passes the end is done */
	assert_int_equal(pacing_steps(&p, &s, 1000, &takes), 13);
	assert_int_equal(takes, 1300 * CLOCK_MS);
	p.seconds = 0.01; /* one at least */
	assert_int_equal(pacing_steps(&p, &s, 1000, &takes), 1);
	p.seconds = 100; /* all there is data for */
	assert_int_equal(pacing_steps(&p, &s, 1000, &takes), 50);
	assert_int_equal(takes, 5 * CLOCK_SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_by_time_then_by_order),
		cmocka_unit_test(the_slower_line_and_the_distance_count),
		cmocka_unit_test(a_line_is_shared_in_order),
		cmocka_unit_test(a_plan_ends_by_steps_time_or_data),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
