#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/memplan.h"
#include "model/segment.h"
#include "model/spec.h"

#define REAL_BYTES 4 /* float32, whatever the factors of products are rounded to */
#define NAME_HEAD "parameter or output"
#define TRAINED_BYTES (4 * REAL_BYTES) /* parameter, gradient, two moments */

struct totals {
	uint64_t ops, params, forward, backward;
	uint64_t values; /* bytes of outputs and of what is saved for backward */
	uint64_t moved;  /* bytes that forward and backward read and write */
};

static void add(struct totals *t, const struct totals *more)
{
	t->ops += more->ops;
	t->params += more->params;
	t->forward += more->forward;
	t->backward += more->backward;
	t->values += more->values;
	t->moved += more->moved;
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

static int name_width(const struct graph *g)
{
	int width = (int)strlen(NAME_HEAD);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int n = (int)strlen(name_of(g, &g->nodes[i]));
		width = n > width ? n : width;
	}
	return width;
}

static struct totals show_node(const struct graph *g, const struct node *n, bool *seen, int width)
{
	const struct op_def *op = op_def(n->op);
	const struct tensor *y = &g->tensors[n->out];
	struct op_cost cost = {0};
	op->cost(g, n, &cost);
	uint64_t saved = op->saved ? op->saved(g, n) : 0;
	struct totals t = {.ops = 1,
		.params = new_params(g, n, seen),
		.forward = cost.flops_forward,
		.backward = cost.flops_backward,
		.values = REAL_BYTES * (shape_count(&y->shape) + saved),
		.moved = cost.bytes_forward + cost.bytes_backward};
	char shape[SHAPE_TEXT], a[HUMAN_TEXT], b[HUMAN_TEXT], c[HUMAN_TEXT], d[HUMAN_TEXT],
		e[HUMAN_TEXT];
	shape_text(&y->shape, shape);
	printf("%5u  %-14s  %-*s  %-18s  %13s  %9s  %9s  %9s  %9s\n", n->shard, op->name, width,
		name_of(g, n), shape, t.params ? human_count(t.params, a) : "",
		human_size(t.forward, "", b), human_size(t.backward, "", c),
		human_size(t.values, "B", d), human_size(t.moved, "B", e));
	return t;
}

static void show_shard(const char *name, const struct totals *t)
{
	char a[HUMAN_TEXT], b[HUMAN_TEXT], c[HUMAN_TEXT], d[HUMAN_TEXT], e[HUMAN_TEXT],
		f[HUMAN_TEXT];
	double intensity = t->moved ? (double)(t->forward + t->backward) / (double)t->moved : 0;
	printf("%5s  %6llu  %15s  %9s  %9s  %9s  %9s  %9s  %7.1f\n", name,
		(unsigned long long)t->ops, human_count(t->params, a),
		human_size(REAL_BYTES * t->params, "B", b), human_size(t->forward, "", c),
		human_size(t->backward, "", d), human_size(t->values, "B", e),
		human_size(t->moved, "B", f), intensity);
}

static uint64_t state_bytes(const struct graph *g)
{
	uint64_t trained = 0;
	for (uint32_t i = 0; i < g->n_shards; i++)
		trained += g->shard_trained[i];
	return TRAINED_BYTES * trained + REAL_BYTES * (graph_params(g) - trained);
}

/* What one peer with every shard needs, by the plan that the executor works with. */
static enum err show_memory(const struct graph *g, bool recompute, struct why *why)
{
	struct segments cut = {0};
	struct memplan plan = {0};
	enum err err = segment_cut(g, NULL, 0, &cut, why);
	if (!err)
		err = memplan_make(&cut, recompute ? MEMPLAN_recompute : MEMPLAN_train, &plan, why);
	char a[HUMAN_TEXT], b[HUMAN_TEXT], c[HUMAN_TEXT];
	if (!err)
		printf("Memory to train on one device: %s for parameters, gradients and moments, "
		       "%s for "
		       "the values of a micro-batch (%s without reuse).\n",
			human_size(state_bytes(g), "B", a),
			human_size(REAL_BYTES * plan.total, "B", b),
			human_size(REAL_BYTES * plan.sum, "B", c));
	memplan_release(&plan);
	segment_release(&cut);
	return err;
}

static void show_nodes(const struct graph *g, struct totals *shards)
{
	bool *seen = alloc_must_zero(g->n_tensors, sizeof *seen);
	int width = name_width(g);
	printf("%5s  %-14s  %-*s  %-18s  %13s  %9s  %9s  %9s  %9s\n", "shard", "op", width,
		NAME_HEAD, "shape", "parameters", "forward", "backward", "values", "moved");
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct totals t = show_node(g, &g->nodes[i], seen, width);
		add(&shards[g->nodes[i].shard], &t);
	}
	free(seen);
}

static void show_meaning(const struct graph *g, const struct totals *all)
{
	char a[HUMAN_TEXT];
	uint64_t each = (uint64_t)g->batch * g->seq;
	bool images = g->images_in != GRAPH_NONE;
	printf("\nForward and backward are FLOPs of a micro-batch of %u ", g->batch);
	if (images)
		printf("images");
	else
		printf("x %u tokens", g->seq);
	printf(": %s %s.\n", human_size((all->forward + all->backward) / each, "FLOP", a),
		images ? "an image" : "a token");
	puts("Values are outputs and statistics, moved is what both passes read and write at "
	     "least, "
	     "FLOP/B is arithmetic for each byte moved.");
}

static enum err show_graph(const struct graph *g, bool recompute, struct why *why)
{
	struct totals *shards = alloc_must_zero(g->n_shards, sizeof *shards), all = {0};
	show_nodes(g, shards);
	printf("\n%5s  %6s  %15s  %9s  %9s  %9s  %9s  %9s  %7s\n", "shard", "ops", "parameters",
		"bytes", "forward", "backward", "values", "moved", "FLOP/B");
	for (uint32_t i = 0; i < g->n_shards; i++) {
		char name[16];
		snprintf(name, sizeof name, "%u", i);
		shards[i].params = g->shard_params[i];
		show_shard(name, &shards[i]);
		add(&all, &shards[i]);
	}
	show_shard("all", &all);
	free(shards);
	show_meaning(g, &all);
	return show_memory(g, recompute, why);
}

enum err inspect_model(const struct inspect *i, struct why *why)
{
	struct spec *s = NULL;
	struct graph *g = NULL;
	enum err err = spec_load(i->path, i->sets, i->n_sets, &s, NULL, why);
	if (!err)
		err = graph_build(&s->model, s->train.micro_batch, s->train.seq, &g, why);
	if (!err)
		err = show_graph(g, s->train.recompute, why);
	graph_free(g);
	spec_free(s);
	return err;
}
