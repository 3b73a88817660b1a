/*
 * One peer's replica of the model at work: the working copy on a device, its AdamW moments, and the
 * inner step.  Knows sequence numbers and nothing of rounds or networks; `local` and `join` both
 * drive it.  Same spec, same sequence numbers, same learning rates, same micro-batch: same bits,
 * whatever the number of threads.  One thread at a time.
 */
#ifndef PEER_TRAINER_H
#define PEER_TRAINER_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/params.h"
#include "model/corpus.h"
#include "model/spec.h"
#include "model/statefile.h"

struct trainer;

struct trainer_config {
	const struct spec *spec;     /* borrowed, outlives the trainer */
	const struct corpus *corpus; /* borrowed; NULL: for generation only */
	bool training;               /* else only what validation and generation need */
	const char *backend;         /* "cpu", "ref" */
	unsigned threads;            /* 0: one per core allowed */
	/* Bytes that this process may hold, if the system has them; 0: all it has.  The micro-batch
	 * is made to fit (fit.h), and a line of the log says so where it is not the spec's. beside:
	 * as fit.h has it. */
	uint64_t memory;
	uint32_t beside;
	/* Asked between micro-batches; true: break off with ERR_interrupted.  NULL: never. */
	bool (*stop)(void *arg);
	/* Called in each step when all micro-batches have added to PARAMS_grad, before clipping and
	 * AdamW: may change it.  A failure fails the step.  NULL: never. */
	enum err (*gradients)(void *arg, struct params *params, struct why *why);
	void *arg; /* of both */
};

/* The device of this name that training can use; ERR_unsupported with a sentence. */
struct backend;
enum err trainer_backend(const char *name, const struct backend **out, struct why *why) MUST_CHECK;

/* Parameters are those of the spec's seed, moments zero, no step done.  ERR_nomem with a sentence
 * when not even one sequence at a time fits. */
enum err trainer_new(
	const struct trainer_config *config, struct trainer **out, struct why *why) MUST_CHECK;
void trainer_free(struct trainer *t); /* NULL-safe */

/* The inner step number steps_done + 1 on spec.train.batch sequences: forward and backward by
 * micro-batches, clip, AdamW at lr.  loss: mean nats per token before the step.  A failure
 * (ERR_not_finite, ERR_interrupted, …) leaves parameters, running statistics and moments as they
 * were. */
enum err trainer_step(struct trainer *t, const uint64_t *sequences, double lr, double *loss,
	struct why *why) MUST_CHECK;
uint64_t trainer_steps(const struct trainer *t); /* done, as AdamW counts them */

struct trainer_validation {
	double per_token, per_byte; /* nats */
	uint64_t tokens;            /* looked at; 0: the data has no validation part */
};
/* The working copy's loss on the first windows of the validation split, at most max_windows (0:
 * all).  ERR_interrupted as above. */
enum err trainer_validate(struct trainer *t, uint64_t max_windows, struct trainer_validation *out,
	struct why *why) MUST_CHECK;

/* ---- the working copy, shard by shard, as flat vectors */
uint32_t trainer_shards(const struct trainer *t);
uint64_t trainer_count(const struct trainer *t, uint32_t shard);
void trainer_read(struct trainer *t, uint32_t shard, enum params_part part, float *to);
void trainer_write(struct trainer *t, uint32_t shard, enum params_part part, const float *from);
/* Moments zero and steps 0, as for a joiner. */
void trainer_forget_moments(struct trainer *t);

/* ---- sections "spec", "adam_m.N", "adam_v.N" and, with values, "param.N" of a statefile (without:
 * the caller saves other values under that name); the step count goes into its meta by the caller
 */
enum err trainer_save(
	struct trainer *t, struct statefile_out *to, bool values, struct why *why) MUST_CHECK;
/* Parameters, and with moments the rest too.  Files of kind "snapshot" have only the parameters.
 * After a failure the working copy is of no use. */
enum err trainer_load(struct trainer *t, const struct statefile *from, bool moments, uint64_t steps,
	struct why *why) MUST_CHECK;

struct params *trainer_params(struct trainer *t);
/* Of a micro-batch; valid until the next step or validation, which may take a smaller one. */
const struct graph *trainer_graph(const struct trainer *t);
void trainer_describe(const struct trainer *t, char *out, size_t size);

#endif
