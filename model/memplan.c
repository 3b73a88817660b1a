#include "model/memplan.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

#define NEVER UINT32_MAX

/* ---- placing */

static int by_size(const void *a, const void *b)
{
	const struct memplan_piece *const *x = a, *const *y = b;
	if ((*x)->size != (*y)->size)
		return (*x)->size > (*y)->size ? -1 : 1;
	return *x < *y ? -1 : 1; /* the same plan everywhere, whatever qsort does */
}

static bool meet(const struct memplan_piece *a, const struct memplan_piece *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/* Insert p into placed, which is kept sorted by offset, at the first gap that is free for p's life.
 * The end of every earlier neighbour in time is where the next gap may start. */
static void place(struct memplan_piece **placed, uint32_t n, struct memplan_piece *p)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct memplan_piece *q = placed[i];
		if (!meet(p, q))
			continue;
		if (q->offset >= at + p->size)
			break;
		if (q->offset + q->size > at)
			at = q->offset + q->size;
	}
	p->offset = at;
	uint32_t i = n;
	for (; i > 0 && placed[i - 1]->offset > at; i--)
		placed[i] = placed[i - 1];
	placed[i] = p;
}

enum err memplan_place(struct memplan_piece *pieces, uint32_t n, uint64_t *total)
{
	*total = 0;
	struct memplan_piece **order = alloc_try(2 * (size_t)n + 1, sizeof *order);
	if (!order)
		return ERR_nomem;
	struct memplan_piece **placed = order + n;
	for (uint32_t i = 0; i < n; i++)
		order[i] = &pieces[i];
	qsort(order, n, sizeof *order, by_size);
	for (uint32_t i = 0; i < n; i++) {
		place(placed, i, order[i]);
		if (order[i]->offset + order[i]->size > *total)
			*total = order[i]->offset + order[i]->size;
	}
	free(order);
	return ERR_OK;
}

/* ---- lives */

/* Lives of values, gradients and saved statistics, in one array: tensor t's value at t, its
 * gradient at n_tensors + t, node n's statistics at 2 n_tensors + n. */
struct lives {
	const struct segments *s;
	const struct graph *g;
	const struct memplan *p;
	struct memplan_piece *at;
	uint32_t now; /* the step that is being walked */
	bool train;
};

static void touch(struct lives *l, uint32_t piece)
{
	struct memplan_piece *p = &l->at[piece];
	if (p->first == NEVER)
		p->first = l->now;
	p->last = l->now;
}

static bool is_value(const struct lives *l, uint32_t tensor)
{
	return l->g->tensors[tensor].role == TENSOR_value;
}

static void touch_value(struct lives *l, uint32_t tensor)
{
	if (is_value(l, tensor))
		touch(l, tensor);
}

static void touch_grad(struct lives *l, uint32_t tensor)
{
	if (l->train && l->p->differs[tensor] && is_value(l, tensor))
		touch(l, l->g->n_tensors + tensor);
}

static void touch_saved(struct lives *l, uint32_t node)
{
	if (l->train && op_def(l->g->nodes[node].op)->saved)
		touch(l, 2 * l->g->n_tensors + node);
}

static void forward(struct lives *l, const struct segment *seg)
{
	for (uint32_t i = 0; i < seg->n_in; i++)
		touch_value(l, seg->in[i]);
	l->now++;
	for (uint32_t i = seg->first_node; i < seg->first_node + seg->n_nodes; i++, l->now++) {
		const struct node *n = &l->g->nodes[i];
		if (!l->p->runs[i])
			continue;
		touch_value(l, n->out);
		touch_saved(l, i);
		for (uint32_t j = 0; j < n->n_in; j++)
			touch_value(l, n->in[j]);
	}
	for (uint32_t i = 0; i < seg->n_out; i++)
		touch_value(l, seg->out[i]);
	l->now++;
}

static void backward_node(struct lives *l, uint32_t node)
{
	const struct node *n = &l->g->nodes[node];
	const struct op_def *def = op_def(n->op);
	if (!l->p->runs[node] || !l->p->differs[n->out])
		return;
	touch_grad(l, n->out);
	touch_saved(l, node);
	if (def->backward_out)
		touch_value(l, n->out);
	for (uint32_t j = 0; j < n->n_in; j++) {
		if (def->backward_in >> j & 1)
			touch_value(l, n->in[j]);
		if (def->gradient_in >> j & 1)
			touch_grad(l, n->in[j]);
	}
}

static void backward(struct lives *l, const struct segment *seg)
{
	for (uint32_t i = 0; i < seg->n_in; i++)
		touch_grad(l, seg->in[i]);
	for (uint32_t i = 0; i < seg->n_out; i++)
		touch_grad(l, seg->out[i]);
	l->now++;
	for (uint32_t i = seg->first_node + seg->n_nodes; i-- > seg->first_node; l->now++)
		backward_node(l, i);
	for (uint32_t i = 0; i < seg->n_in; i++)
		touch_grad(l, seg->in[i]);
	l->now++;
}

static bool held(const struct segments *s, uint32_t tensor)
{
	uint32_t made = s->graph->tensors[tensor].producer;
	for (uint32_t i = 0; i < s->n; i++)
		if (made - s->at[i].first_node < s->at[i].n_nodes)
			return true;
	return false;
}

static void walk(struct lives *l, enum memplan_goal goal)
{
	const struct segments *s = l->s;
	for (uint32_t i = 0; i < s->n; i++)
		forward(l, &s->at[i]);
	for (uint32_t i = s->n; i-- > 0 && l->train;)
		backward(l, &s->at[i]);
	if (goal != MEMPLAN_logits && held(s, l->g->loss))
		touch_value(l, l->g->loss);
	if (goal != MEMPLAN_train && l->g->logits != GRAPH_NONE && held(s, l->g->logits))
		touch_value(l, l->g->logits);
}

/* ---- the plan */

/* Which nodes the goal's tensor depends on. */
static void find_runs(const struct graph *g, uint32_t goal, bool *runs)
{
	runs[g->tensors[goal].producer] = true;
	for (uint32_t i = g->n_nodes; i-- > 0;)
		for (uint32_t j = 0; j < g->nodes[i].n_in && runs[i]; j++) {
			uint32_t made = g->tensors[g->nodes[i].in[j]].producer;
			if (made != GRAPH_NONE)
				runs[made] = true;
		}
}

static void find_differs(const struct graph *g, bool *differs)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		differs[i] = g->tensors[i].role == TENSOR_param && !g->tensors[i].buffer;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct node *n = &g->nodes[i];
		for (uint32_t j = 0; j < n->n_in; j++)
			if (op_def(n->op)->gradient_in >> j & 1 && differs[n->in[j]])
				differs[n->out] = true;
	}
}

static uint64_t piece_size(const struct graph *g, uint32_t piece)
{
	uint64_t n;
	if (piece < 2 * g->n_tensors) {
		n = shape_count(&g->tensors[piece % g->n_tensors].shape);
	} else {
		const struct node *node = &g->nodes[piece - 2 * g->n_tensors];
		n = op_def(node->op)->saved(g, node);
	}
	return (n + MEMPLAN_ALIGN - 1) / MEMPLAN_ALIGN * MEMPLAN_ALIGN;
}

/* Place the pieces that live at all, and note the offsets. */
static enum err place_lives(struct lives *l, uint32_t n, struct memplan *out)
{
	uint32_t *name = alloc_try(n, sizeof *name);
	if (!name)
		return ERR_nomem;
	uint32_t used = 0;
	for (uint32_t i = 0; i < n; i++)
		if (l->at[i].first != NEVER) {
			name[used] = i;
			l->at[used] = l->at[i];
			l->at[used].size = piece_size(l->g, i);
			out->sum += l->at[used++].size;
		}
	enum err e = memplan_place(l->at, used, &out->total);
	uint32_t t = l->g->n_tensors;
	for (uint32_t i = 0; i < used && !e; i++) {
		uint64_t *to = name[i] < t       ? &out->value[name[i]]
			       : name[i] < 2 * t ? &out->grad[name[i] - t]
						 : &out->saved[name[i] - 2 * t];
		*to = l->at[i].offset;
	}
	free(name);
	return e;
}

static enum err make(const struct segments *s, enum memplan_goal goal, struct memplan *out)
{
	const struct graph *g = s->graph;
	uint32_t n = 2 * g->n_tensors + g->n_nodes;
	out->value = alloc_try(g->n_tensors, sizeof *out->value);
	out->grad = alloc_try(g->n_tensors, sizeof *out->grad);
	out->saved = alloc_try(g->n_nodes, sizeof *out->saved);
	out->runs = alloc_try(g->n_nodes, sizeof *out->runs);
	out->differs = alloc_try(g->n_tensors, sizeof *out->differs);
	if (!out->value || !out->grad || !out->saved || !out->runs || !out->differs)
		return ERR_nomem;
	memset(out->value, 0xff, g->n_tensors * sizeof *out->value);
	memset(out->grad, 0xff, g->n_tensors * sizeof *out->grad);
	memset(out->saved, 0xff, g->n_nodes * sizeof *out->saved);
	find_runs(g, goal == MEMPLAN_logits ? g->logits : g->loss, out->runs);
	if (goal == MEMPLAN_loss && g->logits != GRAPH_NONE)
		find_runs(g, g->logits, out->runs);
	find_differs(g, out->differs);
	struct lives l = {.s = s, .g = g, .p = out, .train = goal == MEMPLAN_train};
	l.at = alloc_try(n, sizeof *l.at);
	if (!l.at)
		return ERR_nomem;
	for (uint32_t i = 0; i < n; i++)
		l.at[i].first = NEVER;
	walk(&l, goal);
	enum err e = place_lives(&l, n, out);
	free(l.at);
	return e;
}

enum err memplan_make(
	const struct segments *s, enum memplan_goal goal, struct memplan *out, struct why *why)
{
	*out = (struct memplan){0};
	const struct graph *g = s->graph;
	if ((goal == MEMPLAN_logits ? g->logits : g->loss) == GRAPH_NONE)
		return err_why(why, ERR_state, "this model's graph has no %s",
			goal == MEMPLAN_logits ? "logits" : "loss");
	enum err e = make(s, goal, out);
	if (e) {
		memplan_release(out);
		return err_why(why, e, "out of memory for the plan of %u nodes", g->n_nodes);
	}
	return ERR_OK;
}

void memplan_release(struct memplan *p)
{
	if (!p)
		return;
	free(p->value);
	free(p->grad);
	free(p->saved);
	free(p->runs);
	free(p->differs);
	*p = (struct memplan){0};
}
