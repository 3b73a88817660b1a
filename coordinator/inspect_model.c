#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/memplan.h"
#include "model/segment.h"
#include "model/spec.h"

#define REAL_BYTES 4                 /* all training is in float32 */
#define STATE_BYTES (4 * REAL_BYTES) /* parameter, gradient, two moments */

struct totals {
	uint64_t ops, params, forward, backward, values;
};

static void add(struct totals *t, const struct totals *more)
{
	t->ops += more->ops;
	t->params += more->params;
	t->forward += more->forward;
	t->backward += more->backward;
	t->values += more->values;
}

/* Parameters that the node is the first one to use: a tied one counts once. */
static uint64_t new_params(const struct graph *g, const struct node *n, bool *seen)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < n->n_in; i++) {
		const struct tensor *t = &g->tensors[n->in[i]];
		if (t->role == TENSOR_param && !seen[n->in[i]])
			count += shape_count(&t->shape);
		seen[n->in[i]] = true;
	}
	return count;
}

/* What a node is called: by its first parameter, or its output. */
static const char *name_of(const struct graph *g, const struct node *n)
{
	for (uint32_t i = 0; i < n->n_in; i++)
		if (g->tensors[n->in[i]].role == TENSOR_param)
			return g->tensors[n->in[i]].name;
	return g->tensors[n->out].name;
}

static struct totals show_node(const struct graph *g, const struct node *n, bool *seen)
{
	const struct op_def *op = op_def(n->op);
	const struct tensor *y = &g->tensors[n->out];
	struct op_cost cost = {0};
	op->cost(g, n, &cost);
	uint64_t saved = op->saved ? op->saved(g, n) : 0;
	struct totals t = {1, new_params(g, n, seen), cost.flops_forward, cost.flops_backward,
		REAL_BYTES * (shape_count(&y->shape) + saved)};
	char shape[SHAPE_TEXT], a[HUMAN_TEXT], b[HUMAN_TEXT], c[HUMAN_TEXT], d[HUMAN_TEXT];
	shape_text(&y->shape, shape);
	printf("%5u  %-13s  %-28s  %-16s  %12s  %10s  %10s  %10s\n", n->shard, op->name,
		name_of(g, n), shape, t.params ? human_count(t.params, a) : "",
		human_size(t.forward, "", b), human_size(t.backward, "", c),
		human_size(t.values, "B", d));
	return t;
}

static void show_shard(const char *name, const struct totals *t)
{
	char a[HUMAN_TEXT], b[HUMAN_TEXT], c[HUMAN_TEXT], d[HUMAN_TEXT], e[HUMAN_TEXT];
	printf("%5s  %6llu  %14s  %10s  %10s  %10s  %10s\n", name, (unsigned long long)t->ops,
		human_count(t->params, a), human_size(REAL_BYTES * t->params, "B", b),
		human_size(t->forward, "", c), human_size(t->backward, "", d),
		human_size(t->values, "B", e));
}

/* What one peer with every shard needs, by the plan that the executor works with. */
static enum err show_memory(const struct graph *g, const struct totals *all, struct why *why)
{
	struct segments cut = {0};
	struct memplan plan = {0};
	enum err err = segment_cut(g, NULL, 0, &cut, why);
	if (!err)
		err = memplan_make(&cut, MEMPLAN_train, &plan, why);
	char a[HUMAN_TEXT], b[HUMAN_TEXT], c[HUMAN_TEXT];
	if (!err)
		printf("Memory to train on one device: %s for parameters, gradients and moments, "
		       "%s for "
		       "the values of a micro-batch (%s without reuse).\n",
			human_size(STATE_BYTES * all->params, "B", a),
			human_size(REAL_BYTES * plan.total, "B", b),
			human_size(REAL_BYTES * plan.sum, "B", c));
	memplan_release(&plan);
	segment_release(&cut);
	return err;
}

static enum err show_graph(const struct graph *g, struct why *why)
{
	struct totals *shards = alloc_must_zero(g->n_shards, sizeof *shards), all = {0};
	bool *seen = alloc_must_zero(g->n_tensors, sizeof *seen);
	printf("%5s  %-13s  %-28s  %-16s  %12s  %10s  %10s  %10s\n", "shard", "op",
		"parameter or output", "shape", "parameters", "forward", "backward", "values");
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct totals t = show_node(g, &g->nodes[i], seen);
		add(&shards[g->nodes[i].shard], &t);
	}
	printf("\n%5s  %6s  %14s  %10s  %10s  %10s  %10s\n", "shard", "ops", "parameters", "bytes",
		"forward", "backward", "values");
	for (uint32_t i = 0; i < g->n_shards; i++) {
		char name[16];
		snprintf(name, sizeof name, "%u", i);
		shards[i].params = g->shard_params[i];
		show_shard(name, &shards[i]);
		add(&all, &shards[i]);
	}
	show_shard("all", &all);
	char a[HUMAN_TEXT];
	uint64_t tokens = (uint64_t)g->batch * g->seq;
	printf("\nForward and backward are FLOPs of a micro-batch of %u x %u tokens: %s a token.\n",
		g->batch, g->seq, human_size((all.forward + all.backward) / tokens, "FLOP", a));
	free(seen);
	free(shards);
	return show_memory(g, &all, why);
}

enum err inspect_model(const struct inspect *i, struct why *why)
{
	struct spec *s = NULL;
	struct graph *g = NULL;
	enum err err = spec_load(i->path, i->sets, i->n_sets, &s, NULL, why);
	if (!err)
		err = graph_build(&s->model, s->train.micro_batch, s->train.seq, &g, why);
	if (!err)
		err = show_graph(g, why);
	graph_free(g);
	spec_free(s);
	return err;
}
