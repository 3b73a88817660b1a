/*
 * Where every tensor of a set of segments lives in one arena: a piece is reused as soon as nobody
 * will read it again, in forward or in backward.  Pure: the plan is offsets in elements, the
 * backend's memory comes later.
 *
 * Time is counted in steps.  Forward goes through the segments in order, backward in reverse; each
 * pass over a segment is a step in which what crosses its border is put in, one step per node, and
 * a step in which what crosses is taken out.
 *
 * With MEMPLAN_recompute the nodes of one block in one segment are a group (graph_block).  What is
 * read outside its group stays, as does all of the last group, whose backward follows at once.
 * Other values are given up after forward; before a group's backward the nodes that make what it
 * reads run again (reruns), a step each, and put it in another place (again).
 */
#ifndef MODEL_MEMPLAN_H
#define MODEL_MEMPLAN_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "model/segment.h"

#define MEMPLAN_NONE UINT64_MAX
#define MEMPLAN_ALIGN 16 /* elements: 64 bytes of floats */

enum memplan_goal {
	MEMPLAN_train,     /* forward, then backward */
	MEMPLAN_recompute, /* the same with less memory and more work */
	MEMPLAN_loss,      /* forward only; logits and loss stay readable to the end */
	MEMPLAN_logits,    /* forward only, without what the logits do not need */
};

/* A piece of memory that is in use from step first to step last, both included. */
struct memplan_piece {
	uint64_t size, offset;
	uint32_t first, last;
};

/* Give every piece its offset, such that pieces in use at the same step do not overlap.  Largest
 * first, each at the lowest place that is free for its whole life: on the graphs of GPT-2 that is
 * the lower bound, what is in use at the fullest step.  Quadratic in the number of pieces, which
 * stays unnoticed below some ten thousand.  ERR_nomem. */
enum err memplan_place(struct memplan_piece *pieces, uint32_t n, uint64_t *total) MUST_CHECK;

struct memplan {
	/* By tensor: offset, or MEMPLAN_NONE.  A gradient may lie where its value does that nobody
	 * reads any more (op_def.over_in). */
	uint64_t *value, *grad;
	uint64_t *again; /* by tensor: where its value is in backward, where that is not value */
	uint64_t *saved; /* by node: offset of what forward leaves for backward, or none */
	bool *runs;      /* by node: whether the goal needs it */
	bool *reruns;    /* by node: forward runs again before the backward of its group */
	bool *differs;   /* by tensor: it depends on a parameter, so it has a gradient */
	uint64_t total;  /* elements of the arena */
	uint64_t sum;    /* what it would be without reuse */
};

/* The first node of node's group. */
uint32_t memplan_group(const struct graph *g, const struct segment *seg, uint32_t node);

/* ERR_nomem; ERR_state with a sentence when the graph has no such goal. */
enum err memplan_make(const struct segments *s, enum memplan_goal goal, struct memplan *out,
	struct why *why) MUST_CHECK;
void memplan_release(struct memplan *p); /* NULL-safe, idempotent */

#endif
