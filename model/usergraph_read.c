#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "model/builder.h"
#include "model/spec_in.h"
#include "model/usergraph_in.h"

#define DIM_MAX INT32_MAX

#define X(id, name) #name,
static const char *const ops[] = {OP_LIST(X) NULL};
#undef X
#define X(id, name) id,
static const enum op op_ids[] = {OP_LIST(X)};
#undef X

/* While reading: names of everything, and what they mean. */
struct reading {
	struct usergraph *u;
	const json_t *params, *nodes;
	json_t *names;
};

void usergraph_read_path(
	const struct usergraph *u, bool node, uint32_t i, char out[static USERGRAPH_PATH])
{
	const char *name = node ? u->nodes[i].name : u->params[i].name;
	bool known = name && *name;
	snprintf(out, USERGRAPH_PATH, "model.graph.%s[%u]%s%.*s%s", node ? "nodes" : "params", i,
		known ? "(" : "", GRAPH_NAME, known ? name : "", known ? ")" : "");
}

/* ---- names */

/* The source that a name means, GRAPH_NONE: nothing. */
static uint32_t source_of(const struct reading *r, const char *name)
{
	const json_t *number = json_object_get(r->names, name);
	return number ? (uint32_t)json_integer_value(number) : GRAPH_NONE;
}

static void declare(struct reading *r, struct json_in *in, const char *name, uint32_t source)
{
	if (!*name)
		return;
	uint32_t other = source_of(r, name);
	char path[USERGRAPH_PATH];
	if (other == GRAPH_NONE) {
		if (json_object_set_new(r->names, name, json_integer(source)))
			r->u->failed = ERR_nomem;
		return;
	}
	if (other < SOURCE_INPUTS) {
		json_mistake(in, "name", "is the name of an input");
		return;
	}
	other -= SOURCE_INPUTS;
	bool node = other >= r->u->n_params;
	usergraph_read_path(r->u, node, node ? other - r->u->n_params : other, path);
	json_mistake(in, "name", "is taken by %s", path);
}

static void declare_inputs(struct reading *r)
{
	bool images = r->u->m->image[0] != 0;
	int bad = json_object_set_new(r->names, images ? "images" : "tokens",
		json_integer(images ? SOURCE_images : SOURCE_tokens));
	if (bad || json_object_set_new(r->names, "targets", json_integer(SOURCE_targets)))
		r->u->failed = ERR_nomem;
}

/* Names of all nodes come first: what a node reads may stand behind it. */
static void declare_nodes(struct reading *r)
{
	struct usergraph *u = r->u;
	for (uint32_t i = 0; i < u->n_nodes; i++) {
		char path[USERGRAPH_PATH];
		struct json_in in;
		usergraph_read_path(u, true, i, path);
		json_in_init(&in, json_array_get(r->nodes, i), path, u->mistakes);
		u->nodes[i].name = in.object ? spec_in_name(&in, "name", GRAPH_NAME - 1) : "";
		declare(r, &in, u->nodes[i].name, SOURCE_INPUTS + u->n_params + i);
	}
}

static uint32_t resolve(
	const struct reading *r, struct json_in *in, const char *where, const json_t *text)
{
	const char *name = json_string_value(text);
	uint32_t source = name ? source_of(r, name) : GRAPH_NONE;
	if (!name)
		json_mistake(in, where, "must be the name of what is meant");
	else if (source == GRAPH_NONE)
		json_mistake(in, where,
			"\"%.*s\" is neither an input (%s, targets) nor a parameter nor a node",
			GRAPH_NAME, name, r->u->m->image[0] ? "images" : "tokens");
	return source;
}

/* ---- parameters */

static struct shape read_shape(struct json_in *in)
{
	struct shape s = shape_make(0, 1, 1, 1, 1);
	const json_t *list = json_get_array(in, "shape", SHAPE_RANK, true);
	size_t n = list ? json_array_size(list) : 0;
	if (list && !n)
		json_mistake(in, "shape", "must have from 1 to %d sizes", SHAPE_RANK);
	for (; s.rank < n; s.rank++) {
		json_int_t dim = json_integer_value(json_array_get(list, s.rank));
		if (dim < 1 || dim > DIM_MAX)
			json_mistake(in, "shape", "must have whole numbers from 1, item %u is not",
				s.rank + 1);
		s.dim[s.rank] = dim < 1 || dim > DIM_MAX ? 1 : (uint32_t)dim;
	}
	return s;
}

static void read_param(struct reading *r, uint32_t i)
{
	static const char *const inits[] = {
		[INIT_zero] = "zero", [INIT_one] = "one", [INIT_normal] = "normal", NULL};
	static const bool off = false;
	struct user_param *p = &r->u->params[i];
	char path[USERGRAPH_PATH];
	struct json_in in;
	usergraph_read_path(r->u, false, i, path);
	json_in_init(&in, json_array_get(r->params, i), path, r->u->mistakes);
	p->shard = GRAPH_NONE;
	p->name = in.object ? spec_in_name(&in, "name", GRAPH_NAME - 1) : "";
	if (!in.object)
		return;
	declare(r, &in, p->name, SOURCE_INPUTS + i);
	usergraph_read_path(r->u, false, i, path);
	p->shape = read_shape(&in);
	p->init = (enum init_kind)json_get_choice(&in, "init", inits, NULL);
	if (p->init == INIT_normal)
		p->std = (float)json_get_real(&in, "std", 1e-9, 1e3, NULL);
	p->buffer = json_get_flag(&in, "buffer", &off);
	if (p->buffer && p->init == INIT_normal)
		json_mistake(&in, "init", "must be zero or one: a buffer is not drawn at random");
	json_in_finish(&in);
}

/* ---- nodes */

static void read_attributes(struct json_in *in, struct node *n)
{
	switch (n->op) {
	case OP_attention:
		n->heads = spec_in_u32(in, "heads", 1, 1u << 12);
		n->kv_heads = spec_in_u32_or(in, "kv_heads", 1, 1u << 12, n->heads);
		break;
	case OP_rope:
		n->heads = spec_in_u32(in, "heads", 1, 1u << 12);
		n->theta = (float)spec_in_real_or(in, "theta", 1.001, 1e12, BUILDER_ROPE_THETA);
		break;
	case OP_layernorm:
	case OP_rmsnorm:
		n->eps = (float)spec_in_real_or(in, "eps", 1e-12, 1, BUILDER_NORM_EPS);
		break;
	case OP_batchnorm:
		n->eps = (float)spec_in_real_or(in, "eps", 1e-12, 1, BUILDER_NORM_EPS);
		n->momentum = (float)spec_in_real_or(in, "momentum", 1e-6, 1, 0.1);
		break;
	case OP_conv2d:
		n->stride = spec_in_u32_or(in, "stride", 1, 1u << 10, 1);
		n->pad = spec_in_u32_or(in, "pad", 0, 1u << 10, 0);
		break;
	case OP_maxpool:
		n->window = spec_in_u32(in, "window", 1, 1u << 10);
		n->stride = spec_in_u32_or(in, "stride", 1, 1u << 10, n->window);
		n->pad = spec_in_u32_or(in, "pad", 0, 1u << 10, 0);
		break;
	default: break;
	}
}

static void read_inputs(const struct reading *r, struct json_in *in, struct node *n)
{
	const json_t *list = json_get_array(in, "in", NODE_IN_MAX, true);
	const struct op_def *def = op_def(n->op);
	size_t count = list ? json_array_size(list) : 0;
	if (list && def && (count < def->min_in || count > def->max_in))
		json_mistake(in, "in", "%s reads from %u to %u things, here are %zu", def->name,
			def->min_in, def->max_in, count);
	for (; n->n_in < count; n->n_in++) {
		char where[16];
		snprintf(where, sizeof where, "in[%u]", n->n_in);
		n->in[n->n_in] = resolve(r, in, where, json_array_get(list, n->n_in));
	}
}

static void read_node(const struct reading *r, uint32_t i)
{
	static const int64_t unsaid = GRAPH_NONE;
	struct user_node *n = &r->u->nodes[i];
	char path[USERGRAPH_PATH];
	struct json_in in;
	usergraph_read_path(r->u, true, i, path);
	const json_t *object = json_array_get(r->nodes, i);
	if (!json_is_object(object))
		return; /* declare_nodes has said so */
	json_in_init(&in, object, path, r->u->mistakes);
	in.seen[in.n_seen++] = "name";
	size_t before = r->u->mistakes->len;
	size_t op = json_get_choice(&in, "op", ops, NULL);
	bool known = r->u->mistakes->len == before;
	n->is.op = known ? op_ids[op] : OP_none;
	read_inputs(r, &in, &n->is);
	read_attributes(&in, &n->is);
	n->is.shard = (uint32_t)json_get_int(&in, "shard", 0, GRAPH_SHARDS_MAX - 1, &unsaid);
	if (known) /* else nobody knows which attributes are meant */
		json_in_finish(&in);
}

/* ---- the whole */

static void read_all(struct reading *r, const json_t *doc)
{
	struct usergraph *u = r->u;
	struct json_in in;
	json_in_init(&in, doc, "model.graph", u->mistakes);
	r->params = json_get_array(&in, "params", GRAPH_NODES_MAX, true);
	r->nodes = json_get_array(&in, "nodes", GRAPH_NODES_MAX, true);
	u->n_params = r->params ? (uint32_t)json_array_size(r->params) : 0;
	u->n_nodes = r->nodes ? (uint32_t)json_array_size(r->nodes) : 0;
	u->params = alloc_try(u->n_params + 1, sizeof *u->params);
	u->nodes = alloc_try(u->n_nodes + 1, sizeof *u->nodes);
	if (!u->params || !u->nodes) {
		u->failed = ERR_nomem;
		return;
	}
	if (r->nodes && !u->n_nodes)
		json_mistake(&in, "nodes", "must not be empty");
	declare_inputs(r);
	for (uint32_t i = 0; i < u->n_params; i++)
		read_param(r, i);
	declare_nodes(r);
	for (uint32_t i = 0; i < u->n_nodes; i++)
		read_node(r, i);
	(void)json_get_text(&in, "loss", GRAPH_NAME - 1, NULL);
	(void)json_get_text(&in, "logits", GRAPH_NAME - 1, NULL);
	const json_t *loss = json_object_get(doc, "loss"), *logits = json_object_get(doc, "logits");
	u->loss = loss ? resolve(r, &in, "loss", loss) : GRAPH_NONE;
	u->logits = logits ? resolve(r, &in, "logits", logits) : GRAPH_NONE;
	json_in_finish(&in);
}

bool usergraph_read(struct usergraph *u, const json_t *doc)
{
	struct reading r = {.u = u, .names = json_object()};
	if (r.names)
		read_all(&r, doc);
	else
		u->failed = ERR_nomem;
	json_decref(r.names);
	return !u->failed && !u->mistakes->len && buf_ok(u->mistakes);
}
