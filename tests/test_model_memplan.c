/* The memory plan, against a walk that knows nothing of lives: it stamps what is written into a
 * model of the arena and finds the stamp again wherever something is read. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/memplan.h"
#include "tests/help_graph.h"

/* ---- placing */

static void pieces_in_use_together_do_not_overlap(void **state)
{
	(void)state;
	enum { N = 60, STEPS = 40 };
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct memplan_piece p[N];
		uint64_t total, sum = 0, at_step[STEPS] = {0};
		for (uint32_t i = 0; i < N; i++) {
			p[i].size = rng_below(seed, 1, i, 50);
			p[i].first = (uint32_t)rng_below(seed, 2, i, STEPS);
			p[i].last =
				p[i].first + (uint32_t)rng_below(seed, 3, i, STEPS - p[i].first);
			sum += p[i].size;
			for (uint32_t s = p[i].first; s <= p[i].last; s++)
				at_step[s] += p[i].size;
		}
		assert_int_equal(memplan_place(p, N, &total), ERR_OK);
		for (uint32_t i = 0; i < N; i++)
			for (uint32_t j = 0; j < i; j++) {
				bool together = p[i].first <= p[j].last && p[j].first <= p[i].last;
				bool apart = p[i].offset >= p[j].offset + p[j].size ||
					     p[j].offset >= p[i].offset + p[i].size;
				assert_true(!together || apart || !p[i].size || !p[j].size);
			}
		assert_true(total <= sum);
		for (uint32_t s = 0; s < STEPS; s++)
			assert_true(total >= at_step[s]);
	}
}

static void nothing_to_place_needs_nothing(void **state)
{
	(void)state;
	uint64_t total = 1;
	assert_int_equal(memplan_place(NULL, 0, &total), ERR_OK);
	assert_int_equal(total, 0);
}

/* ---- a model of the arena */

struct arena_model {
	const struct graph *g;
	const struct segments *s;
	const struct memplan *p;
	uint32_t *stamp;
	bool *begun; /* by tensor: its gradient holds something */
	bool train;
	uint32_t rerun, shared; /* nodes and pieces */
};

static void planned(uint64_t at)
{
	if (at == MEMPLAN_NONE)
		fail_msg("something is used that the plan has no place for");
}

static void write_piece(struct arena_model *a, uint64_t at, uint64_t n, uint32_t name)
{
	planned(at);
	assert_true(at % MEMPLAN_ALIGN == 0 && at + n <= a->p->total);
	for (uint64_t i = 0; i < n; i++)
		a->stamp[at + i] = name;
}

static void read_piece(const struct arena_model *a, uint64_t at, uint64_t n, uint32_t name)
{
	planned(at);
	for (uint64_t i = 0; i < n; i++)
		if (a->stamp[at + i] != name)
			fail_msg("piece %u was overwritten by %u", name, a->stamp[at + i]);
}

static uint64_t count(const struct arena_model *a, uint32_t tensor)
{
	return shape_count(&a->g->tensors[tensor].shape);
}

static void value(struct arena_model *a, uint32_t tensor, bool write)
{
	if (a->g->tensors[tensor].role != TENSOR_value)
		return;
	if (write)
		write_piece(a, a->p->value[tensor], count(a, tensor), 1 + tensor);
	else
		read_piece(a, a->p->value[tensor], count(a, tensor), 1 + tensor);
}

static uint64_t late_at(const struct arena_model *a, uint32_t tensor)
{
	bool again = a->p->reruns[a->g->tensors[tensor].producer];
	return again ? a->p->again[tensor] : a->p->value[tensor];
}

/* As backward finds it, or what runs again makes it. */
static void late_value(struct arena_model *a, uint32_t tensor, bool write)
{
	if (a->g->tensors[tensor].role != TENSOR_value)
		return;
	if (write)
		write_piece(a, late_at(a, tensor), count(a, tensor), 1 + tensor);
	else
		read_piece(a, late_at(a, tensor), count(a, tensor), 1 + tensor);
}

/* Its gradient lies where it does: the kernel reads it before it writes that. */
static bool shares(const struct arena_model *a, const struct node *n, uint32_t input)
{
	uint32_t tensor = n->in[input];
	bool may = op_def(n->op)->over_in >> input & 1 &&
		   a->g->tensors[tensor].role == TENSOR_value && a->p->differs[tensor];
	return may && !a->begun[tensor] && a->p->grad[tensor] == late_at(a, tensor);
}

static void read_grad(struct arena_model *a, uint32_t tensor)
{
	read_piece(a, a->p->grad[tensor], count(a, tensor), 1 + a->g->n_tensors + tensor);
}

/* What is there already is added to, so it must still be there. */
static void add_grad(struct arena_model *a, uint32_t tensor)
{
	if (a->g->tensors[tensor].role != TENSOR_value || !a->p->differs[tensor])
		return;
	if (a->begun[tensor])
		read_grad(a, tensor);
	write_piece(a, a->p->grad[tensor], count(a, tensor), 1 + a->g->n_tensors + tensor);
	a->begun[tensor] = true;
}

static void saved(struct arena_model *a, uint32_t node, bool write)
{
	const struct op_def *def = op_def(a->g->nodes[node].op);
	uint64_t n = def->saved && a->train ? def->saved(a->g, &a->g->nodes[node]) : 0;
	if (n && write)
		write_piece(a, a->p->saved[node], n, 1 + 2 * a->g->n_tensors + node);
	else if (n)
		read_piece(a, a->p->saved[node], n, 1 + 2 * a->g->n_tensors + node);
}

static void walk_forward(struct arena_model *a, const struct segment *seg)
{
	for (uint32_t i = 0; i < seg->n_in; i++)
		value(a, seg->in[i], true);
	for (uint32_t i = seg->first_node; i < seg->first_node + seg->n_nodes; i++) {
		const struct node *n = &a->g->nodes[i];
		if (!a->p->runs[i])
			continue;
		value(a, n->out, true);
		if (!a->p->reruns[i])
			saved(a, i, true);
		for (uint32_t j = 0; j < n->n_in; j++)
			value(a, n->in[j], false);
		value(a, n->out, false);
	}
	for (uint32_t i = 0; i < seg->n_out; i++)
		value(a, seg->out[i], false);
}

static void walk_again(struct arena_model *a, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++) {
		const struct node *n = &a->g->nodes[i];
		if (!a->p->reruns[i])
			continue;
		late_value(a, n->out, true);
		saved(a, i, true);
		for (uint32_t j = 0; j < n->n_in; j++)
			late_value(a, n->in[j], false);
		late_value(a, n->out, false);
		a->rerun++;
	}
}

static void walk_backward_node(struct arena_model *a, uint32_t node)
{
	const struct node *n = &a->g->nodes[node];
	const struct op_def *def = op_def(n->op);
	uint32_t shared = 0;
	if (n->out == a->g->loss)
		add_grad(a, n->out);
	for (uint32_t j = 0; j < n->n_in; j++)
		if (shares(a, n, j)) {
			late_value(a, n->in[j], false);
			shared |= 1u << j;
			a->shared++;
		}
	for (uint32_t j = 0; j < n->n_in; j++)
		if (def->gradient_in >> j & 1)
			add_grad(a, n->in[j]);
	assert_true(a->begun[n->out]);
	read_grad(a, n->out);
	saved(a, node, false);
	if (def->backward_out)
		late_value(a, n->out, false);
	for (uint32_t j = 0; j < n->n_in; j++)
		if (def->backward_in >> j & 1 && !(shared >> j & 1))
			late_value(a, n->in[j], false);
}

static void walk_backward(struct arena_model *a, const struct segment *seg)
{
	for (uint32_t i = 0; i < seg->n_in; i++)
		add_grad(a, seg->in[i]);
	for (uint32_t i = 0; i < seg->n_out; i++)
		add_grad(a, seg->out[i]);
	for (uint32_t end = seg->first_node + seg->n_nodes; end > seg->first_node;) {
		uint32_t first = memplan_group(a->g, seg, end - 1);
		walk_again(a, first, end);
		while (end > first)
			walk_backward_node(a, --end);
	}
	for (uint32_t i = 0; i < seg->n_in; i++)
		read_grad(a, seg->in[i]);
}

static bool holds(const struct segments *s, uint32_t tensor)
{
	uint32_t made = s->graph->tensors[tensor].producer;
	for (uint32_t i = 0; i < s->n; i++)
		if (made >= s->at[i].first_node && made < s->at[i].first_node + s->at[i].n_nodes)
			return true;
	return false;
}

static struct memplan plan(const struct segments *s, enum memplan_goal goal)
{
	struct memplan p;
	struct why why = {0};
	if (memplan_make(s, goal, &p, &why))
		fail_msg("%s", why.text);
	assert_true(p.total <= p.sum);
	return p;
}

/* How many nodes ran again, and how many gradients shared a place, in all walks of a goal. */
static uint32_t reruns[MEMPLAN_logits + 1], places_shared[MEMPLAN_logits + 1];

static void walk(const struct segments *s, enum memplan_goal goal)
{
	struct memplan p = plan(s, goal);
	struct arena_model a = {.g = s->graph, .s = s, .p = &p, .train = goal <= MEMPLAN_recompute};
	a.stamp = alloc_must_zero(p.total + 1, sizeof *a.stamp);
	a.begun = alloc_must_zero(a.g->n_tensors, sizeof *a.begun);
	for (uint32_t i = 0; i < s->n; i++)
		walk_forward(&a, &s->at[i]);
	for (uint32_t i = s->n; i-- > 0 && a.train;)
		walk_backward(&a, &s->at[i]);
	if (goal != MEMPLAN_logits && holds(s, a.g->loss))
		value(&a, a.g->loss, false);
	if (!a.train && holds(s, a.g->logits))
		value(&a, a.g->logits, false);
	reruns[goal] += a.rerun;
	places_shared[goal] += a.shared;
	free(a.stamp);
	free(a.begun);
	memplan_release(&p);
}

/* Any of the graph's shards are held, or none. */
static void walk_some_shards(const struct graph *g, uint64_t seed)
{
	uint32_t held[8], n = 0;
	for (uint32_t i = 0; i < g->n_shards; i++)
		if (rng_below(seed, 9, i, 3))
			held[n++] = i;
	struct segments s;
	struct why why = {0};
	if (!n)
		return;
	if (segment_cut(g, held, n, &s, &why))
		fail_msg("%s", why.text);
	for (int goal = MEMPLAN_train; goal <= MEMPLAN_logits; goal++)
		walk(&s, (enum memplan_goal)goal);
	segment_release(&s);
}

static void what_is_read_was_not_overwritten(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct graph *g = help_graph_random(seed, 1 + (uint32_t)(seed % 6));
		walk_some_shards(g, seed);
		graph_free(g);
	}
	struct model_config m = help_graph_config(6, false);
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct graph *g = help_graph_build(&m, 1 + (uint32_t)(seed % 3), 7);
		walk_some_shards(g, seed);
		graph_free(g);
	}
	struct graph *images = help_graph_images(2);
	for (uint64_t seed = 0; seed < 6; seed++)
		walk_some_shards(images, seed);
	graph_free(images);
	assert_int_equal(reruns[MEMPLAN_train] + reruns[MEMPLAN_loss] + reruns[MEMPLAN_logits], 0);
	assert_true(reruns[MEMPLAN_recompute] > 500);
	assert_true(places_shared[MEMPLAN_train] > 100 && places_shared[MEMPLAN_recompute] > 100);
}

/* ---- what it saves */

static void reuse_saves_memory(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(12, true);
	struct graph *g = help_graph_build(&m, 4, 16);
	struct segments s;
	assert_int_equal(segment_cut(g, NULL, 0, &s, NULL), ERR_OK);
	struct memplan train = plan(&s, MEMPLAN_train), loss = plan(&s, MEMPLAN_loss),
		       logits = plan(&s, MEMPLAN_logits);
	assert_true(train.total < train.sum * 6 / 10);
	assert_true(loss.total < loss.sum / 8);
	assert_true(logits.total <= loss.total);
	assert_true(loss.runs[g->n_nodes - 1] && !logits.runs[g->n_nodes - 1]);
	memplan_release(&train);
	memplan_release(&loss);
	memplan_release(&logits);
	memplan_release(&logits);
	segment_release(&s);
	graph_free(g);
}

/* Of twelve layers only what they hand on stays: less than a third of what is kept otherwise.  The
 * logits' gradient lies where the logits do. */
static void recomputing_saves_memory(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(12, true);
	struct graph *g = help_graph_build(&m, 4, 16);
	struct segments s;
	assert_int_equal(segment_cut(g, NULL, 0, &s, NULL), ERR_OK);
	struct memplan train = plan(&s, MEMPLAN_train), again = plan(&s, MEMPLAN_recompute);
	assert_true(again.total < train.total / 3);
	assert_true(train.grad[g->logits] == train.value[g->logits]);
	assert_true(again.grad[g->logits] == again.value[g->logits]);
	memplan_release(&train);
	memplan_release(&again);
	segment_release(&s);
	graph_free(g);
}

static void missing_goals_are_refused(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(1, true);
	struct graph *g = help_graph_build(&m, 1, 2);
	struct segments s;
	struct memplan p;
	struct why why = {0};
	assert_int_equal(segment_cut(g, NULL, 0, &s, NULL), ERR_OK);
	g->loss = GRAPH_NONE;
	assert_int_equal(memplan_make(&s, MEMPLAN_train, &p, &why), ERR_state);
	assert_string_equal(why.text, "this model's graph has no loss");
	g->logits = GRAPH_NONE;
	assert_int_equal(memplan_make(&s, MEMPLAN_logits, &p, &why), ERR_state);
	segment_release(&s);
	graph_free(g);
}

static void planning_survives_a_lack_of_memory(void **state)
{
	(void)state;
	struct model_config m = help_graph_config(4, true);
	struct graph *g = help_graph_build(&m, 1, 4);
	long n = 1;
	for (enum err e = ERR_nomem; e; n++) {
		struct segments s;
		struct memplan p = {0};
		struct why why = {0};
		alloc_fail_at(n);
		e = segment_cut(g, (const uint32_t[]){0, 2, 3}, 3, &s, &why);
		if (!e)
			e = memplan_make(&s, MEMPLAN_recompute, &p, &why);
		alloc_fail_at(0);
		assert_true(!e || (e == ERR_nomem && strstr(why.text, "out of memory")));
		memplan_release(&p);
		segment_release(&s);
	}
	assert_true(n > 10);
	graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_in_use_together_do_not_overlap),
		cmocka_unit_test(nothing_to_place_needs_nothing),
		cmocka_unit_test(what_is_read_was_not_overwritten),
		cmocka_unit_test(reuse_saves_memory),
		cmocka_unit_test(recomputing_saves_memory),
		cmocka_unit_test(missing_goals_are_refused),
		cmocka_unit_test(planning_survives_a_lack_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
