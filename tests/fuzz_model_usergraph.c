/* A user's graph from anywhere is refused with a reason, or it is a graph: inputs before readers,
 * every parameter in a shard that there is, and it can be cut. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/json_line.h"
#include "model/segment.h"
#include "model/spec.h"
#include "model/usergraph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_graph(const struct graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t j = 0; j < g->nodes[i].n_in; j++) {
			const struct tensor *t = &g->tensors[g->nodes[i].in[j]];
			bool later = t->role == TENSOR_value && t->producer >= i;
			if (later || t->shard > g->nodes[i].shard)
				abort();
		}
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role == TENSOR_param &&
			(t->shard >= g->n_shards ||
				t->offset + shape_count(&t->shape) > g->shard_params[t->shard]))
			abort();
	}
	struct segments cut;
	struct why why;
	if (segment_cut(g, NULL, 0, &cut, &why))
		abort();
	segment_release(&cut);
}

static void read_graph(const json_t *doc, struct model_config *m)
{
	struct buf mistakes;
	struct why why = {0};
	struct graph *g = NULL;
	buf_init(&mistakes, SPEC_MISTAKES_MAX);
	uint32_t n_shards = usergraph_check(doc, m, &mistakes);
	if (!n_shards == !mistakes.len)
		abort();
	char *text = json_canonical(doc);
	m->user = text;
	enum err e = usergraph_build(m, 1, 1, &g, &why);
	/* A position table may be too short for the context, and long enough for one token. */
	if ((n_shards && e) || (e && (!why.text[0] || g)))
		abort();
	if (n_shards && g->n_shards != n_shards)
		abort();
	if (!e)
		check_graph(g);
	graph_free(g);
	free(text);
	buf_release(&mistakes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char path[] = "nodes[2](x).in[1]";
	(void)json_line_of((const char *)data, size, path, strlen(path));
	json_t *doc = NULL;
	struct why why;
	if (json_parse(data, size, SPEC_MAX_BYTES, &doc, &why))
		return 0;
	if (json_is_object(doc)) {
		struct model_config texts = {.builder = "graph", .context = 6, .vocab = 5};
		struct model_config images = {.builder = "graph", .image = {1, 6, 6}, .vocab = 5};
		read_graph(doc, &texts);
		read_graph(doc, &images);
	}
	json_decref(doc);
	return 0;
}
