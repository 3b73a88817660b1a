#include "peer/fit.h"

#define MIB 1048576.0

enum exec_mode fit_mode(bool training, bool recompute)
{
	return !training ? EXEC_loss : recompute ? EXEC_recompute : EXEC_train;
}

static bool has_buffers(const struct graph *g)
{
	for (uint32_t i = 0; i < g->n_shards; i++)
		if (g->shard_params[i] > g->shard_trained[i])
			return true;
	return false;
}

static uint64_t held_beside(const struct fit_ask *ask, const struct graph *g)
{
	const struct spec_train *train = &ask->spec->train;
	uint64_t tokens = 2 * (uint64_t)train->batch * train->seq * sizeof(int32_t);
	return params_need(ask->backend, g, ask->training) + ask->backend->own(ask->device) +
	       ask->beside * graph_params(g) * sizeof(float) + tokens;
}

/* What f takes; whole: its model cannot do with a smaller micro-batch. */
static enum err measure(const struct fit_ask *ask, struct fit *f, bool *whole, struct why *why)
{
	const struct spec *s = ask->spec;
	struct graph *g = NULL;
	uint64_t exec = 0;
	enum err e = graph_build(&s->model, f->micro_batch, s->train.seq, &g, why);
	if (!e)
		e = exec_need(ask->backend, g, fit_mode(ask->training, f->recompute), &exec, why);
	if (!e) {
		f->bytes = exec + held_beside(ask, g);
		*whole = ask->training && has_buffers(g);
	}
	graph_free(g);
	return e;
}

/* By size of the micro-batch, then the same again with recomputing. */
static bool next(const struct fit_ask *ask, bool whole, struct fit *f)
{
	const struct spec_train *train = &ask->spec->train;
	for (uint32_t size = f->micro_batch - 1; size > 0 && !whole; size--)
		if (train->batch % size == 0) {
			f->micro_batch = size;
			return true;
		}
	if (f->recompute || !ask->training)
		return false;
	f->recompute = true;
	f->micro_batch = train->micro_batch;
	return true;
}

static enum err nothing_fits(
	const struct fit_ask *ask, const struct fit *least, bool whole, struct why *why)
{
	return err_why(why, ERR_nomem,
		"out of memory: %s sequences of %u tokens, %u at a time, takes %.0f MiB beside the "
		"program itself, which leaves %.0f MiB; free memory, allow more (--memory), or "
		"lower train.seq%s",
		ask->training ? "training on" : "evaluating", ask->spec->train.seq,
		least->micro_batch, (double)least->bytes / MIB, (double)ask->memory / MIB,
		whole ? " or train.micro_batch" : "");
}

enum err fit_find(
	const struct fit_ask *ask, const struct fit *below, struct fit *out, struct why *why)
{
	bool whole = false, more = true;
	struct fit f = {ask->spec->train.micro_batch, ask->spec->train.recompute, 0}, least = f;
	if (below)
		f = *below;
	enum err e = measure(ask, &f, &whole, why);
	uint64_t limit = below ? f.bytes - 1 : UINT64_MAX;
	while (!e && more) {
		if (!least.bytes || f.bytes < least.bytes)
			least = f;
		if (f.bytes <= ask->memory && f.bytes <= limit) {
			*out = f;
			return ERR_OK;
		}
		more = next(ask, whole, &f);
		if (more)
			e = measure(ask, &f, &whole, why);
	}
	return e ? e : nothing_fits(ask, &least, whole, why);
}
