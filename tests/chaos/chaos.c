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
#define TURN_MOST (CLOCK_SECOND / 10)
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

/* What ends next of what has begun; n: nothing. */
static size_t next_mend(const struct chaos *c)
{
	size_t first = c->n;
	for (size_t i = 0; i < c->next; i++)
		if (c->broken[i] &&
			(first == c->n || c->events[i].until_ms < c->events[first].until_ms))
			first = i;
	return first;
}

/* In the order of the schedule, also where several are due. */
static bool act(struct chaos *c, uint64_t now_ms)
{
	const size_t mend = next_mend(c);
	const uint64_t ends = mend < c->n ? c->events[mend].until_ms : UINT64_MAX,
		       begins = c->next < c->n ? c->events[c->next].at_ms : UINT64_MAX;
	if (ends <= begins && ends <= now_ms) {
		c->broken[mend] = false;
		actors_mend(&c->actors, &c->events[mend]);
	} else if (begins < ends && begins <= now_ms) {
		c->broken[c->next] = true;
		actors_break(&c->actors, &c->events[c->next++]);
	} else {
		return false;
	}
	return true;
}

/* Where a turn takes long, as on a busy machine, the schedule waits: nobody is to suffer in a
 * shorter time what was meant for a longer one. */
static void play(struct chaos *c)
{
	uint64_t now = 0, seen = clock_now_ns();
	while (now < opt.seconds * CLOCK_SECOND) {
		if (!act(c, now / CLOCK_MS))
			poll(NULL, 0, SLICE_MS); /* nothing is due */
		actors_watch(&c->actors);
		uint64_t passed = clock_now_ns() - seen;
		seen += passed;
		now += passed < TURN_MOST ? passed : TURN_MOST;
	}
	for (size_t i; (i = next_mend(c)) < c->n;) {
		c->broken[i] = false;
		actors_mend(&c->actors, &c->events[i]);
	}
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
	verdict_listed_once(a, stopped);
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
