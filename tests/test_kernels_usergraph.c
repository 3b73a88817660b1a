/* The user's graph computes: what the builder of GPT makes, written down by hand, gives the same
 * losses, norms and parameters bit for bit on every backend; and the example learns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "model/spec.h"
#include "tests/help_graph.h"
#include "tests/help_kernels.h"
#include "tests/help_usergraph.h"

enum { STEPS = 5 };

struct outcome {
	double losses[STEPS], norms[STEPS][2];
	double *params[2];
};

static struct outcome train(const struct graph *g, const char *backend)
{
	struct help_kernels k = help_kernels_open(backend);
	struct params *p = help_kernels_params(&k, g, NULL, 0, 7);
	struct exec *x = help_kernels_exec(g, p, EXEC_train);
	int32_t *tokens = help_kernels_tokens(g, 1), *targets = help_kernels_tokens(g, 2);
	struct exec_batch batch = {.tokens = tokens, .targets = targets};
	struct params_step how = {.lr = 1e-2,
		.beta1 = 0.9,
		.beta2 = 0.95,
		.eps = 1e-8,
		.weight_decay = 0.1,
		.clip = 1};
	struct outcome o;
	for (uint64_t i = 0; i < STEPS; i++) {
		how.step = i + 1;
		assert_int_equal(exec_whole(x, &batch, &o.losses[i], NULL), ERR_OK);
		assert_int_equal(params_adamw(p, &how, o.norms[i], NULL), ERR_OK);
	}
	for (uint32_t s = 0; s < 2; s++)
		o.params[s] = help_kernels_part(&k, p, s, PARAMS_value);
	free(tokens);
	free(targets);
	exec_free(x);
	params_free(p);
	help_kernels_close(&k);
	return o;
}

static void a_gpt_written_down_is_the_same(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(2, true);
	struct graph *gpt = help_graph_build(&m, 2, 9);
	json_t *doc = help_usergraph_of(gpt);
	char *text = json_canonical(doc);
	snprintf(m.builder, sizeof m.builder, "graph");
	m.user = text;
	struct graph *user = help_graph_build(&m, 2, 9);
	for (size_t i = 0; backend_at(i); i++) {
		struct outcome a = train(gpt, backend_at(i)->name);
		struct outcome b = train(user, backend_at(i)->name);
		assert_memory_equal(a.losses, b.losses, sizeof a.losses);
		assert_memory_equal(a.norms, b.norms, sizeof a.norms);
		for (uint32_t s = 0; s < 2; s++) {
			assert_memory_equal(a.params[s], b.params[s],
				gpt->shard_params[s] * sizeof *a.params[s]);
			free(a.params[s]);
			free(b.params[s]);
		}
	}
	graph_free(gpt);
	graph_free(user);
	json_decref(doc);
	free(text);
}

/* One batch again and again: a network that is joined wrongly does not fit it. */
static void the_example_learns(void **state)
{
	(void)state;
	static const char *const sets[] = {"train.seq=16"};
	struct spec *s = NULL;
	struct graph *g = NULL;
	struct why why = {0};
	if (spec_load("configs/graph-tiny.json", sets, 1, &s, NULL, &why) ||
		graph_build(&s->model, 2, 16, &g, &why))
		fail_msg("%s", why.text);
	struct outcome o = train(g, "cpu");
	assert_true(o.losses[0] > 5.4 && o.losses[0] < 5.7); /* log 256 is 5.55 */
	assert_true(o.losses[STEPS - 1] < o.losses[0] - 1);
	free(o.params[0]);
	free(o.params[1]);
	graph_free(g);
	spec_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpt_written_down_is_the_same),
		cmocka_unit_test(the_example_learns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
