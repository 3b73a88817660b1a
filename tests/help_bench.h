/* The parts of bench_compute: one model timed, what the machine can at most, other programs asked.
 */
#ifndef TESTS_HELP_BENCH_H
#define TESTS_HELP_BENCH_H
#include <jansson.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/backend.h"
#include "model/graph.h"

_Noreturn void help_bench_die(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Sorts. */
double help_bench_median(double *x, size_t n);

/* ---- what the machine can, by so many threads */

/* GFLOP/s that the library of products which the cpu backend takes reaches on the best of a few
 * products of GPT-2's sizes, one on each thread; of bf16 where it has that, factors packed. */
double help_bench_products(unsigned threads, enum precision precision);
/* GB/s of a += s b over arrays that no cache holds: two reads and a write of what was read, so that
 * nothing moves that is not counted. */
double help_bench_memory(unsigned threads);

/* ---- one model */

struct help_bench_load {
	const char *name;
	struct model_config model;
	uint32_t batch, seq;
};

/* Times steps in this process, which has done nothing else, so that the largest resident size is
 * this model's.  Owned: {model, batch, seq, threads, precision, device, steps; tokens_per_s, the
 * median, and its _least and _most; gflops, rss_mib; peak_gflops of this precision and memory_gbs,
 * the better of before and after; of the fastest sample, which was disturbed least: step_ms and
 * ops: {NAME: [forward, backward]}}.  Each way of an op has {ms, gflops, gbs, of_bound}: of_bound
 * is the time that its FLOPs take at the peak or its bytes at the memory's speed, whichever is
 * more, over the time it took. */
json_t *help_bench_step(
	const struct help_bench_load *l, unsigned threads, enum precision precision);
const char *help_bench_precision(enum precision precision);

/* ---- others, each a process of its own */

/* Whether it ends with success. */
bool help_bench_works(const char *const *argv);
/* The JSON object that it prints as its last line.  NULL when it failed or took longer than
 * limit_ns; its errors are on stderr.  Owned. */
json_t *help_bench_ask(const char *const *argv, uint64_t limit_ns);
/* Milliseconds of llm.c's steps by so many threads at 4 x 64 tokens, the median; path of its built
 * train_gpt2, in the folder with its checkpoint and data.  0, told on stderr: none came in time. */
double help_bench_llmc(const char *path, unsigned threads);

#endif
