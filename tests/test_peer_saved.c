/* Models that transformers saved give the loss and the logits that transformers computes, on each
 * backend (tests/golden_hf.py wrote them). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "kernels/exec.h"
#include "peer/saved.h"

#define FOLDER "tests/data/hf/"
#define SEQUENCES 2u
#define LOSS_BOUND 1e-5
#define LOGIT_BOUND 1e-4 /* of values to 10 */

struct golden {
	json_t *doc;
	int32_t *tokens, *targets; /* SEQUENCES x seq */
	uint32_t seq;
};

static struct golden read_golden(void)
{
	struct golden g = {0};
	struct why why = {0};
	uint8_t *text = NULL;
	size_t n = 0;
	if (file_read(FOLDER "golden.json", 1u << 20, &text, &n, &why) ||
		json_parse(text, n, 1u << 20, &g.doc, &why))
		fail_msg("%s", why.text);
	free(text);
	json_t *rows = json_object_get(g.doc, "tokens");
	assert_int_equal(json_array_size(rows), SEQUENCES);
	g.seq = (uint32_t)json_array_size(json_array_get(rows, 0)) - 1;
	g.tokens = alloc_must_zero((size_t)SEQUENCES * g.seq, sizeof *g.tokens);
	g.targets = alloc_must_zero((size_t)SEQUENCES * g.seq, sizeof *g.targets);
	for (uint32_t b = 0; b < SEQUENCES; b++)
		for (uint32_t t = 0; t < g.seq; t++) {
			json_t *row = json_array_get(rows, b);
			size_t at = (size_t)b * g.seq + t;
			g.tokens[at] = (int32_t)json_integer_value(json_array_get(row, t));
			g.targets[at] = (int32_t)json_integer_value(json_array_get(row, t + 1));
		}
	return g;
}

static void release(struct golden *g)
{
	json_decref(g->doc);
	free(g->tokens);
	free(g->targets);
}

static void fine(enum err e, const struct why *why)
{
	if (e)
		fail_msg("%s", why->text);
}

static void check_values(
	struct exec *x, const struct graph *graph, const struct golden *g, const json_t *must)
{
	struct why why = {0};
	double loss = 0, is = json_number_value(json_object_get(must, "loss"));
	const struct exec_batch batch = {.tokens = g->tokens, .targets = g->targets};
	fine(exec_whole(x, &batch, &loss, &why), &why);
	if (!(fabs(loss - is) < LOSS_BOUND))
		fail_msg("loss %.7f, transformers has %.7f", loss, is);
	const json_t *logits = json_object_get(must, "logits");
	size_t vocab = json_array_size(logits), rows = (size_t)SEQUENCES * g->seq;
	float *got = alloc_must_zero(vocab, sizeof *got);
	exec_get(x, graph->logits, (rows - 1) * vocab, vocab, got);
	for (size_t i = 0; i < vocab; i++) {
		double want = json_number_value(json_array_get(logits, i));
		if (!(fabs((double)got[i] - want) < LOGIT_BOUND))
			fail_msg("logit %zu is %.6f, transformers has %.6f", i, (double)got[i],
				want);
	}
	free(got);
}

static void check_model(
	const char *backend, const char *name, const struct golden *g, const json_t *must)
{
	char path[100];
	struct saved saved;
	struct trainer *t = NULL;
	struct graph *graph = NULL;
	struct exec *x = NULL;
	struct why why = {0};
	snprintf(path, sizeof path, FOLDER "%s", name);
	fine(saved_open(path, &saved, &why), &why);
	const struct trainer_config how = {.spec = saved.spec, .backend = backend, .threads = 1};
	fine(trainer_new(&how, &t, &why), &why);
	fine(saved_load(&saved, t, &why), &why);
	fine(graph_build(&saved.spec->model, SEQUENCES, g->seq, &graph, &why), &why);
	fine(exec_new(graph, trainer_params(t), EXEC_loss, &x, &why), &why);
	check_values(x, graph, g, must);
	exec_free(x);
	graph_free(graph);
	trainer_free(t);
	saved_release(&saved);
}

static void transformers_computes_the_same(void **state)
{
	(void)state;
	static const char *const backends[] = {"ref", "cpu"};
	struct golden g = read_golden();
	json_t *models = json_object_get(g.doc, "models"), *must;
	const char *name;
	assert_int_equal(json_object_size(models), 3);
	for (size_t i = 0; i < 2; i++)
		json_object_foreach(models, name, must) check_model(backends[i], name, &g, must);
	release(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transformers_computes_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
