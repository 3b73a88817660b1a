#include "model/segment.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

/* Notes by tensor while cutting. */
struct marks {
	uint32_t *last_reader; /* node number + 1, 0: none */
	uint32_t *in_of;       /* segment number + 1 that reads it from outside, 0: none */
};

static enum err check_list(
	const struct graph *g, const uint32_t *shards, uint32_t n, struct why *why)
{
	if (!n)
		return err_why(why, ERR_range, "a set of shards must hold at least one");
	for (uint32_t i = 0; i < n; i++) {
		if (shards[i] >= g->n_shards)
			return err_why(why, ERR_range, "shard %u does not exist, the model has %u",
				shards[i], g->n_shards);
		if (i && shards[i] <= shards[i - 1])
			return err_why(why, ERR_range,
				"shard %u is listed after shard %u, must be ascending and each "
				"once",
				shards[i], shards[i - 1]);
	}
	return ERR_OK;
}

/* Runs of neighbouring shards become one segment each. */
static void group(struct segments *s, const uint32_t *shards, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct segment *last = s->n ? &s->at[s->n - 1] : NULL;
		if (last && shards[i] == last->first_shard + last->n_shards)
			last->n_shards++;
		else
			s->at[s->n++] = (struct segment){.first_shard = shards[i], .n_shards = 1};
	}
}

static bool held(const struct segments *s, uint32_t shard)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (shard - s->at[i].first_shard < s->at[i].n_shards)
			return true;
	return false;
}

static void find_nodes(struct segments *s)
{
	const struct graph *g = s->graph;
	for (uint32_t i = 0; i < s->n; i++) {
		struct segment *seg = &s->at[i];
		uint32_t n = 0;
		while (g->nodes[n].shard < seg->first_shard)
			n++;
		seg->first_node = n;
		while (n < g->n_nodes && g->nodes[n].shard - seg->first_shard < seg->n_shards)
			n++;
		seg->n_nodes = n - seg->first_node;
	}
}

static enum err mark(const struct segments *s, uint32_t number, struct marks *m, struct why *why)
{
	const struct graph *g = s->graph;
	const struct segment *seg = &s->at[number];
	for (uint32_t i = 0; i < seg->n_nodes; i++) {
		const struct node *n = &g->nodes[seg->first_node + i];
		for (uint32_t j = 0; j < n->n_in; j++) {
			const struct tensor *t = &g->tensors[n->in[j]];
			if (t->role == TENSOR_param && !held(s, t->shard))
				return err_why(why, ERR_refused,
					"shard %u needs %s of shard %u: both must be on one peer, "
					"or the "
					"model untied",
					n->shard, t->name, t->shard);
			if (t->role == TENSOR_value && t->producer < seg->first_node)
				m->in_of[n->in[j]] = number + 1;
		}
	}
	return ERR_OK;
}

static enum err list_borders(struct segments *s, uint32_t number, const struct marks *m)
{
	const struct graph *g = s->graph;
	struct segment *seg = &s->at[number];
	uint32_t end = seg->first_node + seg->n_nodes;
	for (int fill = 0; fill < 2; fill++) {
		if (fill) {
			seg->in = alloc_try(seg->n_in + 1, sizeof *seg->in);
			seg->out = alloc_try(seg->n_out + 1, sizeof *seg->out);
			if (!seg->in || !seg->out)
				return ERR_nomem;
			seg->n_in = seg->n_out = 0;
		}
		for (uint32_t t = 0; t < g->n_tensors; t++) {
			uint32_t made = g->tensors[t].producer;
			bool in = m->in_of[t] == number + 1;
			bool out = made != GRAPH_NONE && made >= seg->first_node && made < end &&
				   m->last_reader[t] > end;
			if (in && fill)
				seg->in[seg->n_in] = t;
			if (out && fill)
				seg->out[seg->n_out] = t;
			seg->n_in += in;
			seg->n_out += out;
		}
	}
	return ERR_OK;
}

static enum err find_borders(struct segments *s, struct marks *m, struct why *why)
{
	const struct graph *g = s->graph;
	m->last_reader = alloc_try(g->n_tensors, sizeof *m->last_reader);
	m->in_of = alloc_try(g->n_tensors, sizeof *m->in_of);
	enum err e = m->last_reader && m->in_of ? ERR_OK : ERR_nomem;
	for (uint32_t i = 0; i < g->n_nodes && !e; i++)
		for (uint32_t j = 0; j < g->nodes[i].n_in; j++)
			m->last_reader[g->nodes[i].in[j]] = i + 1;
	/* A tensor can enter several segments: each is listed before the next one marks. */
	for (uint32_t i = 0; i < s->n && !e; i++) {
		e = mark(s, i, m, why);
		if (e)
			return e;
		e = list_borders(s, i, m);
	}
	return e == ERR_nomem ? err_why(why, e, "out of memory for %u segments", s->n) : e;
}

enum err segment_cut(const struct graph *g, const uint32_t *shards, uint32_t n_shards,
	struct segments *out, struct why *why)
{
	*out = (struct segments){.graph = g};
	uint32_t *all = NULL;
	struct marks m = {0};
	enum err e = ERR_OK;
	if (!shards) {
		n_shards = g->n_shards;
		shards = all = alloc_try(n_shards, sizeof *all);
		for (uint32_t i = 0; all && i < n_shards; i++)
			all[i] = i;
	}
	if (shards)
		e = check_list(g, shards, n_shards, why);
	if (!e && shards)
		out->at = alloc_try(n_shards, sizeof *out->at);
	if (!e && !out->at)
		e = err_why(why, ERR_nomem, "out of memory for %u shards", n_shards);
	if (!e) {
		group(out, shards, n_shards);
		find_nodes(out);
		e = find_borders(out, &m, why);
	}
	free(m.last_reader);
	free(m.in_of);
	free(all);
	if (e)
		segment_release(out);
	return e;
}

void segment_release(struct segments *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++) {
		free(s->at[i].in);
		free(s->at[i].out);
	}
	free(s->at);
	*s = (struct segments){0};
}
