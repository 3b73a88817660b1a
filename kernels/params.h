/*
 * The parameters of a set of shards on a device: for each shard its flat vector and, for training,
 * the gradient that backward passes add up in and AdamW's two moments.  Any number of executors
 * (training, validation, generation, with their own batch and sequence) share one.  The working
 * copy of a peer; the replica is another object, on the host.  One thread at a time, the device's.
 */
#ifndef KERNELS_PARAMS_H
#define KERNELS_PARAMS_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/backend.h"
#include "model/graph.h"

struct params;

enum params_part { PARAMS_value, PARAMS_grad, PARAMS_m, PARAMS_v };

struct params_config {
	const struct backend *backend;
	struct device *device;     /* borrowed, outlives the object */
	const struct graph *graph; /* any batch and seq; not needed after params_new */
	const uint32_t *shards;    /* ascending; NULL: all */
	uint32_t n_shards;
	bool training; /* with gradient and moments; else only PARAMS_value */
};

/* Everything is zero at first.  ERR_range for a wrong list of shards, ERR_nomem with the size that
 * was asked for. */
enum err params_new(
	const struct params_config *config, struct params **out, struct why *why) MUST_CHECK;
void params_free(struct params *p); /* NULL-safe */

/* Bytes of device memory that the parameters of all shards of g take, before there are any. */
uint64_t params_need(const struct backend *b, const struct graph *g, bool training);

/* The initial values of the run's seed (graph_init_shard).  ERR_nomem. */
enum err params_init(struct params *p, const struct graph *g, uint64_t seed) MUST_CHECK;

uint64_t params_count(const struct params *p, uint32_t shard); /* elements; 0: not held */
/* Elements [first, first + n) of a shard's vector.  A backend of doubles converts. */
void params_read(struct params *p, uint32_t shard, enum params_part part, uint64_t first,
	uint64_t n, float *to);
void params_write(struct params *p, uint32_t shard, enum params_part part, uint64_t first,
	uint64_t n, const float *from);

struct params_step {
	double lr, beta1, beta2, eps, weight_decay;
	double clip;   /* of each shard's gradient norm; 0: none */
	uint64_t step; /* counts from 1, for the bias correction */
};

/* Clip each shard's gradient by its own norm, AdamW with decay on matrices only, and start a new
 * gradient.  norms, if not NULL, receives the norm before clipping, one per held shard in order.
 * ERR_not_finite when a gradient holds NaN or infinity: nothing is changed then but that the
 * gradient is dropped. */
enum err params_adamw(
	struct params *p, const struct params_step *s, double *norms, struct why *why) MUST_CHECK;
/* Forget what was added up since the last step. */
void params_drop_grad(struct params *p);

/* ---- running statistics, which every forward pass of training moves
 * Note those of all held shards, and put the noted ones back: a step that does not come to its end
 * leaves nothing of its batches in them. */
void params_keep_buffers(struct params *p);
void params_restore_buffers(struct params *p);

/* ---- for executors */
const struct backend *params_backend(const struct params *p);
struct device *params_device(const struct params *p);
bool params_training(const struct params *p);
/* The shards held, ascending. */
const uint32_t *params_shards(const struct params *p, uint32_t *n);
/* ERR_shape with a sentence unless g has the same parameters at the same places. */
enum err params_match(const struct params *p, const struct graph *g, struct why *why) MUST_CHECK;
struct view params_view(
	const struct params *p, uint32_t shard, enum params_part part, uint64_t first);
/* Whether this parameter's gradient already holds something to add to; from now on it does. */
bool params_grad_begun(struct params *p, uint32_t tensor);

#endif
