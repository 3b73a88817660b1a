/*
 * A saved state that knows its model: a peer's own ("local") or a run's ("snapshot"), with the spec
 * inside it, the graph that follows from the spec, and the parameters of every shard.  Everything
 * is checked against each other on opening; the file is mapped, not read.
 */
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H
#include "base/buf.h"
#include "base/err.h"
#include "model/graph.h"
#include "model/spec.h"
#include "model/statefile.h"

struct checkpoint {
	char *path; /* of the file that was opened */
	struct statefile *file;
	struct spec *spec;
	struct graph *graph;  /* of one sequence of one token: for names, shapes and offsets */
	const float **shards; /* one vector for each shard, in the file */
};

/* path is a file, or a folder: then its newest good state, and those passed over are named in
 * passed, a line each (NULL: nobody asks).  Not every byte pattern is a sensible number: values
 * may be NaN.  Free with checkpoint_close, also after a failure. */
enum err checkpoint_open(
	const char *path, struct checkpoint *out, struct buf *passed, struct why *why) MUST_CHECK;
void checkpoint_close(struct checkpoint *c); /* NULL-safe, idempotent */

#endif
