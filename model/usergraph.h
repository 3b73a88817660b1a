/*
 * The builder "graph": a network that the user wrote down in the spec, as lists of parameters and
 * of nodes in any order.  configs/README.md tells every member.
 *
 * Each parameter belongs to the shard of the first node that reads it; a node without a shard of
 * its own to the latest shard of what it reads.
 */
#ifndef MODEL_USERGRAPH_H
#define MODEL_USERGRAPH_H
#include <jansson.h>
#include "base/buf.h"
#include "base/err.h"
#include "model/graph.h"

/* As graph_build; m->user is the graph's text, and vocab, context or image what the spec says
 * beside it. */
enum err usergraph_build(const struct model_config *m, uint32_t batch, uint32_t seq,
	struct graph **out, struct why *why) MUST_CHECK;

/* Notes every mistake of doc, a line each behind its path ("model.graph.nodes[3](attn).heads: …").
 * Returns the number of shards, 0 when there are mistakes. */
uint32_t usergraph_check(const json_t *doc, const struct model_config *m, struct buf *mistakes);

#endif
