/* Which micro-batch is taken for how much memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "peer/fit.h"

static const struct backend *ref;
static struct device *device;

static int open_device(void **state)
{
	(void)state;
	ref = backend_find("ref");
	return (int)ref->open(&(struct backend_config){.threads = 1}, &device, NULL);
}

static int close_device(void **state)
{
	(void)state;
	ref->close(device);
	return 0;
}

static struct spec gpt(void)
{
	struct spec s = {.model = {.builder = "gpt",
				 .layers = 4,
				 .width = 32,
				 .heads = 2,
				 .context = 32,
				 .vocab = 64,
				 .tied = true,
				 .n_shards = 1}};
	s.train.batch = 12;
	s.train.micro_batch = 6;
	s.train.seq = 32;
	return s;
}

static struct spec resnet(void)
{
	struct spec s = {.model = {.builder = "resnet",
				 .layers = 4,
				 .width = 4,
				 .vocab = 10,
				 .blocks = {2, 2},
				 .small_stem = true,
				 .image = {1, 12, 12},
				 .n_shards = 1}};
	s.train.batch = s.train.micro_batch = 8;
	s.train.seq = 1;
	return s;
}

static struct fit find(struct fit_ask *ask, uint64_t memory)
{
	struct fit f = {0};
	struct why why;
	ask->memory = memory;
	if (fit_find(ask, NULL, &f, &why))
		fail_msg("%s", why.text);
	assert_true(f.bytes <= memory);
	return f;
}

/* A byte less each time than what was taken: all possible micro-batches in order. */
static void the_largest_that_fits_is_taken(void **state)
{
	(void)state;
	static const uint32_t sizes[] = {6, 4, 3, 2, 1};
	struct spec s = gpt();
	struct fit_ask ask = {.spec = &s, .backend = ref, .device = device, .training = true};
	uint64_t memory = UINT64_MAX;
	for (size_t i = 0; i < 5; i++) {
		struct fit f = find(&ask, memory);
		assert_int_equal(f.micro_batch, sizes[i]);
		assert_false(f.recompute);
		memory = f.bytes - 1;
	}
	struct fit f = find(&ask, memory), least;
	assert_true(f.recompute && f.micro_batch >= 1);
	do {
		least = f;
		ask.memory = least.bytes - 1;
	} while (!fit_find(&ask, NULL, &f, NULL));
	assert_int_equal(least.micro_batch, 1);
	struct why why;
	assert_int_equal(fit_find(&ask, NULL, &f, &why), ERR_nomem);
	if (!strstr(why.text, "training on sequences of 32 tokens, 1 at a time, takes"))
		fail_msg("%s", why.text);
}

static void what_failed_is_not_tried_again(void **state)
{
	(void)state;
	struct spec s = gpt();
	struct fit_ask ask = {.spec = &s, .backend = ref, .device = device, .training = true};
	struct fit f = find(&ask, UINT64_MAX);
	uint32_t tries = 1;
	for (struct fit next; !fit_find(&ask, &f, &next, NULL); f = next, tries++)
		assert_true(next.bytes < f.bytes);
	assert_true(tries >= 6);
	assert_true(f.recompute && f.micro_batch == 1);
}

/* Batch normalisation is over the micro-batch: another size would be another model. */
static void a_model_with_running_statistics_keeps_its_micro_batch(void **state)
{
	(void)state;
	struct spec s = resnet();
	struct fit_ask ask = {.spec = &s, .backend = ref, .device = device, .training = true};
	struct fit f = find(&ask, UINT64_MAX), again = find(&ask, f.bytes - 1);
	assert_true(f.micro_batch == 8 && !f.recompute);
	assert_true(again.micro_batch == 8 && again.recompute);
	ask.memory = again.bytes - 1;
	struct why why;
	assert_int_equal(fit_find(&ask, NULL, &f, &why), ERR_nomem);
	if (!strstr(why.text, "train.micro_batch"))
		fail_msg("%s", why.text);
	ask.training = false;
	assert_true(find(&ask, again.bytes / 4).micro_batch < 8); /* in evaluation it is free */
}

static void what_else_is_held_counts(void **state)
{
	(void)state;
	struct spec s = gpt();
	struct graph *g = NULL;
	struct fit_ask ask = {.spec = &s, .backend = ref, .device = device, .training = true};
	assert_int_equal(graph_build(&s.model, 1, 32, &g, NULL), ERR_OK);
	uint64_t alone = find(&ask, UINT64_MAX).bytes;
	ask.beside = 6;
	assert_int_equal(find(&ask, UINT64_MAX).bytes, alone + 24 * graph_params(g));
	assert_true(find(&ask, alone + 23 * graph_params(g)).micro_batch < 6);
	graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_that_fits_is_taken),
		cmocka_unit_test(what_failed_is_not_tried_again),
		cmocka_unit_test(a_model_with_running_statistics_keeps_its_micro_batch),
		cmocka_unit_test(what_else_is_held_counts),
	};
	return cmocka_run_group_tests(tests, open_device, close_device);
}
