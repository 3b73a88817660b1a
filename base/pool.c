#include "base/pool.h"
#include "base/alloc.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define THREADS_MOST 1024u

struct worker {
	struct pool *pool;
	pthread_t thread;
	unsigned index;
};

/*
 * A run is open while tiles may be left.  A worker that wakes joins the open run, takes tiles until
 * there are none, and leaves it; the caller does the same, then closes the run and waits for those
 * who joined.  A worker that wakes too late finds the run closed: nobody waits for it.
 */
struct pool {
	pthread_mutex_t lock; // guards all but next
	pthread_cond_t opened, left;
	bool open, stop;
	unsigned long run;
	unsigned inside;
	pool_fn *fn;
	void *arg;
	size_t tiles;
	atomic_size_t next;
	unsigned n_workers;
	struct worker workers[];
};

static void take_tiles(struct pool *p, unsigned thread)
{
	for (;;) {
		size_t tile = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
		if (tile >= p->tiles)
			return;
		p->fn(p->arg, tile, thread);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	unsigned long seen = 0;
	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		if (!p->open || p->run == seen) {
			pthread_cond_wait(&p->opened, &p->lock);
			continue;
		}
		seen = p->run;
		p->inside++;
		pthread_mutex_unlock(&p->lock);
		take_tiles(p, w->index);
		pthread_mutex_lock(&p->lock);
		if (--p->inside == 0)
			pthread_cond_signal(&p->left);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static unsigned cores(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof set, &set) != 0)
		return 1;
	int n = CPU_COUNT(&set);
	return n > 0 ? (unsigned)n : 1;
}

struct pool *pool_new(unsigned threads)
{
	if (threads == 0)
		threads = cores();
	if (threads > THREADS_MOST)
		threads = THREADS_MOST;
	struct pool *p = alloc_must_zero(1, sizeof *p + (threads - 1) * sizeof p->workers[0]);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->opened, NULL);
	pthread_cond_init(&p->left, NULL);

	// Signals belong to the thread that has the loop.
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i + 1 < threads; i++) {
		struct worker *w = &p->workers[i];
		w->pool = p;
		w->index = i + 1;
		// Under a limit on threads the pool is smaller, and that is all.
		if (pthread_create(&w->thread, NULL, work, w) != 0)
			break;
		pthread_setname_np(w->thread, "shoal-compute");
		p->n_workers++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return p;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->opened);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n_workers; i++)
		pthread_join(p->workers[i].thread, NULL);
	pthread_cond_destroy(&p->left);
	pthread_cond_destroy(&p->opened);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

unsigned pool_threads(const struct pool *p)
{
	return p->n_workers + 1;
}

void pool_run(struct pool *p, size_t tiles, pool_fn *fn, void *arg)
{
	if (tiles <= 1 || p->n_workers == 0) {
		for (size_t i = 0; i < tiles; i++)
			fn(arg, i, 0);
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->fn = fn;
	p->arg = arg;
	p->tiles = tiles;
	atomic_store_explicit(&p->next, 0, memory_order_relaxed);
	p->run++;
	p->open = true;
	for (size_t i = 0; i + 1 < tiles && i < p->n_workers; i++)
		pthread_cond_signal(&p->opened);
	pthread_mutex_unlock(&p->lock);

	take_tiles(p, 0);

	pthread_mutex_lock(&p->lock);
	p->open = false;
	while (p->inside > 0)
		pthread_cond_wait(&p->left, &p->lock);
	pthread_mutex_unlock(&p->lock);
}
