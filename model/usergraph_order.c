#include <stdlib.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/usergraph_in.h"

/* A mistake of a node, or of a parameter. */
#define MISTAKE(u, node, i, what, ...) \
	do { \
		char path_[USERGRAPH_PATH]; \
		struct json_in in_ = {.path = path_, .mistakes = (u)->mistakes}; \
		usergraph_read_path(u, node, i, path_); \
		json_mistake(&in_, what, __VA_ARGS__); \
	} while (0)

static bool fine(const struct usergraph *u)
{
	return !u->failed && !u->mistakes->len;
}

/* The node that a source is, GRAPH_NONE: an input or a parameter. */
static uint32_t node_of(const struct usergraph *u, uint32_t source)
{
	uint32_t first = SOURCE_INPUTS + u->n_params;
	return source < first ? GRAPH_NONE : source - first;
}

/* ---- inputs before readers */

/* A walk through what nodes read: the nodes on the way, and how many inputs of each are done. */
struct walk {
	uint32_t *path, *done, depth;
	char *seen; /* 0: not yet, 1: on the path, 2: in the order */
	uint32_t n_order;
};

static void enter(struct walk *w, uint32_t node)
{
	w->seen[node] = 1;
	w->done[w->depth] = 0;
	w->path[w->depth++] = node;
}

/* By depth, so that everything a node reads is in the order before it. */
static void visit(struct usergraph *u, struct walk *w, uint32_t node)
{
	enter(w, node);
	while (w->depth) {
		uint32_t top = w->depth - 1, at = w->path[top];
		const struct node *n = &u->nodes[at].is;
		if (w->done[top] == n->n_in) {
			w->seen[at] = 2;
			u->order[w->n_order++] = at;
			w->depth--;
			continue;
		}
		uint32_t input = node_of(u, n->in[w->done[top]++]);
		if (input == GRAPH_NONE || w->seen[input] == 2)
			continue;
		if (w->seen[input] == 1) {
			MISTAKE(u, true, at, "in", "a cycle: %s is made from this node's output",
				u->nodes[input].name);
			return;
		}
		enter(w, input);
	}
}

static void inputs_first(struct usergraph *u)
{
	struct walk w = {.path = alloc_try(u->n_nodes, sizeof *w.path),
		.done = alloc_try(u->n_nodes, sizeof *w.done),
		.seen = alloc_try(u->n_nodes, 1)};
	if (!w.path || !w.done || !w.seen)
		u->failed = ERR_nomem;
	for (uint32_t i = 0; i < u->n_nodes && fine(u); i++)
		if (!w.seen[i])
			visit(u, &w, i);
	free(w.path);
	free(w.done);
	free(w.seen);
}

/* ---- shards */

static void place_nodes(struct usergraph *u)
{
	for (uint32_t i = 0; i < u->n_nodes; i++) {
		struct node *n = &u->nodes[u->order[i]].is;
		uint32_t least = 0, from = GRAPH_NONE;
		for (uint32_t j = 0; j < n->n_in; j++) {
			uint32_t input = node_of(u, n->in[j]);
			if (input == GRAPH_NONE || u->nodes[input].is.shard < least)
				continue;
			least = u->nodes[input].is.shard;
			from = input;
		}
		if (n->shard == GRAPH_NONE)
			n->shard = least;
		else if (n->shard < least)
			MISTAKE(u, true, u->order[i], "shard",
				"is %u, but the node reads %s of shard %u: values go to later "
				"shards "
				"only",
				n->shard, u->nodes[from].name, least);
	}
}

/* A stable sort by shard: since values go to later shards only, inputs stay before readers. */
static void sort_by_shard(struct usergraph *u)
{
	uint32_t *sorted = alloc_try(u->n_nodes, sizeof *sorted);
	uint32_t *start = alloc_try(GRAPH_SHARDS_MAX + 1, sizeof *start);
	if (!sorted || !start)
		u->failed = ERR_nomem;
	for (uint32_t i = 0; i < u->n_nodes && fine(u); i++)
		start[u->nodes[i].is.shard + 1]++;
	for (uint32_t s = 0; s < GRAPH_SHARDS_MAX && fine(u); s++)
		start[s + 1] += start[s];
	for (uint32_t i = 0; i < u->n_nodes && fine(u); i++)
		sorted[start[u->nodes[u->order[i]].is.shard]++] = u->order[i];
	free(start);
	if (!fine(u)) {
		free(sorted);
		return;
	}
	free(u->order);
	u->order = sorted;
}

static void check_gaps(const struct usergraph *u)
{
	for (uint32_t i = 0, next = 0; i < u->n_nodes; i++) {
		uint32_t shard = u->nodes[u->order[i]].is.shard;
		if (shard > next) {
			MISTAKE(u, true, u->order[i], "shard", "is %u, but no node is in shard %u",
				shard, next);
			return;
		}
		next = shard + 1;
	}
}

/* ---- readers */

static void check_read(const struct usergraph *u, const bool *read)
{
	static const char *const inputs[] = {"tokens", "images", "targets"};
	struct json_in in = {.path = "model.graph", .mistakes = u->mistakes};
	uint32_t other = u->m->image[0] ? SOURCE_tokens : SOURCE_images;
	for (uint32_t i = 0; i < SOURCE_INPUTS; i++)
		if (!read[i] && i != other)
			json_mistake(&in, "nodes", "none of them reads %s", inputs[i]);
	for (uint32_t i = 0; i < u->n_params; i++)
		if (!read[SOURCE_INPUTS + i])
			MISTAKE(u, false, i, "", "is not used: no node reads it");
	for (uint32_t i = 0, at = SOURCE_INPUTS + u->n_params; i < u->n_nodes; i++, at++)
		if (!read[at] && at != u->loss)
			MISTAKE(u, true, i, "",
				"is not used: no node reads it, nor is it the loss");
}

/* A parameter goes where it is read first. */
static void place_params(struct usergraph *u)
{
	uint32_t first_node = SOURCE_INPUTS + u->n_params;
	bool *read = alloc_try(first_node + u->n_nodes, sizeof *read);
	if (!read) {
		u->failed = ERR_nomem;
		return;
	}
	for (uint32_t i = 0; i < u->n_nodes; i++) {
		const struct node *n = &u->nodes[u->order[i]].is;
		for (uint32_t j = 0; j < n->n_in; j++) {
			uint32_t source = n->in[j];
			bool first = !read[source];
			read[source] = true;
			if (first && source >= SOURCE_INPUTS && source < first_node)
				u->params[source - SOURCE_INPUTS].shard = n->shard;
		}
	}
	check_read(u, read);
	free(read);
}

bool usergraph_order(struct usergraph *u)
{
	u->order = alloc_try(u->n_nodes, sizeof *u->order);
	if (!u->order)
		u->failed = ERR_nomem;
	if (fine(u))
		inputs_first(u);
	if (fine(u))
		place_nodes(u);
	if (fine(u))
		sort_by_shard(u);
	if (fine(u))
		check_gaps(u);
	if (fine(u))
		place_params(u);
	return fine(u);
}
