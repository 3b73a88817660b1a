/* The user's graph between its three files: usergraph_read.c makes it from JSON, usergraph_order.c
 * sorts it, usergraph.c builds.  Texts are borrowed from the JSON document. */
#ifndef MODEL_USERGRAPH_IN_H
#define MODEL_USERGRAPH_IN_H
#include <jansson.h>
#include <stdbool.h>
#include "base/buf.h"
#include "model/graph.h"

#define USERGRAPH_PATH 160

/* What a node reads is a source: one of the inputs, then the parameters, then the nodes, in the
 * order of the file. */
enum { SOURCE_tokens, SOURCE_images, SOURCE_targets, SOURCE_INPUTS };

struct user_param {
	const char *name; /* "" when it is wrong */
	struct shape shape;
	enum init_kind init;
	float std;
	bool buffer;
	uint32_t shard; /* GRAPH_NONE: nobody reads it */
};

struct user_node {
	const char *name;
	struct node is; /* op, n_in, attributes; in: sources; shard GRAPH_NONE: not said */
};

struct usergraph {
	const struct model_config *m;
	struct user_param *params;
	struct user_node *nodes;
	uint32_t n_params, n_nodes;
	uint32_t loss, logits; /* sources; GRAPH_NONE when they are wrong */
	uint32_t *order;       /* the nodes as they are to be built */
	struct buf *mistakes;
	enum err failed; /* ERR_nomem; else it is mistakes that fail */
};

/* Where param or node i stands, for mistakes: "model.graph.nodes[3](attn)". */
void usergraph_read_path(
	const struct usergraph *u, bool node, uint32_t i, char out[static USERGRAPH_PATH]);
/* Fills all but order; false when there were mistakes, or failed is set. */
bool usergraph_read(struct usergraph *u, const json_t *doc);
/* Gives every node and parameter its shard, and order: inputs first, shards one after the other,
 * the order of the file where that leaves a choice.  False as above. */
bool usergraph_order(struct usergraph *u);

#endif
