#include "model/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "model/gpt.h"
#include "model/llama.h"
#include "model/resnet.h"
#include "model/usergraph.h"

static bool ok(const struct graph *g)
{
	return g->mistake.code == ERR_OK;
}

/* ---- building */

struct graph *graph_new(uint32_t batch, uint32_t seq)
{
	struct graph *g = alloc_try(1, sizeof *g);
	if (!g)
		return NULL;
	g->batch = batch;
	g->seq = seq;
	g->tokens_in = g->images_in = g->targets_in = g->loss = g->logits = GRAPH_NONE;
	return g;
}

void graph_free(struct graph *g)
{
	if (!g)
		return;
	free(g->nodes);
	free(g->tensors);
	free(g->shard_params);
	free(g->shard_trained);
	free(g->shard_decay);
	free(g);
}

/* Room for one more of n items; by alloc_try, because their number follows a spec. */
static bool reserve(struct graph *g, void **items, uint32_t n, uint32_t *cap, size_t each)
{
	if (n < *cap)
		return true;
	uint32_t more = *cap ? 2 * *cap : 64;
	void *bigger = alloc_try_resize(*items, more, each);
	if (!bigger) {
		(void)err_why(
			&g->mistake, ERR_nomem, "out of memory for a graph of %u items", more);
		return false;
	}
	*items = bigger;
	*cap = more;
	return true;
}

static uint32_t add_tensor(struct graph *g, const struct tensor *t)
{
	uint64_t count = shape_count(&t->shape);
	if (count < 1 || count > GRAPH_ELEMENTS_MAX) {
		char text[SHAPE_TEXT];
		shape_text(&t->shape, text);
		(void)err_why(&g->mistake, ERR_toobig,
			"tensor %s of shape %s: must have from 1 to 2^40 elements", t->name, text);
		return GRAPH_NONE;
	}
	void *items = g->tensors;
	bool room = reserve(g, &items, g->n_tensors, &g->cap_tensors, sizeof *t);
	g->tensors = items;
	if (!room)
		return GRAPH_NONE;
	g->tensors[g->n_tensors] = *t;
	return g->n_tensors++;
}

uint32_t graph_input(struct graph *g, const char *name, const struct shape *s, enum dtype dtype)
{
	if (!ok(g))
		return GRAPH_NONE;
	struct tensor t = {
		.role = TENSOR_input, .dtype = dtype, .shape = *s, .producer = GRAPH_NONE};
	snprintf(t.name, sizeof t.name, "%s", name);
	return add_tensor(g, &t);
}

uint32_t graph_param(struct graph *g, uint32_t shard, const char *name, const struct shape *s,
	enum init_kind init, float std)
{
	if (!ok(g))
		return GRAPH_NONE;
	struct tensor t = {
		.role = TENSOR_param,
		.dtype = DTYPE_real,
		.shape = *s,
		.producer = GRAPH_NONE,
		.shard = shard,
		.init = init,
		.init_std = std,
		.decay = s->rank >= 2,
	};
	snprintf(t.name, sizeof t.name, "%s", name);
	return add_tensor(g, &t);
}

uint32_t graph_buffer(struct graph *g, uint32_t shard, const char *name, const struct shape *s,
	enum init_kind init)
{
	uint32_t t = graph_param(g, shard, name, s, init, 0);
	if (t != GRAPH_NONE) {
		g->tensors[t].buffer = true;
		g->tensors[t].decay = false;
	}
	return t;
}

static enum err check_inputs(struct graph *g, const struct node *n, const uint32_t *in)
{
	const struct op_def *def = op_def(n->op);
	struct why *why = &g->mistake;
	if (!def || n->n_in < def->min_in || n->n_in > def->max_in)
		return err_why(why, ERR_range,
			"node %u: op %d with %u inputs is not in the list of ops", g->n_nodes,
			(int)n->op, n->n_in);
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (in[i] >= g->n_tensors)
			return err_why(why, ERR_range,
				"%s.%u: input %u is tensor %u, which does not exist", def->name,
				g->n_nodes, i, in[i]);
		bool token = def->token_in >> i & 1;
		if (token != (g->tensors[in[i]].dtype == DTYPE_token))
			return err_why(why, ERR_shape, "%s.%u: input %u (%s) must hold %s",
				def->name, g->n_nodes, i, g->tensors[in[i]].name,
				token ? "tokens" : "reals");
		bool buffer = def->buffer_in >> i & 1;
		if (buffer != g->tensors[in[i]].buffer)
			return err_why(why, ERR_shape, "%s.%u: input %u (%s) must%s be a buffer",
				def->name, g->n_nodes, i, g->tensors[in[i]].name,
				buffer ? "" : " not");
		/* Two gradients in one place could not be told apart by a kernel. */
		for (uint32_t j = 0; j < i; j++)
			if (in[i] == in[j])
				return err_why(why, ERR_range,
					"%s.%u: inputs %u and %u are the same tensor (%s)",
					def->name, g->n_nodes, j, i, g->tensors[in[i]].name);
	}
	return ERR_OK;
}

/* Shards are contiguous and none is empty: each node is in the last node's shard or the next. */
static enum err check_place(struct graph *g, const struct node *n)
{
	uint32_t last = g->n_nodes ? g->nodes[g->n_nodes - 1].shard : 0;
	uint32_t next = g->n_nodes ? last + 1 : 0;
	if (g->n_nodes >= GRAPH_NODES_MAX)
		return err_why(
			&g->mistake, ERR_toobig, "a graph of more than %u nodes", GRAPH_NODES_MAX);
	if (n->shard < last || n->shard > next || n->shard >= GRAPH_SHARDS_MAX)
		return err_why(&g->mistake, ERR_range,
			"%s.%u is in shard %u after a node in shard %u: shards must follow each "
			"other "
			"without gaps (at most %u)",
			op_def(n->op)->name, g->n_nodes, n->shard, last, GRAPH_SHARDS_MAX);
	return ERR_OK;
}

uint32_t graph_node(struct graph *g, uint32_t shard, enum op op, const uint32_t *in, uint32_t n_in,
	const struct node *attrs)
{
	if (!ok(g))
		return GRAPH_NONE;
	struct node n = attrs ? *attrs : (struct node){0};
	n.op = op;
	n.shard = shard;
	n.block = g->block;
	n.n_in = n_in;
	struct tensor y = {.role = TENSOR_value, .dtype = DTYPE_real, .shard = shard};
	if (check_inputs(g, &n, in) || check_place(g, &n))
		return GRAPH_NONE;
	memcpy(n.in, in, n_in * sizeof *in);
	if (op_def(op)->infer(g, &n, &y.shape, &g->mistake))
		return GRAPH_NONE;
	y.producer = g->n_nodes;
	snprintf(y.name, sizeof y.name, "%s.%u", op_def(op)->name, g->n_nodes);
	void *items = g->nodes;
	bool room = reserve(g, &items, g->n_nodes, &g->cap_nodes, sizeof n);
	g->nodes = items;
	n.out = room ? add_tensor(g, &y) : GRAPH_NONE;
	if (n.out == GRAPH_NONE)
		return GRAPH_NONE;
	g->nodes[g->n_nodes++] = n;
	return n.out;
}

void graph_block(struct graph *g)
{
	g->block++;
}

/* ---- finishing */

static int by_name(const void *a, const void *b)
{
	const struct tensor *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

static enum err check_names(const struct graph *g, struct why *why)
{
	const struct tensor **order = alloc_try(g->n_tensors, sizeof *order);
	if (!order)
		return err_why(
			why, ERR_nomem, "out of memory for the names of %u tensors", g->n_tensors);
	for (uint32_t i = 0; i < g->n_tensors; i++)
		order[i] = &g->tensors[i];
	qsort(order, g->n_tensors, sizeof *order, by_name);
	enum err e = ERR_OK;
	for (uint32_t i = 1; i < g->n_tensors && !e; i++)
		if (!strcmp(order[i]->name, order[i - 1]->name))
			e = err_why(why, ERR_exists, "two tensors are called %s", order[i]->name);
	free(order);
	return e;
}

static enum err check_used(const struct graph *g, struct why *why)
{
	bool *used = alloc_try(g->n_tensors, sizeof *used);
	if (!used)
		return err_why(
			why, ERR_nomem, "out of memory for a graph of %u tensors", g->n_tensors);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t j = 0; j < g->nodes[i].n_in; j++)
			used[g->nodes[i].in[j]] = true;
	enum err e = ERR_OK;
	for (uint32_t i = 0; i < g->n_tensors && !e; i++)
		if (!used[i] && i != g->loss && i != g->logits)
			e = err_why(why, ERR_range, "tensor %s is not used by any node",
				g->tensors[i].name);
	free(used);
	return e;
}

enum kind { KIND_decays, KIND_trained, KIND_buffer, KINDS };

static enum kind kind_of(const struct tensor *t)
{
	return t->buffer ? KIND_buffer : t->decay ? KIND_decays : KIND_trained;
}

static void place(struct graph *g, struct tensor *t)
{
	uint64_t *end = &g->shard_params[t->shard];
	t->offset = *end;
	*end += shape_count(&t->shape);
	if (kind_of(t) <= KIND_decays)
		g->shard_decay[t->shard] = *end;
	if (kind_of(t) <= KIND_trained)
		g->shard_trained[t->shard] = *end;
}

/* Matrices first and buffers last: then what decays is one stretch, and what trains is one. */
static enum err lay_out(struct graph *g, struct why *why)
{
	g->n_shards = g->nodes[g->n_nodes - 1].shard + 1;
	g->shard_params = alloc_try(g->n_shards, sizeof *g->shard_params);
	g->shard_trained = alloc_try(g->n_shards, sizeof *g->shard_trained);
	g->shard_decay = alloc_try(g->n_shards, sizeof *g->shard_decay);
	if (!g->shard_params || !g->shard_trained || !g->shard_decay)
		return err_why(why, ERR_nomem, "out of memory for %u shards", g->n_shards);
	for (int kind = 0; kind < KINDS; kind++)
		for (uint32_t i = 0; i < g->n_tensors; i++) {
			struct tensor *t = &g->tensors[i];
			if (t->role != TENSOR_param || kind_of(t) != (enum kind)kind)
				continue;
			if (t->shard >= g->n_shards)
				return err_why(why, ERR_range, "parameter %s is in shard %u of %u",
					t->name, t->shard, g->n_shards);
			place(g, t);
		}
	return ERR_OK;
}

enum err graph_finish(struct graph *g, struct why *why)
{
	if (!ok(g))
		return err_why(why, g->mistake.code, "%s", g->mistake.text);
	if (!g->n_nodes)
		return err_why(why, ERR_range, "a graph without nodes");
	if (g->loss != GRAPH_NONE && shape_count(&g->tensors[g->loss].shape) != 1)
		return err_why(
			why, ERR_shape, "the loss %s must be one number", g->tensors[g->loss].name);
	enum err e = check_names(g, why);
	if (!e)
		e = check_used(g, why);
	return e ? e : lay_out(g, why);
}

enum err graph_build(const struct model_config *m, uint32_t batch, uint32_t seq, struct graph **out,
	struct why *why)
{
#define X(name, file) \
	if (!strncmp(m->builder, #name, sizeof m->builder)) \
		return file##_build(m, batch, seq, out, why);
	BUILDER_LIST(X)
#undef X
#define X(name, file) " " #name
	return err_why(why, ERR_unsupported,
		"model.builder \"%.15s\" is not one of:" BUILDER_LIST(X), m->builder);
#undef X
}

/* ---- asking */

uint64_t graph_params(const struct graph *g)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < g->n_shards; i++)
		n += g->shard_params[i];
	return n;
}

uint32_t graph_find(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->n_tensors; i++)
		if (!strcmp(g->tensors[i].name, name))
			return i;
	return GRAPH_NONE;
}

/* The stream of a parameter's randomness is named by the parameter, so that neither the cut into
 * shards nor the order of making matters. */
static uint64_t stream_of(const struct tensor *t)
{
	struct hash h = hash_of(t->name, strlen(t->name));
	uint64_t stream = 0;
	for (int i = 7; i >= 0; i--)
		stream = stream << 8 | h.b[i];
	return stream;
}

void graph_init_shard(const struct graph *g, uint32_t shard, uint64_t seed, float *out)
{
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role != TENSOR_param || t->shard != shard)
			continue;
		uint64_t n = shape_count(&t->shape), stream = stream_of(t);
		float *to = out + t->offset;
		for (uint64_t k = 0; k < n; k++)
			switch (t->init) {
			case INIT_zero: to[k] = 0; break;
			case INIT_one: to[k] = 1; break;
			case INIT_normal: to[k] = t->init_std * rng_normal(seed, stream, k); break;
			}
	}
}
