/* The thread pool and the mailbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/pool.h"

#define TILES 1000

struct job {
	unsigned threads;
	int times[TILES];
	float result[TILES];
	atomic_uint wrong_thread;
};

static void tile(void *arg, size_t i, unsigned thread)
{
	struct job *job = arg;
	job->times[i]++;
	float x = 0;
	for (int k = 1; k < 50; k++)
		x += (float)i / (float)k;
	job->result[i] = x;
	if (thread >= job->threads)
		atomic_fetch_add(&job->wrong_thread, 1);
}

static void every_tile_runs_once(void **state)
{
	(void)state;
	struct job *one = alloc_must_zero(1, sizeof *one);
	one->threads = 1;
	struct pool *p = pool_new(1);
	assert_int_equal(pool_threads(p), 1);
	pool_run(p, TILES, tile, one);
	pool_free(p);
	for (unsigned threads = 2; threads <= 5; threads++) {
		struct job *job = alloc_must_zero(1, sizeof *job);
		job->threads = threads;
		p = pool_new(threads);
		assert_int_equal(pool_threads(p), threads);
		pool_run(p, TILES, tile, job);
		for (int i = 0; i < TILES; i++)
			assert_int_equal(job->times[i], 1);
		assert_memory_equal(job->result, one->result, sizeof job->result);
		assert_int_equal(job->wrong_thread, 0);
		pool_free(p);
		free(job);
	}
	free(one);
}

/* Short runs one after another: a worker may wake when its run is over, and must not touch the
 * next one's state in the wrong order. */
static void short_runs_follow_each_other(void **state)
{
	(void)state;
	struct job *job = alloc_must_zero(1, sizeof *job);
	job->threads = 4;
	struct pool *p = pool_new(4);
	const int runs = 3000;
	for (int i = 0; i < runs; i++)
		pool_run(p, (size_t)(i % 6), tile, job);
	int expected[6] = {0};
	for (int i = 0; i < runs; i++)
		for (int k = 0; k < i % 6; k++)
			expected[k]++;
	for (int k = 0; k < 6; k++)
		assert_int_equal(job->times[k], expected[k]);
	assert_int_equal(job->wrong_thread, 0);
	pool_free(p);
	free(job);
}

static void a_pool_fits_the_machine(void **state)
{
	(void)state;
	struct pool *p = pool_new(0);
	cpu_set_t set;
	assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
	assert_int_equal(pool_threads(p), CPU_COUNT(&set));
	pool_free(p);
	pool_free(NULL);
	// Nonsense from an option does not take the machine down.
	p = pool_new(1000000);
	assert_true(pool_threads(p) <= 1024);
	pool_free(p);
}

/* How many threads called shoal-compute are in another state than sleeping. */
static int awake(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/task");
	assert_non_null(dir);
	for (struct dirent *e; (e = readdir(dir));) {
		char path[300], line[200] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
		FILE *f = fopen(path, "re");
		if (f && fgets(line, sizeof line, f) && strstr(line, "(shoal-compute) ") &&
			!strstr(line, "(shoal-compute) S"))
			n++;
		if (f)
			fclose(f);
	}
	closedir(dir);
	return n;
}

static void idle_threads_sleep(void **state)
{
	(void)state;
	struct job *job = alloc_must_zero(1, sizeof *job);
	job->threads = 4;
	struct pool *p = pool_new(4);
	pool_run(p, TILES, tile, job);
	uint64_t end = clock_now_ns() + 20 * CLOCK_SECOND;
	int n;
	while ((n = awake()) > 0 && clock_now_ns() < end)
		sched_yield();
	assert_int_equal(n, 0);
	pool_free(p);
	free(job);
}

struct letter {
	struct mail mail;
	int from, number;
};

static atomic_int dropped;

static void drop(struct mail *m)
{
	atomic_fetch_add(&dropped, 1);
	free(m);
}

static struct mail *letter(int from, int number)
{
	struct letter *l = alloc_must_zero(1, sizeof *l);
	*l = (struct letter){.mail = {.kind = 5, .drop = drop}, .from = from, .number = number};
	return &l->mail;
}

static bool readable(const struct mailbox *b)
{
	struct pollfd p = {.fd = mailbox_fd(b), .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

static void mail_comes_in_order(void **state)
{
	(void)state;
	struct mailbox *b = mailbox_new();
	assert_null(mailbox_take(b));
	assert_false(readable(b));
	mailbox_put(b, letter(0, 1));
	mailbox_put(b, letter(0, 2));
	assert_true(readable(b));
	for (int i = 1; i <= 2; i++) {
		struct mail *m = mailbox_take(b);
		assert_non_null(m);
		assert_int_equal(m->kind, 5);
		assert_int_equal(((struct letter *)m)->number, i);
		assert_true(readable(b) == (i == 1));
		free(m);
	}
	assert_null(mailbox_wait(b, 0));
	assert_null(mailbox_wait(b, CLOCK_MS));
	mailbox_put(b, letter(0, 3));
	struct mail *m = mailbox_wait(b, UINT64_MAX);
	assert_non_null(m);
	free(m);
	mailbox_put(b, letter(0, 4));
	mailbox_put(b, letter(0, 5));
	atomic_store(&dropped, 0);
	mailbox_free(b);
	assert_int_equal(dropped, 2);
	mailbox_free(NULL);
}

struct sender {
	struct mailbox *to;
	int from;
};

static void *send_many(void *arg)
{
	struct sender *s = arg;
	for (int i = 0; i < 2000; i++)
		mailbox_put(s->to, letter(s->from, i));
	return NULL;
}

static void threads_send_and_nothing_is_lost(void **state)
{
	(void)state;
	struct mailbox *b = mailbox_new();
	pthread_t t[3];
	struct sender s[3];
	int next[3] = {0};
	for (int i = 0; i < 3; i++) {
		s[i] = (struct sender){b, i};
		assert_int_equal(pthread_create(&t[i], NULL, send_many, &s[i]), 0);
	}
	for (int i = 0; i < 3 * 2000; i++) {
		struct mail *m = mailbox_wait(b, 60 * CLOCK_SECOND);
		assert_non_null(m);
		struct letter *l = (struct letter *)m;
		assert_int_equal(l->number, next[l->from]++);
		free(m);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	assert_null(mailbox_take(b));
	assert_false(readable(b));
	mailbox_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_tile_runs_once),
		cmocka_unit_test(short_runs_follow_each_other),
		cmocka_unit_test(a_pool_fits_the_machine),
		cmocka_unit_test(idle_threads_sleep),
		cmocka_unit_test(mail_comes_in_order),
		cmocka_unit_test(threads_send_and_nothing_is_lost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
