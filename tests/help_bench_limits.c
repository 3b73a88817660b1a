#include "tests/help_bench.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/arena.h"
#include "base/clock.h"
#include "base/pool.h"
#include "kernels/cpu/plugin.h"
#include "kernels/cpu/product.h"

#define SAMPLES 7
#define UPDATE_FLOATS ((size_t)8 << 20) /* of each array and thread: 32 MiB */

void help_bench_die(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double help_bench_median(double *x, size_t n)
{
	qsort(x, n, sizeof *x, by_size);
	return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* On huge pages as the backend's memory, and filled, so that every page is there before the clock
 * starts. */
static struct arena numbers(size_t n)
{
	struct arena a;
	if (arena_init(&a, n * sizeof(float)))
		help_bench_die("out of memory");
	float *x = (float *)(void *)a.base;
	for (size_t i = 0; i < n; i++)
		x[i] = (float)(i % 7) - 3;
	return a;
}

static float *at(const struct arena *a, size_t i)
{
	return (float *)(void *)a->base + i;
}

/* Median rate of work / time; a call is repeated until it lasts longer than waking threads does. */
static double rate(struct pool *p, pool_fn *fn, void *arg, double work)
{
	enum { CALLS = 3 };
	double x[SAMPLES];
	pool_run(p, pool_threads(p), fn, arg);
	for (size_t i = 0; i < SAMPLES; i++) {
		uint64_t begin = clock_now_ns();
		for (int k = 0; k < CALLS; k++)
			pool_run(p, pool_threads(p), fn, arg);
		x[i] = CALLS * work / (double)(clock_now_ns() - begin);
	}
	return help_bench_median(x, SAMPLES);
}

/* ---- products */

struct tries {
	struct products library;
	bool bf16;
	uint64_t m, n, k;
	struct arena a, b, c; /* a piece of each for every thread */
};

static void multiply(void *arg, size_t tile, unsigned thread)
{
	const struct tries *t = arg;
	const struct product p = {.m = t->m,
		.n = t->n,
		.k = t->k,
		.a = {at(&t->a, tile * t->m * t->k), t->k, false},
		.b = {at(&t->b, tile * t->k * t->n), t->n, false},
		.alpha = 1,
		.c = at(&t->c, tile * t->m * t->n),
		.c_step = t->n};
	product_run(&t->library, thread, &p);
}

/* What the arenas hold serves as bfloat16 too; b is in the library's order, whatever that is. */
static void multiply_halves(void *arg, size_t tile, unsigned thread)
{
	const struct tries *t = arg;
	const struct half_product p = {.m = t->m,
		.n = t->n,
		.k = t->k,
		.a = (const uint16_t *)(void *)at(&t->a, tile * t->m * t->k),
		.a_step = t->k,
		.b = (const uint16_t *)(void *)at(&t->b, tile * t->k * t->n),
		.c = at(&t->c, tile * t->m * t->n)};
	t->library.plugin->half_product(t->library.library, thread, &p);
}

static double try_shape(struct pool *p, struct tries *t)
{
	unsigned threads = pool_threads(p);
	t->a = numbers(threads * t->m * t->k);
	t->b = numbers(threads * t->k * t->n);
	t->c = numbers(threads * t->m * t->n);
	double found = rate(p, t->bf16 ? multiply_halves : multiply, t,
		2.0 * (double)(threads * t->m * t->n * t->k));
	arena_release(&t->a);
	arena_release(&t->b);
	arena_release(&t->c);
	return found;
}

double help_bench_products(unsigned threads, enum precision precision)
{
	static const uint64_t shapes[][3] = {
		{768, 768, 768}, {256, 768, 3072}, {256, 3072, 768}, {1024, 768, 768}};
	char plugin[PATH_MAX];
	struct tries t = {0};
	double most = 0;
	product_open(&t.library, plugin_find(plugin, sizeof plugin), threads);
	t.bf16 = precision == PRECISION_bf16 && t.library.has_bf16;
	struct pool *p = pool_new(threads);
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		t.m = shapes[i][0];
		t.n = shapes[i][1];
		t.k = shapes[i][2];
		double x = try_shape(p, &t);
		most = x > most ? x : most;
	}
	pool_free(p);
	product_close(&t.library);
	return most;
}

/* ---- memory */

struct update {
	struct arena a, b;
};

static void add_scaled(void *arg, size_t tile, unsigned thread)
{
	(void)thread;
	const struct update *u = arg;
	size_t first = tile * UPDATE_FLOATS;
	float *restrict a = at(&u->a, first);
	const float *restrict b = at(&u->b, first);
	for (size_t i = 0; i < UPDATE_FLOATS; i++)
		a[i] += 3 * b[i];
}

double help_bench_memory(unsigned threads)
{
	size_t n = threads * UPDATE_FLOATS;
	struct update u = {numbers(n), numbers(n)};
	struct pool *p = pool_new(threads);
	double found = rate(p, add_scaled, &u, 3.0 * sizeof(float) * (double)n);
	pool_free(p);
	arena_release(&u.a);
	arena_release(&u.b);
	return found;
}
