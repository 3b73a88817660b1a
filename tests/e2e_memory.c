/* Memory stays what it is, however many rounds are played, also when many of them fail for one of
 * the peers. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "tests/help_run.h"
#include "tests/help_swarm.h"

#define WAIT 120
/* The page's ring of 512 events is full, and so is everything else that has a bound and is filled
 * by rounds, but SQLite's pages (below). */
#define FROM 300u
#define ROUNDS 700u
#define SOME 100u  /* of so many rounds */
#define PLAYED 70u /* the second peer plays these, and is stopped in the rest */
#define SHARE 0.02
#define LOOKS 10u /* a round apart */

/* A sanitizer keeps what was freed, on purpose. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static double resident(const struct proc *p)
{
	const char *status = proc_text("/proc/%d/status", (int)proc_pid(p));
	char line[256];
	double kb = 0;
	FILE *f = fopen(status, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, "VmRSS:", 6))
			kb = strtod(line + 6, NULL);
	fclose(f);
	assert_true(kb > 0);
	return kb * 1024;
}

static double store_bytes(const struct swarm *s)
{
	struct stat st;
	assert_int_equal(stat(proc_text("%s/store.sqlite", s->dir), &st), 0);
	return (double)st.st_size;
}

struct memory {
	double coordinator, steady, stopped, store;
};

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* The least of several looks, the first after this round: a snapshot that is being sent is mapped
 * for a moment. */
static struct memory look(
	struct swarm *s, const struct proc *steady, const struct proc *other, uint64_t round)
{
	struct memory m = {
		resident(s->coordinator), resident(steady), resident(other), store_bytes(s)};
	for (unsigned i = 1; i < LOOKS; i++) {
		help_swarm_round(s, round + i, WAIT);
		m.coordinator = least(m.coordinator, resident(s->coordinator));
		m.steady = least(m.steady, resident(steady));
		m.stopped = least(m.stopped, resident(other));
	}
	return m;
}

static void is_flat(const char *who, double before, double after, double allowed)
{
	if (after > before * (1 + SHARE) + allowed)
		fail_msg("%s: %.0f bytes at round %u, %.0f at round %u", who, before, FROM, after,
			FROM + ROUNDS);
}

static void memory_is_flat_over_rounds(void **state)
{
	(void)state;
#ifdef SANITIZED
	skip();
#endif
	static const char *const changes[] = {"round.steps=1", "round.quorum=0.5",
		"round.validate_every=0", "round.snapshot_every=10", "train.total_tokens=10000000",
		NULL};
	struct swarm s;
	help_swarm_start(&s, changes);
	struct proc *steady = help_swarm_peer(&s, "steady"), *other = help_swarm_peer(&s, "other");
	proc_line(other, "contribution delivered", WAIT);
	struct memory before = {0};
	for (uint64_t r = SOME; r <= FROM + ROUNDS; r += SOME) {
		help_swarm_round(&s, r - SOME + PLAYED, WAIT);
		proc_signal(other, SIGSTOP);
		help_swarm_round(&s, r, WAIT);
		proc_signal(other, SIGCONT);
		if (r == FROM)
			before = look(&s, steady, other, FROM);
	}
	struct memory after = look(&s, steady, other, FROM + ROUNDS);
	/* The store's pages stay in memory, up to 2 MB, which take thousands of rounds: what the
	 * file has grown by is no leak. */
	double pages = after.store - before.store;
	is_flat("the coordinator", before.coordinator, after.coordinator, pages);
	is_flat("a peer", before.steady, after.steady, 0);
	is_flat("a peer that is stopped now and then", before.stopped, after.stopped, 0);
	uint64_t all = help_swarm_tokens(&s, "steady"), some = help_swarm_tokens(&s, "other");
	assert_true(some > 0 && some < all);
	help_swarm_verify(&s, help_swarm_stop(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(memory_is_flat_over_rounds, proc_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
