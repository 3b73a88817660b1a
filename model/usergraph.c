#include "model/usergraph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/spec.h"
#include "model/usergraph_in.h"

/* ---- building; a source's tensor stands at its number */

static void add_inputs(const struct usergraph *u, struct graph *g, uint32_t *tensors)
{
	const uint32_t *image = u->m->image;
	bool images = image[0] != 0;
	struct shape rows =
		images ? shape_make(1, g->batch, 1, 1, 1) : shape_make(2, g->batch, g->seq, 1, 1);
	struct shape pixels = shape_make(4, g->batch, image[0], image[1], image[2]);
	if (images)
		g->images_in = graph_input(g, "images", &pixels, DTYPE_real);
	else
		g->tokens_in = graph_input(g, "tokens", &rows, DTYPE_token);
	g->targets_in = graph_input(g, "targets", &rows, DTYPE_token);
	tensors[SOURCE_tokens] = g->tokens_in;
	tensors[SOURCE_images] = g->images_in;
	tensors[SOURCE_targets] = g->targets_in;
}

static void add_params(const struct usergraph *u, struct graph *g, uint32_t *tensors)
{
	for (uint32_t i = 0; i < u->n_params; i++) {
		const struct user_param *p = &u->params[i];
		tensors[SOURCE_INPUTS + i] =
			p->buffer ? graph_buffer(g, p->shard, p->name, &p->shape, p->init)
				  : graph_param(g, p->shard, p->name, &p->shape, p->init, p->std);
	}
}

static void mistake_at(const struct usergraph *u, uint32_t node, const struct why *why)
{
	char path[USERGRAPH_PATH], prefix[40];
	struct json_in in = {.path = path, .mistakes = u->mistakes};
	usergraph_read_path(u, true, node, path);
	/* "linear.7: input 1 …": the number is the graph's, which the user does not know. */
	const struct op_def *def = op_def(u->nodes[node].is.op);
	int n = snprintf(prefix, sizeof prefix, "%s.", def->name);
	const char *colon = strncmp(why->text, prefix, (size_t)n) ? NULL : strstr(why->text, ": ");
	json_mistake(&in, "", "%s: %s", def->name, colon ? colon + 2 : why->text);
}

static bool add_node(const struct usergraph *u, struct graph *g, uint32_t *tensors, uint32_t i)
{
	const struct user_node *n = &u->nodes[i];
	const struct op_def *def = op_def(n->is.op);
	uint32_t in[NODE_IN_MAX], y;
	for (uint32_t j = 0; j < n->is.n_in; j++)
		in[j] = tensors[n->is.in[j]];
	if (g->n_nodes && g->nodes[g->n_nodes - 1].shard != n->is.shard)
		graph_block(g);
	y = graph_node(g, n->is.shard, n->is.op, in, n->is.n_in, &n->is);
	if (y == GRAPH_NONE) {
		mistake_at(u, i, &g->mistake);
		return false;
	}
	/* Later sentences then speak of the user's names. */
	snprintf(g->tensors[y].name, sizeof g->tensors[y].name, "%s", n->name);
	tensors[SOURCE_INPUTS + u->n_params + i] = y;
	struct why why;
	if (!def->token_limit || def->token_limit(g, &g->nodes[g->n_nodes - 1]) >= u->m->vocab)
		return true;
	(void)err_why(&why, ERR_range, "takes tokens below %u only, the spec has %u of them",
		def->token_limit(g, &g->nodes[g->n_nodes - 1]), u->m->vocab);
	mistake_at(u, i, &why);
	return false;
}

/* The executor's ends: training starts at the loss, and generating reads the logits. */
static void set_ends(const struct usergraph *u, struct graph *g, const uint32_t *tensors)
{
	struct json_in in = {.path = "model.graph", .mistakes = u->mistakes};
	g->loss = tensors[u->loss];
	g->logits = tensors[u->logits];
	const struct tensor *loss = &g->tensors[g->loss], *logits = &g->tensors[g->logits];
	const struct node *n = loss->producer == GRAPH_NONE ? NULL : &g->nodes[loss->producer];
	if (!n || n->op != OP_cross_entropy || n->in[0] != g->logits || n->in[1] != g->targets_in)
		json_mistake(&in, "loss",
			"must name a cross_entropy of the logits (%s) and the targets",
			logits->name);
	else if (logits->role != TENSOR_value || shape_last(&logits->shape) != u->m->vocab)
		json_mistake(&in, "logits", "must be a node that gives %u numbers for each %s",
			u->m->vocab, g->images_in == GRAPH_NONE ? "token" : "image");
}

static void check_shards(const struct usergraph *u, const struct graph *g)
{
	struct json_in in = {.path = "model.graph", .mistakes = u->mistakes};
	for (uint32_t i = 0; i < g->n_shards; i++)
		if (!g->shard_trained[i])
			json_mistake(&in, "nodes", "shard %u has no parameter to train", i);
}

static void build(struct usergraph *u, struct graph *g)
{
	uint32_t *tensors = alloc_try(SOURCE_INPUTS + u->n_params + u->n_nodes, sizeof *tensors);
	struct json_in in = {.path = "model.graph", .mistakes = u->mistakes};
	struct why why;
	if (!tensors) {
		u->failed = ERR_nomem;
		return;
	}
	add_inputs(u, g, tensors);
	add_params(u, g, tensors);
	bool good = !g->mistake.code;
	if (!good)
		json_mistake(&in, "", "%s", g->mistake.text);
	for (uint32_t i = 0; i < u->n_nodes && good; i++)
		good = add_node(u, g, tensors, u->order[i]);
	if (good)
		set_ends(u, g, tensors);
	free(tensors);
	if (u->mistakes->len)
		return;
	u->failed = graph_finish(g, &why);
	if (u->failed && u->failed != ERR_nomem)
		json_mistake(&in, "", "%s", why.text);
	if (!u->failed)
		check_shards(u, g);
}

/* The graph, or mistakes, or failed. */
static struct graph *make(struct usergraph *u, const json_t *doc, uint32_t batch, uint32_t seq)
{
	struct graph *g = NULL;
	if (usergraph_read(u, doc) && usergraph_order(u)) {
		g = graph_new(batch, seq);
		if (g)
			build(u, g);
		else
			u->failed = ERR_nomem;
	}
	if (g && g->mistake.code == ERR_nomem)
		u->failed = ERR_nomem;
	if (u->failed || u->mistakes->len || !buf_ok(u->mistakes)) {
		graph_free(g);
		g = NULL;
	}
	free(u->params);
	free(u->nodes);
	free(u->order);
	return g;
}

/* ---- the two ways in */

uint32_t usergraph_check(const json_t *doc, const struct model_config *m, struct buf *mistakes)
{
	struct buf own;
	buf_init(&own, mistakes->max);
	struct usergraph u = {.m = m, .mistakes = &own};
	/* What is right for the longest sequence is right for all. */
	struct graph *g = make(&u, doc, 1, m->image[0] ? 1 : m->context);
	uint32_t n_shards = g ? g->n_shards : 0;
	if (u.failed == ERR_nomem || (!g && !own.len))
		buf_printf(mistakes, "model.graph: there is no memory to read it\n");
	else
		buf_put(mistakes, own.data, own.len);
	graph_free(g);
	buf_release(&own);
	return n_shards;
}

enum err usergraph_build(const struct model_config *m, uint32_t batch, uint32_t seq,
	struct graph **out, struct why *why)
{
	if (batch < 1 || seq < 1 || seq > (m->image[0] ? 1 : m->context) || !m->user)
		return err_why(why, ERR_range,
			"a micro-batch of %u x %u: must be at least 1, and at most model.context "
			"(%u; images: 1)",
			batch, seq, m->context);
	json_t *doc = NULL;
	enum err e = json_parse(m->user, strlen(m->user), SPEC_MAX_BYTES, &doc, why);
	if (e)
		return e;
	struct buf mistakes;
	buf_init(&mistakes, SPEC_MISTAKES_MAX);
	struct usergraph u = {.m = m, .mistakes = &mistakes};
	*out = make(&u, doc, batch, seq);
	if (u.failed == ERR_nomem || (!*out && !mistakes.len))
		e = err_why(why, ERR_nomem, "out of memory for the model's graph");
	else
		e = json_verdict(&mistakes, "the user's graph", why);
	buf_release(&mistakes);
	json_decref(doc);
	return e;
}
