/*
 * The executor: runs the shards that a struct params holds, forward and backward, for one
 * micro-batch at a time.  The shards form one or more segments (model/segment.h); what crosses
 * their borders goes in and out through host buffers in the backend's reals (float, for ref64
 * double).  Several micro-batches in flight are several executors on one params.  Gradients of
 * parameters add up in params until params_adamw.
 *
 * One peer with every shard: exec_whole.  A pipeline stage, for one micro-batch:
 *
 *	exec_begin(x, &batch, why)
 *	for each segment i in order:
 *		exec_put(each in); exec_forward(x, i); exec_get(each out)
 *	for each segment i in reverse order:
 *		exec_put_grad(each out); exec_backward(x, i); exec_get_grad(each in)
 *
 * A border tensor's gradient is the sum over its readers, later readers first: whoever holds an
 * earlier reader puts what the later ones returned (exec_put_grad of an "in"), adds its own and
 * hands on the sum.  So the bits do not depend on where the cuts are.
 * Calls out of this order are bugs of the caller and assert.  One thread, the device's.
 */
#ifndef KERNELS_EXEC_H
#define KERNELS_EXEC_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/kvcache.h"
#include "kernels/params.h"
#include "model/graph.h"
#include "model/segment.h"

struct exec;

enum exec_mode {
	EXEC_train,     /* forward and backward */
	EXEC_recompute, /* the same bits with less memory: values inside blocks are made again */
	EXEC_loss,      /* forward; loss and logits can be read */
	EXEC_logits,    /* forward up to the logits: no targets */
};

/* Borrows graph and params, which outlive it.  Refused with a sentence: ERR_shape, another model
 * than params'; ERR_refused, a parameter needed from a shard not held; ERR_unsupported, an op that
 * the backend lacks; ERR_nomem, with the size asked for (take a smaller micro-batch). */
enum err exec_new(const struct graph *g, struct params *p, enum exec_mode mode, struct exec **out,
	struct why *why) MUST_CHECK;
/* Bytes of device memory that an executor of every shard takes, before there is one.  ERR_nomem,
 * ERR_state as for exec_new. */
enum err exec_need(const struct backend *b, const struct graph *g, enum exec_mode mode,
	uint64_t *bytes, struct why *why) MUST_CHECK;
void exec_free(struct exec *x);            /* NULL-safe */
uint64_t exec_bytes(const struct exec *x); /* of device memory, params not counted */
const struct segments *exec_segments(const struct exec *x);

struct exec_batch {
	/* [B,T] each, targets of images [N]; may be NULL where no held node reads it.  A target
	 * below 0 is not counted. */
	const int32_t *tokens, *targets;
	const void *images; /* [N,C,H,W] in the backend's reals, instead of tokens */
	/* The loss is a mean over so many rows: those counted in all micro-batches of a step, so
	 * that losses and gradients of the micro-batches add up.  0: this micro-batch's. */
	uint64_t loss_rows;
	/* In training: forward only, with the statistics of evaluation.  It needs no memory of its
	 * own, and gives the loss that EXEC_loss gives. */
	bool evaluate;
	/* Generation (EXEC_logits): the cache, NULL for none, and how many tokens are in it. */
	struct kvcache *cache;
	uint32_t past;
};

/* Start a micro-batch.  ERR_range with a sentence for a token outside the vocabulary, or more
 * tokens than cache or context hold. */
enum err exec_begin(struct exec *x, const struct exec_batch *b, struct why *why) MUST_CHECK;
void exec_put(struct exec *x, uint32_t tensor, const void *reals);
void exec_forward(struct exec *x, uint32_t segment);
/* Elements [first, first + n) of an "out", or of the logits (not in training), directly after the
 * forward of the segment that makes it. */
void exec_get(struct exec *x, uint32_t tensor, uint64_t first, uint64_t n, void *reals);
double exec_loss(struct exec *x); /* after the forward of the last segment of the graph */
void exec_put_grad(struct exec *x, uint32_t tensor, const void *reals);
void exec_backward(struct exec *x, uint32_t segment);
void exec_get_grad(struct exec *x, uint32_t tensor, void *reals);

/* All of it for an executor of every shard: begin, forward, in training backward.  loss may be
 * NULL, and is left alone in EXEC_logits. */
enum err exec_whole(
	struct exec *x, const struct exec_batch *b, double *loss, struct why *why) MUST_CHECK;

#endif
