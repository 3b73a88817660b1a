#include "peer/trainer.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"
#include "base/memory.h"
#include "kernels/backend.h"
#include "kernels/exec.h"
#include "peer/fit.h"

#define MIB 1048576.0
/* Of what there is, so much stays with the system, which has needs of its own. */
#define MEMORY_LEFT(available) ((64u << 20) + (available) / 32)
/* Of what the process may hold, so much is code, and buffers of libraries. */
#define MEMORY_PROGRAM (64u << 20)

struct trainer {
	const struct spec *spec;
	const struct corpus *corpus;
	const struct backend *backend;
	struct device *device;
	struct graph *graph; /* of a micro-batch */
	struct params *params;
	struct exec *exec; /* made when first needed; trains, and evaluates */
	struct fit_ask ask;
	struct fit fit;
	int32_t *tokens, *targets; /* of a whole batch */
	uint64_t steps;
	bool (*stop)(void *arg);
	enum err (*gradients)(void *arg, struct params *params, struct why *why);
	void *arg;
};

/* A micro-batch, unless somebody wants it to end. */
static enum err compute(
	struct trainer *t, const struct exec_batch *batch, double *loss, struct why *why)
{
	if (t->stop && t->stop(t->arg))
		return err_why(why, ERR_interrupted, "broken off");
	return exec_whole(t->exec, batch, loss, why);
}

enum err trainer_backend(const char *name, const struct backend **out, struct why *why)
{
	*out = backend_find(name);
	if (*out && (*out)->real_size == sizeof(float))
		return ERR_OK;
	return err_why(why, ERR_unsupported,
		"there is no training device \"%s\"; shoal-peer bench lists them", name);
}

static enum err open_device(struct trainer *t, const struct trainer_config *config, struct why *why)
{
	enum err e = trainer_backend(config->backend, &t->backend, why);
	if (e)
		return e;
	struct backend_config how = {
		.threads = config->threads, .precision = config->spec->train.precision};
	return t->backend->open(&how, &t->device, why);
}

/* ---- a micro-batch that fits */

static uint64_t may_take(const struct trainer_config *config)
{
	uint64_t held = MEMORY_PROGRAM + memory_held(), available = memory_available("");
	uint64_t left = MEMORY_LEFT(available), most = UINT64_MAX;
	if (config->memory)
		most = config->memory > held ? config->memory - held : 0;
	available = available > left ? available - left : 0;
	return most < available ? most : available;
}

static void tell_fit(const struct trainer *t)
{
	const struct spec_train *train = &t->spec->train;
	bool again = t->fit.recompute && !train->recompute;
	if (t->fit.micro_batch == train->micro_batch && !again)
		return;
	log_at(peer, 1,
		"for lack of memory %u of %u sequences at a time (train.micro_batch)%s: %.0f MiB, "
		"%.0f are there",
		t->fit.micro_batch, train->micro_batch,
		again ? ", values made again in backward" : "", (double)t->fit.bytes / MIB,
		(double)t->ask.memory / MIB);
}

/* The first fit, or the next smaller one. */
static enum err take_fit(struct trainer *t, const struct fit *below, struct why *why)
{
	struct graph *g = NULL;
	struct fit fit;
	enum err e = fit_find(&t->ask, below, &fit, why);
	if (!e)
		e = graph_build(&t->spec->model, fit.micro_batch, t->spec->train.seq, &g, why);
	if (e)
		return e;
	graph_free(t->graph);
	t->graph = g;
	t->fit = fit;
	tell_fit(t);
	return ERR_OK;
}

/* The plan said that there is enough memory, but the system may have none left: then the next
 * smaller micro-batch is taken. */
static enum err need_exec(struct trainer *t, struct why *why)
{
	enum err e = ERR_OK;
	struct why none;
	while (!e && !t->exec) {
		struct fit failed = t->fit;
		e = exec_new(t->graph, t->params, fit_mode(t->ask.training, t->fit.recompute),
			&t->exec, why);
		if (e == ERR_nomem && !take_fit(t, &failed, &none))
			e = ERR_OK;
	}
	return e;
}

/* ---- life */

static enum err make_graph(struct trainer *t, const struct trainer_config *config, struct why *why)
{
	t->ask = (struct fit_ask){.spec = t->spec,
		.backend = t->backend,
		.device = t->device,
		.training = config->training,
		.beside = config->beside,
		.memory = may_take(config)};
	t->fit = (struct fit){.micro_batch = t->spec->train.micro_batch};
	if (config->corpus)
		return take_fit(t, NULL, why);
	return graph_build(&t->spec->model, 1, t->spec->train.seq, &t->graph, why);
}

static enum err make_params(struct trainer *t, struct why *why)
{
	const struct spec_train *train = &t->spec->train;
	struct params_config how = {.backend = t->backend,
		.device = t->device,
		.graph = t->graph,
		.training = t->ask.training};
	enum err e = params_new(&how, &t->params, why);
	if (e)
		return e;
	if (params_init(t->params, t->graph, t->spec->seed))
		return err_why(why, ERR_nomem, "no memory for the initial parameters");
	size_t n = (size_t)train->batch * train->seq;
	t->tokens = alloc_try(n, sizeof *t->tokens);
	t->targets = alloc_try(n, sizeof *t->targets);
	if (!t->tokens || !t->targets)
		return err_why(why, ERR_nomem,
			"no memory for a batch of %u sequences; lower train.batch", train->batch);
	return ERR_OK;
}

enum err trainer_new(const struct trainer_config *config, struct trainer **out, struct why *why)
{
	struct trainer *t = alloc_must_zero(1, sizeof *t);
	t->spec = config->spec;
	t->corpus = config->corpus;
	t->stop = config->stop;
	t->gradients = config->gradients;
	t->arg = config->arg;
	enum err e = open_device(t, config, why);
	if (!e)
		e = make_graph(t, config, why);
	if (!e)
		e = make_params(t, why);
	if (e) {
		trainer_free(t);
		return e;
	}
	*out = t;
	return ERR_OK;
}

void trainer_free(struct trainer *t)
{
	if (!t)
		return;
	exec_free(t->exec);
	params_free(t->params);
	graph_free(t->graph);
	if (t->backend)
		t->backend->close(t->device);
	free(t->tokens);
	free(t->targets);
	free(t);
}

static enum err draw(struct trainer *t, const uint64_t *sequences, struct why *why)
{
	const struct spec_train *train = &t->spec->train;
	struct corpus_order order = {.seed = t->spec->seed, .seq = train->seq};
	for (uint32_t i = 0; i < train->batch; i++) {
		size_t at = (size_t)i * train->seq;
		if (corpus_sequence(
			    t->corpus, &order, sequences[i], t->tokens + at, t->targets + at))
			return err_why(why, ERR_range,
				"training sequence %llu cannot be read from the data",
				(unsigned long long)sequences[i]);
	}
	return ERR_OK;
}

enum err trainer_step(
	struct trainer *t, const uint64_t *sequences, double lr, double *loss, struct why *why)
{
	const struct spec_train *train = &t->spec->train;
	assert(t->ask.training);
	enum err e = need_exec(t, why);
	if (!e)
		e = draw(t, sequences, why);
	*loss = 0;
	params_keep_buffers(t->params);
	for (uint32_t done = 0; !e && done < train->batch; done += t->fit.micro_batch) {
		size_t at = (size_t)done * train->seq;
		struct exec_batch batch = {.tokens = t->tokens + at,
			.targets = t->targets + at,
			.loss_rows = (uint64_t)train->batch * train->seq};
		double part = 0;
		e = compute(t, &batch, &part, why);
		*loss += part;
	}
	if (!e && t->gradients)
		e = t->gradients(t->arg, t->params, why);
	struct params_step how = {.lr = lr,
		.beta1 = train->beta1,
		.beta2 = train->beta2,
		.eps = train->eps,
		.weight_decay = train->weight_decay,
		.clip = train->clip,
		.step = t->steps + 1};
	if (!e)
		e = params_adamw(t->params, &how, NULL, why);
	if (e) {
		params_drop_grad(t->params);
		params_restore_buffers(t->params);
		return e;
	}
	t->steps++;
	return ERR_OK;
}

uint64_t trainer_steps(const struct trainer *t)
{
	return t->steps;
}

/* Validation runs in the training executor, so that it needs no memory of its own. */
static enum err validate_some(
	struct trainer *t, uint64_t first, uint64_t n, double *sum, struct why *why)
{
	const uint32_t seq = t->spec->train.seq, b = t->fit.micro_batch;
	for (uint32_t i = 0; i < b; i++) {
		int32_t *tokens = t->tokens + (size_t)i * seq,
			*targets = t->targets + (size_t)i * seq;
		/* Rows beyond the last window repeat it and are not counted. */
		uint64_t window = first + (i < n ? i : n - 1);
		if (corpus_validation(t->corpus, seq, window, tokens, targets))
			return err_why(why, ERR_range,
				"validation window %llu cannot be read from the data",
				(unsigned long long)window);
		for (uint32_t k = 0; i >= n && k < seq; k++)
			targets[k] = -1;
	}
	struct exec_batch batch = {
		.tokens = t->tokens, .targets = t->targets, .evaluate = t->ask.training};
	double mean = 0;
	enum err e = compute(t, &batch, &mean, why);
	*sum += mean * (double)n * seq;
	return e;
}

enum err trainer_validate(
	struct trainer *t, uint64_t max_windows, struct trainer_validation *out, struct why *why)
{
	*out = (struct trainer_validation){0};
	const uint32_t seq = t->spec->train.seq;
	uint64_t windows = corpus_sequences(t->corpus, CORPUS_validation, seq);
	if (max_windows && windows > max_windows)
		windows = max_windows;
	if (!windows)
		return ERR_OK;
	enum err e = need_exec(t, why);
	const uint32_t b = t->fit.micro_batch; /* now it is settled */
	double sum = 0;
	for (uint64_t at = 0; !e && at < windows; at += b)
		e = validate_some(t, at, windows - at < b ? windows - at : b, &sum, why);
	if (e)
		return e;
	const struct manifest_split *split = &corpus_manifest(t->corpus)->validation;
	out->tokens = windows * seq;
	out->per_token = sum / (double)out->tokens;
	out->per_byte = out->per_token * (double)split->tokens / (double)split->text_bytes;
	return ERR_OK;
}

uint32_t trainer_shards(const struct trainer *t)
{
	return t->graph->n_shards;
}

uint64_t trainer_count(const struct trainer *t, uint32_t shard)
{
	return t->graph->shard_params[shard];
}

void trainer_read(struct trainer *t, uint32_t shard, enum params_part part, float *to)
{
	params_read(t->params, shard, part, 0, trainer_count(t, shard), to);
}

void trainer_write(struct trainer *t, uint32_t shard, enum params_part part, const float *from)
{
	params_write(t->params, shard, part, 0, trainer_count(t, shard), from);
}

#define PIECE 65536u /* elements copied at once between device and file */

void trainer_forget_moments(struct trainer *t)
{
	float *zero = alloc_must_zero(PIECE, sizeof *zero);
	for (uint32_t s = 0; s < trainer_shards(t); s++) {
		uint64_t n = trainer_count(t, s);
		for (uint64_t at = 0; at < n; at += PIECE) {
			uint64_t piece = n - at < PIECE ? n - at : PIECE;
			params_write(t->params, s, PARAMS_m, at, piece, zero);
			params_write(t->params, s, PARAMS_v, at, piece, zero);
		}
	}
	free(zero);
	t->steps = 0;
}

static const struct {
	enum params_part part;
	const char *name;
} saved[] = {{PARAMS_value, "param"}, {PARAMS_m, "adam_m"}, {PARAMS_v, "adam_v"}};
#define N_SAVED (sizeof saved / sizeof *saved)

static enum err save_part(
	struct trainer *t, struct statefile_out *to, uint32_t shard, size_t k, struct why *why)
{
	char name[STATEFILE_NAME_MAX];
	snprintf(name, sizeof name, "%s.%u", saved[k].name, shard);
	uint64_t n = trainer_count(t, shard);
	float *piece = alloc_must_zero(PIECE, sizeof *piece);
	enum err e = statefile_section(to, name, n * sizeof(float), why);
	for (uint64_t at = 0; !e && at < n; at += PIECE) {
		uint64_t m = n - at < PIECE ? n - at : PIECE;
		params_read(t->params, shard, saved[k].part, at, m, piece);
		e = statefile_put(to, piece, m * sizeof(float), why);
	}
	free(piece);
	return e;
}

enum err trainer_save(struct trainer *t, struct statefile_out *to, bool values, struct why *why)
{
	enum err e = statefile_add(to, "spec", t->spec->text, strlen(t->spec->text), why);
	for (uint32_t s = 0; !e && s < trainer_shards(t); s++)
		for (size_t k = values ? 0 : 1; !e && k < N_SAVED; k++)
			e = save_part(t, to, s, k, why);
	return e;
}

enum err trainer_load(struct trainer *t, const struct statefile *from, bool moments, uint64_t steps,
	struct why *why)
{
	for (uint32_t s = 0; s < trainer_shards(t); s++) {
		for (size_t k = 0; k < (moments ? N_SAVED : 1); k++) {
			char name[STATEFILE_NAME_MAX];
			const uint8_t *bytes;
			uint64_t n = trainer_count(t, s);
			snprintf(name, sizeof name, "%s.%u", saved[k].name, s);
			enum err e = statefile_find(from, name, n * sizeof(float), &bytes, why);
			if (e)
				return e;
			/* Sections are 8-byte aligned by the container's format. */
			params_write(t->params, s, saved[k].part, 0, n,
				(const float *)(const void *)bytes);
		}
	}
	t->steps = steps;
	return ERR_OK;
}

struct params *trainer_params(struct trainer *t)
{
	return t->params;
}

const struct graph *trainer_graph(const struct trainer *t)
{
	return t->graph;
}

void trainer_describe(const struct trainer *t, char *out, size_t size)
{
	t->backend->describe(t->device, out, size);
}
