/*
 * chaos SECONDS SEED FOLDER SCRIPT SET LOSS-GAP: a run of real processes in which something breaks
 * all the time, by a schedule that follows from the seed, or stands in SCRIPT if that is not empty;
 * SET are more words for the spec.  In the end everything is mended, and then nothing may be lost:
 * verdict.h.  LOSS-GAP is what chaos.sh has of the simulator, or none.  The last line is "chaos: ok
 * ..." or "chaos: failed ..."; logs go to FOLDER, after a failure with all that the processes had
 * on disk.
 */
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/file.h"
#include "tests/chaos/verdict.h"
#include "tests/help_run.h"

#define PEERS 4u
#define EVENTS_MOST 20000u
#define START 60 /* seconds until all have joined */
#define SLICE_MS 20
#define LOSS_GAP_MOST 0.01

static struct {
	uint64_t seconds, seed;
	const char *folder, *script, *set, *gap;
} opt;

static struct chaos {
	struct actors actors;
	struct schedule_event events[EVENTS_MOST];
	bool broken[EVENTS_MOST]; /* begun, and not mended yet */
	size_t n, next;
	bool done;
} chaos;

static void make_schedule(struct chaos *c)
{
	const struct schedule_wish wish = {
		.seed = opt.seed, .length_ms = opt.seconds * 1000, .peers = PEERS};
	struct why why;
	if (!*opt.script)
		c->n = schedule_make(&wish, c->events, EVENTS_MOST);
	else if (schedule_parse(
			 help_run_read(opt.script), PEERS, c->events, EVENTS_MOST, &c->n, &why))
		fail_msg("%s: %s", opt.script, why.text);
}

static void mend_due(struct chaos *c, uint64_t now_ms)
{
	for (size_t i = 0; i < c->next; i++) {
		if (!c->broken[i] || c->events[i].until_ms > now_ms)
			continue;
		c->broken[i] = false;
		actors_mend(&c->actors, &c->events[i]);
	}
}

static void play(struct chaos *c)
{
	const uint64_t from = clock_now_ns();
	for (uint64_t now = 0; now < opt.seconds * 1000; poll(NULL, 0, SLICE_MS)) {
		now = (clock_now_ns() - from) / CLOCK_MS;
		mend_due(c, now);
		while (c->next < c->n && c->events[c->next].at_ms <= now) {
			actors_break(&c->actors, &c->events[c->next]);
			c->broken[c->next++] = true;
		}
		actors_watch(&c->actors);
	}
	mend_due(c, UINT64_MAX);
}

static void nothing_is_lost_whatever_breaks(void **state)
{
	struct chaos *c = &chaos;
	struct actors *a = &c->actors;
	(void)state;
	make_schedule(c);
	actors_start(a, PEERS, opt.set);
	for (uint32_t i = 1; i <= PEERS; i++)
		proc_line(a->at[i].proc, "linked with the coordinator", START);
	a->start_ns = clock_now_ns();
	play(c);
	verdict_recovered(a);
	verdict_hashes_agree(a);
	actors_memory(a);
	const char *stopped = actors_stop(a);
	verdict_replays(a, stopped);
	int64_t balance = verdict_tokens_balance(a, stopped);
	if (balance)
		fail_msg("tokens_balance=%" PRId64, balance);
	/* Of a run under churn beside one in peace, at equal tokens. */
	if (strtod(opt.gap, NULL) > LOSS_GAP_MOST)
		fail_msg("loss_gap=%s, more than %.2f", opt.gap, LOSS_GAP_MOST);
	c->done = true;
}

static int teardown(void **state)
{
	actors_release(&chaos.actors, opt.folder, !chaos.done);
	return relay_teardown(state);
}

static bool read_options(int argc, char **argv)
{
	if (argc != 7)
		return false;
	opt.seconds = strtoull(argv[1], NULL, 10);
	opt.seed = strtoull(argv[2], NULL, 10);
	opt.folder = argv[3];
	opt.script = argv[4];
	opt.set = argv[5];
	opt.gap = argv[6];
	return opt.seconds > 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(nothing_is_lost_whatever_breaks, teardown),
	};
	struct why why;
	if (!read_options(argc, argv)) {
		fprintf(stderr, "chaos SECONDS SEED FOLDER SCRIPT SET LOSS-GAP\n");
		return 2;
	}
	if (file_mkdirs(opt.folder, 0755, &why)) {
		fprintf(stderr, "%s\n", why.text);
		return 2;
	}
	(void)cmocka_run_group_tests(tests, NULL, NULL);
	if (chaos.done)
		printf("chaos: ok events=%zu loss_gap=%s tokens_balance=0 hashes_agree=1\n",
			chaos.next, opt.gap);
	else
		printf("chaos: failed seed=%" PRIu64 " after %zu events, see %s\n", opt.seed,
			chaos.next, opt.folder);
	return chaos.done ? 0 : 1;
}
