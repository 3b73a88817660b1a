#include "model/memplan.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

#define NEVER UINT32_MAX

/* ---- lives */

/* What lives in the arena, in one array: for every tensor its value, the value that was made again
 * and the gradient, then for every node its statistics. */
struct lives {
	const struct segments *s;
	const struct graph *g;
	const struct memplan *p;
	struct memplan_piece *at;
	uint32_t *over; /* by tensor: the step in which its gradient may take its value's place */
	uint32_t now;   /* the step that is being walked */
	bool train;
};

static uint32_t again_piece(const struct lives *l, uint32_t tensor)
{
	return l->g->n_tensors + tensor;
}

static uint32_t grad_piece(const struct lives *l, uint32_t tensor)
{
	return 2 * l->g->n_tensors + tensor;
}

static uint32_t saved_piece(const struct lives *l, uint32_t node)
{
	return 3 * l->g->n_tensors + node;
}

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

/* The piece of a value as backward finds it. */
static uint32_t late_piece(const struct lives *l, uint32_t tensor)
{
	return l->p->reruns[l->g->tensors[tensor].producer] ? again_piece(l, tensor) : tensor;
}

static void touch_late(struct lives *l, uint32_t tensor)
{
	if (is_value(l, tensor))
		touch(l, late_piece(l, tensor));
}

static void touch_grad(struct lives *l, uint32_t tensor)
{
	if (l->train && l->p->differs[tensor] && is_value(l, tensor))
		touch(l, grad_piece(l, tensor));
}

static void touch_saved(struct lives *l, uint32_t node)
{
	if (l->train && op_def(l->g->nodes[node].op)->saved)
		touch(l, saved_piece(l, node));
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
		if (!l->p->reruns[i])
			touch_saved(l, i);
		for (uint32_t j = 0; j < n->n_in; j++)
			touch_value(l, n->in[j]);
	}
	for (uint32_t i = 0; i < seg->n_out; i++)
		touch_value(l, seg->out[i]);
	l->now++;
}

static void rerun(struct lives *l, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++) {
		const struct node *n = &l->g->nodes[i];
		if (!l->p->reruns[i])
			continue;
		touch_late(l, n->out);
		touch_saved(l, i);
		for (uint32_t j = 0; j < n->n_in; j++)
			touch_late(l, n->in[j]);
		l->now++;
	}
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
		touch_late(l, n->out);
	for (uint32_t j = 0; j < n->n_in; j++) {
		if (def->backward_in >> j & 1)
			touch_late(l, n->in[j]);
		if (def->gradient_in >> j & 1)
			touch_grad(l, n->in[j]);
		if (def->over_in >> j & 1 && l->at[grad_piece(l, n->in[j])].first == l->now)
			l->over[n->in[j]] = l->now;
	}
}

static void backward(struct lives *l, const struct segment *seg)
{
	for (uint32_t i = 0; i < seg->n_in; i++)
		touch_grad(l, seg->in[i]);
	for (uint32_t i = 0; i < seg->n_out; i++)
		touch_grad(l, seg->out[i]);
	l->now++;
	for (uint32_t end = seg->first_node + seg->n_nodes; end > seg->first_node;) {
		uint32_t first = memplan_group(l->g, seg, end - 1);
		rerun(l, first, end);
		for (; end > first; l->now++)
			backward_node(l, --end);
	}
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
	if (!l->train && l->g->logits != GRAPH_NONE && held(s, l->g->logits))
		touch_value(l, l->g->logits);
}

/* ---- what runs */

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

/* ---- what runs again */

uint32_t memplan_group(const struct graph *g, const struct segment *seg, uint32_t node)
{
	uint32_t first = node;
	while (first > seg->first_node && g->nodes[first - 1].block == g->nodes[node].block)
		first--;
	return first;
}

struct rerun_marks {
	uint32_t *group; /* by node: the first of its group; NEVER: not held */
	bool *kept;      /* by tensor: somebody outside its group reads it */
	bool *needed;    /* by tensor: the backward of its group reads it */
};

static void mark_kept(const struct segments *s, struct rerun_marks *m)
{
	const struct graph *g = s->graph;
	memset(m->group, 0xff, g->n_nodes * sizeof *m->group);
	for (uint32_t i = 0; i < s->n; i++)
		for (uint32_t n = 0; n < s->at[i].n_nodes; n++)
			m->group[s->at[i].first_node + n] =
				memplan_group(g, &s->at[i], s->at[i].first_node + n);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t j = 0; j < g->nodes[i].n_in; j++) {
			uint32_t tensor = g->nodes[i].in[j], made = g->tensors[tensor].producer;
			if (made == GRAPH_NONE || m->group[made] != m->group[i])
				m->kept[tensor] = true;
		}
	if (g->logits != GRAPH_NONE)
		m->kept[g->logits] = true;
}

static void mark_group(const struct graph *g, const struct rerun_marks *m, uint32_t first,
	uint32_t end, struct memplan *out)
{
	for (uint32_t i = first; i < end; i++) {
		const struct node *n = &g->nodes[i];
		if (!out->runs[i] || !out->differs[n->out])
			continue;
		if (op_def(n->op)->backward_out)
			m->needed[n->out] = true;
		for (uint32_t j = 0; j < n->n_in; j++)
			if (op_def(n->op)->backward_in >> j & 1)
				m->needed[n->in[j]] = true;
	}
	for (uint32_t i = end; i-- > first;) {
		const struct node *n = &g->nodes[i];
		out->reruns[i] = m->needed[n->out] && !m->kept[n->out];
		for (uint32_t j = 0; j < n->n_in && out->reruns[i]; j++)
			m->needed[n->in[j]] = true;
	}
}

static enum err find_reruns(const struct segments *s, struct memplan *out)
{
	const struct graph *g = s->graph;
	struct rerun_marks m = {.group = alloc_try(g->n_nodes, sizeof *m.group),
		.kept = alloc_try(g->n_tensors, sizeof *m.kept),
		.needed = alloc_try(g->n_tensors, sizeof *m.needed)};
	enum err e = m.group && m.kept && m.needed ? ERR_OK : ERR_nomem;
	if (!e)
		mark_kept(s, &m);
	bool last = true; /* its backward follows its forward: nothing would be saved */
	for (uint32_t i = s->n; i-- > 0 && !e;)
		for (uint32_t end = s->at[i].first_node + s->at[i].n_nodes, first;
			end > s->at[i].first_node; end = first) {
			first = memplan_group(g, &s->at[i], end - 1);
			if (!last)
				mark_group(g, &m, first, end, out);
			last = false;
		}
	free(m.group);
	free(m.kept);
	free(m.needed);
	return e;
}

/* ---- placing what lives */

static uint64_t piece_size(const struct lives *l, uint32_t piece)
{
	const struct graph *g = l->g;
	uint64_t n;
	if (piece < saved_piece(l, 0)) {
		n = shape_count(&g->tensors[piece % g->n_tensors].shape);
	} else {
		const struct node *node = &g->nodes[piece - saved_piece(l, 0)];
		n = op_def(node->op)->saved(g, node);
	}
	return (n + MEMPLAN_ALIGN - 1) / MEMPLAN_ALIGN * MEMPLAN_ALIGN;
}

/* Where a piece's offset is noted. */
static uint64_t *offset_of(const struct lives *l, struct memplan *out, uint32_t piece)
{
	if (piece >= saved_piece(l, 0))
		return &out->saved[piece - saved_piece(l, 0)];
	if (piece >= grad_piece(l, 0))
		return &out->grad[piece - grad_piece(l, 0)];
	if (piece >= again_piece(l, 0))
		return &out->again[piece - again_piece(l, 0)];
	return &out->value[piece];
}

/* A gradient that begins in the step in which its value is read for the last time lives on in the
 * value's piece, where that step's op allows it. */
static void share_pieces(struct lives *l)
{
	for (uint32_t t = 0; t < l->g->n_tensors; t++) {
		struct memplan_piece *grad = &l->at[grad_piece(l, t)];
		struct memplan_piece *value = l->over[t] == NEVER ? NULL : &l->at[late_piece(l, t)];
		if (value && value->first != NEVER && value->last == l->over[t]) {
			value->last = grad->last;
			grad->first = NEVER;
		} else {
			l->over[t] = NEVER;
		}
	}
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
			l->at[used].size = piece_size(l, i);
			out->sum += l->at[used++].size;
		}
	enum err e = memplan_place(l->at, used, &out->total);
	for (uint32_t i = 0; i < used && !e; i++)
		*offset_of(l, out, name[i]) = l->at[i].offset;
	for (uint32_t t = 0; t < l->g->n_tensors && !e; t++)
		if (l->over[t] != NEVER)
			out->grad[t] = *offset_of(l, out, late_piece(l, t));
	free(name);
	return e;
}

static enum err walk_and_place(
	const struct segments *s, enum memplan_goal goal, struct memplan *out)
{
	const struct graph *g = s->graph;
	uint32_t n = 3 * g->n_tensors + g->n_nodes;
	struct lives l = {.s = s,
		.g = g,
		.p = out,
		.at = alloc_try(n, sizeof *l.at),
		.over = alloc_try(g->n_tensors, sizeof *l.over),
		.train = goal <= MEMPLAN_recompute};
	enum err e = l.at && l.over ? ERR_OK : ERR_nomem;
	for (uint32_t i = 0; i < n && !e; i++)
		l.at[i].first = NEVER;
	for (uint32_t t = 0; t < g->n_tensors && !e; t++)
		l.over[t] = NEVER;
	if (!e) {
		walk(&l, goal);
		share_pieces(&l);
		e = place_lives(&l, n, out);
	}
	free(l.at);
	free(l.over);
	return e;
}

/* ---- the plan */

static uint64_t *offsets(uint32_t n)
{
	uint64_t *at = alloc_try(n, sizeof *at);
	for (uint32_t i = 0; at && i < n; i++)
		at[i] = MEMPLAN_NONE;
	return at;
}

static enum err make(const struct segments *s, enum memplan_goal goal, struct memplan *out)
{
	const struct graph *g = s->graph;
	out->value = offsets(g->n_tensors);
	out->again = offsets(g->n_tensors);
	out->grad = offsets(g->n_tensors);
	out->saved = offsets(g->n_nodes);
	out->runs = alloc_try(g->n_nodes, sizeof *out->runs);
	out->reruns = alloc_try(g->n_nodes, sizeof *out->reruns);
	out->differs = alloc_try(g->n_tensors, sizeof *out->differs);
	if (!out->value || !out->again || !out->grad || !out->saved || !out->runs || !out->reruns ||
		!out->differs)
		return ERR_nomem;
	find_runs(g, goal == MEMPLAN_logits ? g->logits : g->loss, out->runs);
	if (goal == MEMPLAN_loss && g->logits != GRAPH_NONE)
		find_runs(g, g->logits, out->runs);
	find_differs(g, out->differs);
	enum err e = goal == MEMPLAN_recompute ? find_reruns(s, out) : ERR_OK;
	return e ? e : walk_and_place(s, goal, out);
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
	free(p->again);
	free(p->grad);
	free(p->saved);
	free(p->runs);
	free(p->reruns);
	free(p->differs);
	*p = (struct memplan){0};
}
