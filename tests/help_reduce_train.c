/* A rank at work: the trainer, and between its backward pass and AdamW the ring. */
#include <stdlib.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "model/graph.h"
#include "tests/help_reduce.h"

struct help_reduce {
	struct help_reduce_config config;
	struct trainer *trainer;
	uint64_t *sequences; /* of a step */
	float *gradient;     /* of all shards, one after the other */
	uint64_t n;
	struct help_reduce_bucket *buckets;
	size_t n_buckets;
	uint64_t reduce_ns; /* of this step */
};

static enum err mean_gradient(void *arg, struct params *params, struct why *why)
{
	struct help_reduce *h = arg;
	const uint64_t begin = clock_now_ns();
	uint32_t n_shards;
	const uint32_t *shards = params_shards(params, &n_shards);
	float *at = h->gradient;
	for (uint32_t i = 0; i < n_shards; at += params_count(params, shards[i]), i++)
		params_read(params, shards[i], PARAMS_grad, 0, params_count(params, shards[i]), at);
	enum err e = help_reduce_mean(h->config.ring, h->buckets, h->n_buckets, why);
	at = h->gradient;
	for (uint32_t i = 0; !e && i < n_shards; at += params_count(params, shards[i]), i++)
		params_write(
			params, shards[i], PARAMS_grad, 0, params_count(params, shards[i]), at);
	h->reduce_ns = clock_now_ns() - begin;
	return e;
}

static enum err fits(struct help_reduce *h, struct why *why)
{
	const struct graph *g = trainer_graph(h->trainer);
	for (uint32_t s = 0; s < g->n_shards; s++)
		if (g->shard_trained[s] != g->shard_params[s])
			return err_why(why, ERR_unsupported,
				"the model has running statistics, which an all-reduce of "
				"gradients does not keep equal");
	return hash_is_zero(&h->config.spec->init)
		       ? ERR_OK
		       : err_why(why, ERR_unsupported, "the spec must begin from its seed");
}

static enum err take_memory(struct help_reduce *h, struct why *why)
{
	const uint64_t first = HELP_REDUCE_FIRST / sizeof(float),
		       most = HELP_REDUCE_BUCKET / sizeof(float);
	h->sequences = alloc_must_zero(h->config.spec->train.batch, sizeof *h->sequences);
	h->n = graph_params(trainer_graph(h->trainer));
	h->gradient = alloc_try(h->n, sizeof *h->gradient);
	if (!h->gradient)
		return err_why(why, ERR_nomem, "no memory for a copy of the gradient");
	h->n_buckets = help_reduce_cut(h->gradient, h->n, first, most, NULL);
	h->buckets = alloc_must_zero(h->n_buckets, sizeof *h->buckets);
	help_reduce_cut(h->gradient, h->n, first, most, h->buckets);
	return ERR_OK;
}

enum err help_reduce_new(
	const struct help_reduce_config *config, struct help_reduce **out, struct why *why)
{
	struct help_reduce *h = alloc_must_zero(1, sizeof *h);
	h->config = *config;
	struct trainer_config how = {.spec = config->spec,
		.corpus = config->corpus,
		.training = true,
		.backend = config->backend,
		.threads = config->threads,
		.gradients = config->ring ? mean_gradient : NULL,
		.arg = h};
	enum err e = trainer_new(&how, &h->trainer, why);
	if (!e)
		e = fits(h, why);
	if (!e)
		e = take_memory(h, why);
	if (e) {
		help_reduce_free(h);
		return e;
	}
	*out = h;
	return ERR_OK;
}

void help_reduce_free(struct help_reduce *h)
{
	if (!h)
		return;
	trainer_free(h->trainer);
	free(h->sequences);
	free(h->gradient);
	free(h->buckets);
	free(h);
}

enum err help_reduce_step(
	struct help_reduce *h, uint64_t number, struct help_reduce_step *out, struct why *why)
{
	const struct spec_train *train = &h->config.spec->train;
	const uint64_t first = (number * h->config.world + h->config.rank) * train->batch,
		       trained = (number + 1) * h->config.world * train->batch * train->seq;
	for (uint32_t i = 0; i < train->batch; i++)
		h->sequences[i] = first + i;
	h->reduce_ns = 0;
	const uint64_t begin = clock_now_ns();
	enum err e =
		trainer_step(h->trainer, h->sequences, spec_lr(train, trained), &out->loss, why);
	out->reduce_ns = h->reduce_ns;
	out->compute_ns = clock_now_ns() - begin - h->reduce_ns;
	return e;
}

struct trainer *help_reduce_trainer(struct help_reduce *h)
{
	return h->trainer;
}

struct hash help_reduce_hash(struct help_reduce *h)
{
	struct hash_state *s = hash_begin();
	float *values = h->gradient; /* free between steps, and as long as all shards */
	for (uint32_t i = 0; i < trainer_shards(h->trainer); i++) {
		trainer_read(h->trainer, i, PARAMS_value, values);
		hash_add(s, values, trainer_count(h->trainer, i) * sizeof *values);
	}
	return hash_end(s);
}
