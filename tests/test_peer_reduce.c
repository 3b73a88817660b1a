/* The baseline of bench_allreduce: its ring gives everybody the same mean, and ranks that train
 * with it are one process with their batches together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/help_peer.h"
#include "tests/help_reduce.h"

#define WORLD_MOST 5u
#define PATIENCE (30 * CLOCK_SECOND)
#define STEPS 5

/* A rank on a thread of its own; what went wrong is told after the join, where a test may fail. */
struct rank {
	pthread_t thread;
	struct help_reduce_place place;
	int listener;
	uint16_t port, next;
	struct help_reduce_ring *ring;
	enum err e;
	struct why why;
	/* of a mean */
	float *values;
	uint64_t n, first, most;
	bool leave; /* before anything is sent */
	/* of training */
	const struct help_peer *run;
	struct help_reduce *train;
	double loss;
};

static void open_ranks(struct rank *r, unsigned world, enum help_reduce_wire wire)
{
	struct why why;
	memset(r, 0, world * sizeof *r);
	for (unsigned i = 0; i < world; i++) {
		r[i].place = (struct help_reduce_place){i, world, wire, {{7}}};
		help_peer_fine(
			help_reduce_listen("127.0.0.1", &r[i].port, &r[i].listener, &why), &why);
	}
	for (unsigned i = 0; i < world; i++)
		r[i].next = r[(i + 1) % world].port;
}

static void join_ring(struct rank *r)
{
	r->e = help_reduce_join(
		&r->place, r->listener, "127.0.0.1", r->next, PATIENCE, &r->ring, &r->why);
}

static void run_ranks(struct rank *r, unsigned world, void *(*run)(void *))
{
	for (unsigned i = 0; i < world; i++)
		assert_int_equal(pthread_create(&r[i].thread, NULL, run, &r[i]), 0);
	for (unsigned i = 0; i < world; i++)
		pthread_join(r[i].thread, NULL);
}

static void close_ranks(struct rank *r, unsigned world)
{
	for (unsigned i = 0; i < world; i++) {
		help_reduce_leave(r[i].ring);
		help_reduce_free(r[i].train);
		free(r[i].values);
		close(r[i].listener);
	}
}

/* ---- buckets */

static void buckets_are_cut_from_the_end(void **state)
{
	(void)state;
	float v[10];
	struct help_reduce_bucket b[4];
	assert_int_equal(help_reduce_cut(v, 10, 1, 4, NULL), 4);
	assert_int_equal(help_reduce_cut(v, 10, 1, 4, b), 4);
	static const struct {
		int at;
		uint64_t n;
	} want[] = {{9, 1}, {5, 4}, {1, 4}, {0, 1}};
	for (int i = 0; i < 4; i++) {
		assert_ptr_equal(b[i].values, v + want[i].at);
		assert_int_equal(b[i].n, want[i].n);
	}
	assert_int_equal(help_reduce_cut(v, 3, 8, 4, b), 1);
	assert_int_equal(b[0].n, 3);
	assert_int_equal(help_reduce_cut(v, 0, 8, 4, b), 0);
}

/* ---- the ring */

static void *two_means(void *arg)
{
	struct rank *r = arg;
	struct help_reduce_bucket b[64];
	size_t n = help_reduce_cut(r->values, r->n, r->first, r->most, b);
	join_ring(r);
	if (r->e)
		return NULL;
	if (!r->leave)
		r->e = help_reduce_mean(r->ring, b, n, &r->why);
	if (!r->e && !r->leave) /* whoever is ready first sends into the other's first call */
		r->e = help_reduce_mean(r->ring, b, n, &r->why);
	if (r->leave || r->e) {
		help_reduce_leave(r->ring);
		r->ring = NULL;
	}
	return NULL;
}

static float value(unsigned rank, uint64_t i)
{
	return (float)((int)((i * 2654435761u + rank * 40503u) % 2001) - 1000) / 64;
}

static void fill_ranks(struct rank *r, unsigned world, uint64_t n, uint64_t first, uint64_t most)
{
	for (unsigned i = 0; i < world; i++) {
		r[i].values = alloc_must_zero(n, sizeof(float));
		r[i].n = n;
		r[i].first = first;
		r[i].most = most;
		for (uint64_t k = 0; k < n; k++)
			r[i].values[k] = value(i, k);
	}
}

static void check_mean(const struct rank *r, unsigned world, enum help_reduce_wire wire)
{
	for (unsigned i = 0; i < world; i++) {
		help_peer_fine(r[i].e, &r[i].why);
		assert_memory_equal(r[i].values, r[0].values, r[0].n * sizeof(float));
	}
	for (uint64_t k = 0; k < r[0].n; k++) {
		double sum = 0, size = 0, got = (double)r[0].values[k];
		for (unsigned i = 0; i < world; i++) {
			sum += (double)value(i, k);
			size += fabs((double)value(i, k));
		}
		/* A mean of equal values is that value, so the second call changes rounding only.
		 */
		double most = size * (wire == HELP_REDUCE_bf16 ? 0.01 : 1e-6);
		if (fabs(got - sum / world) > most)
			fail_msg("value %llu is %g, the mean %g", (unsigned long long)k, got,
				sum / world);
	}
}

static void all_ranks_get_the_mean(void **state)
{
	(void)state;
	static const struct {
		uint64_t n, first, most;
	} cases[] = {{1, 1, 1}, {3, 8, 8}, {1000, 64, 100}, {300000, 1024, 70000}};
	for (unsigned world = 2; world <= WORLD_MOST; world++)
		for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
			for (int wire = HELP_REDUCE_float32; wire <= HELP_REDUCE_bf16; wire++) {
				struct rank r[WORLD_MOST];
				open_ranks(r, world, (enum help_reduce_wire)wire);
				fill_ranks(r, world, cases[c].n, cases[c].first, cases[c].most);
				run_ranks(r, world, two_means);
				check_mean(r, world, (enum help_reduce_wire)wire);
				close_ranks(r, world);
			}
}

/* 2 (N - 1) / N of the values, in both halves together. */
static void bytes_are_those_of_a_ring(void **state)
{
	(void)state;
	for (int wire = HELP_REDUCE_float32; wire <= HELP_REDUCE_bf16; wire++) {
		struct rank r[4];
		open_ranks(r, 4, (enum help_reduce_wire)wire);
		fill_ranks(r, 4, 4000, 400, 1200);
		run_ranks(r, 4, two_means);
		for (int i = 0; i < 4; i++) {
			help_peer_fine(r[i].e, &r[i].why);
			assert_int_equal(help_reduce_sent(r[i].ring),
				2 * 6000 * (wire == HELP_REDUCE_bf16 ? 2 : 4));
		}
		close_ranks(r, 4);
	}
}

static void a_rank_that_goes_ends_the_others(void **state)
{
	(void)state;
	struct rank r[3];
	open_ranks(r, 3, HELP_REDUCE_float32);
	fill_ranks(r, 3, 3000000, 100000, 1000000);
	r[1].leave = true;
	run_ranks(r, 3, two_means);
	assert_int_equal(r[1].e, ERR_OK);
	assert_int_equal(r[0].e, ERR_closed);
	assert_int_equal(r[2].e, ERR_closed);
	close_ranks(r, 3);
}

static void another_run_is_refused(void **state)
{
	(void)state;
	struct rank r[2];
	open_ranks(r, 2, HELP_REDUCE_float32);
	fill_ranks(r, 2, 10, 10, 10);
	r[1].place.run.b[0]++;
	run_ranks(r, 2, two_means);
	for (int i = 0; i < 2; i++)
		help_peer_told(&r[i].why, ERR_refused, "another spec");
	close_ranks(r, 2);
}

/* ---- training */

static void make_train(struct rank *r)
{
	struct help_reduce_config how = {.spec = r->run->spec,
		.corpus = r->run->data.corpus,
		.backend = "cpu",
		.threads = 1,
		.ring = r->ring,
		.rank = r->place.rank,
		.world = r->place.world};
	r->e = help_reduce_new(&how, &r->train, &r->why);
}

static void *train(void *arg)
{
	struct rank *r = arg;
	for (uint64_t i = 0; !r->e && i < STEPS; i++) {
		struct help_reduce_step step = {0};
		r->e = help_reduce_step(r->train, i, &step, &r->why);
		r->loss = step.loss;
	}
	return NULL;
}

static void *join_only(void *arg)
{
	join_ring(arg);
	return NULL;
}

/* Trained ranks of this run, on loopback. */
static void train_ranks(
	struct rank *r, unsigned world, enum help_reduce_wire wire, const struct help_peer *run)
{
	open_ranks(r, world, wire);
	if (world > 1)
		run_ranks(r, world, join_only);
	for (unsigned i = 0; i < world; i++) {
		help_peer_fine(r[i].e, &r[i].why);
		r[i].run = run;
		make_train(&r[i]);
		help_peer_fine(r[i].e, &r[i].why);
	}
	run_ranks(r, world, train);
	for (unsigned i = 0; i < world; i++) {
		help_peer_fine(r[i].e, &r[i].why);
		struct hash mine = help_reduce_hash(r[i].train),
			    first = help_reduce_hash(r[0].train);
		assert_true(hash_equal(&mine, &first));
		assert_true(isfinite(r[i].loss));
	}
}

static double distance(struct trainer *a, struct trainer *b)
{
	double sum = 0, norm = 0;
	for (uint32_t s = 0; s < trainer_shards(a); s++) {
		uint64_t n = trainer_count(a, s);
		float *x = alloc_must_zero(n, sizeof *x), *y = alloc_must_zero(n, sizeof *y);
		trainer_read(a, s, PARAMS_value, x);
		trainer_read(b, s, PARAMS_value, y);
		for (uint64_t i = 0; i < n; i++) {
			sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
			norm += (double)y[i] * (double)y[i];
		}
		free(x);
		free(y);
	}
	return sqrt(sum / norm);
}

static void three_ranks_are_one_with_three_batches(void **state)
{
	(void)state;
	static const char *const one[] = {"train.micro_batch=4", NULL},
				 *const three[] = {"train.micro_batch=12", "train.batch=12", NULL};
	struct help_peer of_ranks, of_one;
	struct rank r[3], rough[3], alone[1];
	help_peer_open(&of_ranks, one);
	help_peer_open(&of_one, three);
	train_ranks(r, 3, HELP_REDUCE_float32, &of_ranks);
	train_ranks(rough, 3, HELP_REDUCE_bf16, &of_ranks);
	train_ranks(alone, 1, HELP_REDUCE_float32, &of_one);
	struct trainer *want = help_reduce_trainer(alone[0].train);
	double apart = distance(help_reduce_trainer(r[0].train), want);
	double apart_bf16 = distance(help_reduce_trainer(rough[0].train), want);
	assert_true(trainer_steps(want) == STEPS);
	assert_true(apart < 1e-4);
	assert_true(apart_bf16 < 0.05 && apart_bf16 > apart);
	/* A rank that trained alone on its own third is not near. */
	struct rank lonely[1];
	train_ranks(lonely, 1, HELP_REDUCE_float32, &of_ranks);
	assert_true(distance(help_reduce_trainer(lonely[0].train), want) > 20 * apart);
	close_ranks(lonely, 1);
	close_ranks(r, 3);
	close_ranks(rough, 3);
	close_ranks(alone, 1);
	help_peer_release(&of_ranks);
	help_peer_release(&of_one);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, help_peer_setup, help_peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_are_cut_from_the_end),
		cmocka_unit_test(all_ranks_get_the_mean),
		cmocka_unit_test(bytes_are_those_of_a_ring),
		cmocka_unit_test(a_rank_that_goes_ends_the_others),
		cmocka_unit_test(another_run_is_refused),
		TEST(three_ranks_are_one_with_three_batches),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
