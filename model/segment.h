/*
 * What a set of shards computes: contiguous runs of nodes (segments) and the tensors that cross
 * their borders.  A peer with every shard has one segment without borders.  Pure.
 */
#ifndef MODEL_SEGMENT_H
#define MODEL_SEGMENT_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "model/graph.h"

struct segment {
	uint32_t first_shard, n_shards;
	uint32_t first_node, n_nodes;
	/* Values that its nodes read and nodes outside make, and values that its nodes make and
	 * nodes outside read; ascending tensor numbers. */
	uint32_t *in, n_in;
	uint32_t *out, n_out;
};

struct segments {
	struct segment *at;
	uint32_t n;
	const struct graph *graph; /* borrowed */
};

/* Cut out the given shards (ascending, each once; NULL: all).  ERR_range for a wrong list;
 * ERR_refused where a node needs a parameter of a shard outside the set, as for a tied head without
 * its embedding. */
enum err segment_cut(const struct graph *g, const uint32_t *shards, uint32_t n_shards,
	struct segments *out, struct why *why) MUST_CHECK;
void segment_release(struct segments *s); /* NULL-safe, idempotent */

#endif
