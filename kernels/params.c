#include "kernels/params.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"

#define PARTS 4
#define CHUNK 512 /* elements converted at once for a backend of doubles */

struct held {
	uint32_t shard;
	uint64_t n, trained, decay; /* elements; the first so many have gradients, and decay */
	struct mem *part[PARTS];
	void *kept; /* training: room for the elements that have no gradient, in reals */
};

/* A parameter of the graph, by tensor number; n is 0 for other tensors. */
struct slot {
	uint32_t shard;
	uint64_t offset, n;
	bool grad_begun;
};

struct params {
	const struct backend *backend;
	struct device *device;
	bool training;
	struct held *held;
	uint32_t *shards, n_held;
	struct slot *slots;
	uint32_t n_slots;
};

static struct held *find(const struct params *p, uint32_t shard)
{
	for (uint32_t i = 0; i < p->n_held; i++)
		if (p->held[i].shard == shard)
			return &p->held[i];
	return NULL;
}

/* ---- life */

static enum err check_shards(const struct params_config *c, struct why *why)
{
	for (uint32_t i = 0; c->shards && i < c->n_shards; i++)
		if (c->shards[i] >= c->graph->n_shards || (i && c->shards[i] <= c->shards[i - 1]))
			return err_why(why, ERR_range,
				"shard %u in the list of shards to hold: must be ascending and "
				"below %u",
				c->shards[i], c->graph->n_shards);
	return ERR_OK;
}

static void note_slots(struct params *p, const struct graph *g)
{
	for (uint32_t i = 0; i < g->n_tensors; i++) {
		const struct tensor *t = &g->tensors[i];
		if (t->role == TENSOR_param)
			p->slots[i] =
				(struct slot){t->shard, t->offset, shape_count(&t->shape), false};
	}
}

static enum err alloc_held(const struct params *p, struct held *h, uint32_t parts)
{
	size_t size = p->backend->real_size;
	if (p->training && h->n > h->trained) {
		h->kept = alloc_try(h->n - h->trained, size);
		if (!h->kept)
			return ERR_nomem;
	}
	for (uint32_t part = 0; part < parts; part++) {
		enum err e = p->backend->alloc(p->device, h->n * size, &h->part[part]);
		if (e)
			return e;
	}
	return ERR_OK;
}

static enum err fill(struct params *p, const struct params_config *c, uint64_t *bytes)
{
	const struct graph *g = c->graph;
	uint32_t n = c->shards ? c->n_shards : g->n_shards, parts = c->training ? PARTS : 1;
	p->slots = alloc_try(g->n_tensors, sizeof *p->slots);
	p->held = alloc_try(n, sizeof *p->held);
	p->shards = alloc_try(n, sizeof *p->shards);
	if (!p->slots || !p->held || !p->shards)
		return ERR_nomem;
	p->n_slots = g->n_tensors;
	p->n_held = n;
	note_slots(p, g);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t shard = p->shards[i] = c->shards ? c->shards[i] : i;
		p->held[i].shard = shard;
		p->held[i].n = g->shard_params[shard];
		p->held[i].trained = g->shard_trained[shard];
		p->held[i].decay = g->shard_decay[shard];
		*bytes += p->held[i].n * p->backend->real_size * parts;
	}
	enum err e = ERR_OK;
	for (uint32_t i = 0; i < n && !e; i++)
		e = alloc_held(p, &p->held[i], parts);
	return e;
}

uint64_t params_need(const struct backend *b, const struct graph *g, bool training)
{
	return graph_params(g) * b->real_size * (training ? PARTS : 1);
}

enum err params_new(const struct params_config *config, struct params **out, struct why *why)
{
	uint64_t bytes = 0;
	enum err e = check_shards(config, why);
	if (e)
		return e;
	struct params *p = alloc_try(1, sizeof *p);
	if (p) {
		p->backend = config->backend;
		p->device = config->device;
		p->training = config->training;
		e = fill(p, config, &bytes);
	}
	if (!p || e) {
		params_free(p);
		return err_why(why, ERR_nomem,
			"out of memory: parameters%s need %.1f MiB on the %s device; hold fewer "
			"shards or "
			"free memory",
			config->training ? ", gradient and moments" : "", (double)bytes / 1048576,
			config->backend->name);
	}
	*out = p;
	return ERR_OK;
}

void params_free(struct params *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->n_held && p->held; i++) {
		for (int part = 0; part < PARTS; part++)
			p->backend->free(p->device, p->held[i].part[part]);
		free(p->held[i].kept);
	}
	free(p->held);
	free(p->shards);
	free(p->slots);
	free(p);
}

/* ---- values in and out */

uint64_t params_count(const struct params *p, uint32_t shard)
{
	const struct held *h = find(p, shard);
	return h ? h->n : 0;
}

struct view params_view(
	const struct params *p, uint32_t shard, enum params_part part, uint64_t first)
{
	const struct held *h = find(p, shard);
	assert(h && h->part[part] && first <= h->n);
	return (struct view){h->part[part], first};
}

void params_read(struct params *p, uint32_t shard, enum params_part part, uint64_t first,
	uint64_t n, float *to)
{
	const struct backend *b = p->backend;
	struct view v = params_view(p, shard, part, first);
	if (b->real_size == sizeof *to) {
		b->read(p->device, v.mem, v.at * sizeof *to, to, n * sizeof *to);
		return;
	}
	double chunk[CHUNK];
	for (uint64_t done = 0; done < n; done += CHUNK) {
		uint64_t now = n - done < CHUNK ? n - done : CHUNK;
		b->read(p->device, v.mem, (v.at + done) * sizeof *chunk, chunk,
			now * sizeof *chunk);
		for (uint64_t i = 0; i < now; i++)
			to[done + i] = (float)chunk[i];
	}
}

void params_write(struct params *p, uint32_t shard, enum params_part part, uint64_t first,
	uint64_t n, const float *from)
{
	const struct backend *b = p->backend;
	struct view v = params_view(p, shard, part, first);
	if (b->real_size == sizeof *from) {
		b->write(p->device, v.mem, v.at * sizeof *from, from, n * sizeof *from);
		return;
	}
	double chunk[CHUNK];
	for (uint64_t done = 0; done < n; done += CHUNK) {
		uint64_t now = n - done < CHUNK ? n - done : CHUNK;
		for (uint64_t i = 0; i < now; i++)
			chunk[i] = (double)from[done + i];
		b->write(p->device, v.mem, (v.at + done) * sizeof *chunk, chunk,
			now * sizeof *chunk);
	}
}

enum err params_init(struct params *p, const struct graph *g, uint64_t seed)
{
	for (uint32_t i = 0; i < p->n_held; i++) {
		const struct held *h = &p->held[i];
		float *values = alloc_try(h->n + 1, sizeof *values);
		if (!values)
			return ERR_nomem;
		graph_init_shard(g, h->shard, seed, values);
		params_write(p, h->shard, PARAMS_value, 0, h->n, values);
		free(values);
	}
	return ERR_OK;
}

/* ---- a step */

void params_drop_grad(struct params *p)
{
	for (uint32_t i = 0; i < p->n_slots; i++)
		p->slots[i].grad_begun = false;
}

/* What no backward pass has written holds the last step's gradient. */
static void zero_unwritten(struct params *p)
{
	size_t size = p->backend->real_size;
	for (uint32_t i = 0; i < p->n_slots; i++) {
		const struct slot *s = &p->slots[i];
		const struct held *h = s->n && !s->grad_begun ? find(p, s->shard) : NULL;
		if (h && s->offset < h->trained)
			p->backend->zero(
				p->device, h->part[PARAMS_grad], s->offset * size, s->n * size);
	}
}

static void step_range(struct params *p, const struct held *h, struct adamw_call call,
	uint64_t first, uint64_t end)
{
	call.param = (struct view){h->part[PARAMS_value], first};
	call.grad = (struct view){h->part[PARAMS_grad], first};
	call.m = (struct view){h->part[PARAMS_m], first};
	call.v = (struct view){h->part[PARAMS_v], first};
	call.n = end - first;
	if (call.n)
		p->backend->adamw(p->device, &call);
}

static void step_shard(
	struct params *p, const struct held *h, const struct params_step *s, double norm)
{
	struct adamw_call call = {
		.lr = s->lr,
		.beta1 = s->beta1,
		.beta2 = s->beta2,
		.eps = s->eps,
		.weight_decay = s->weight_decay,
		.scale = s->clip > 0 && norm > s->clip ? s->clip / norm : 1,
		.step = s->step,
	};
	step_range(p, h, call, 0, h->decay);
	call.weight_decay = 0;
	step_range(p, h, call, h->decay, h->trained);
}

enum err params_adamw(struct params *p, const struct params_step *s, double *norms, struct why *why)
{
	assert(p->training && s->step > 0);
	double norm[GRAPH_SHARDS_MAX];
	enum err e = ERR_OK;
	zero_unwritten(p);
	/* All norms before the first change, so that a bad gradient changes nothing. */
	for (uint32_t i = 0; i < p->n_held; i++) {
		const struct held *h = &p->held[i];
		norm[i] = sqrt(p->backend->norm2(
			p->device, (struct view){h->part[PARAMS_grad], 0}, h->trained));
		if (!isfinite(norm[i]) && !e)
			e = err_why(why, ERR_not_finite,
				"the gradient of shard %u is not finite at step %llu; lower the "
				"learning "
				"rate or check the data",
				h->shard, (unsigned long long)s->step);
	}
	for (uint32_t i = 0; i < p->n_held; i++) {
		if (norms)
			norms[i] = norm[i];
		if (!e)
			step_shard(p, &p->held[i], s, norm[i]);
	}
	params_drop_grad(p);
	return e;
}

/* ---- running statistics */

void params_keep_buffers(struct params *p)
{
	size_t size = p->backend->real_size;
	for (uint32_t i = 0; i < p->n_held; i++) {
		const struct held *h = &p->held[i];
		if (h->kept)
			p->backend->read(p->device, h->part[PARAMS_value], h->trained * size,
				h->kept, (h->n - h->trained) * size);
	}
}

void params_restore_buffers(struct params *p)
{
	size_t size = p->backend->real_size;
	for (uint32_t i = 0; i < p->n_held; i++) {
		const struct held *h = &p->held[i];
		if (h->kept)
			p->backend->write(p->device, h->part[PARAMS_value], h->trained * size,
				h->kept, (h->n - h->trained) * size);
	}
}

/* ---- for executors */

const struct backend *params_backend(const struct params *p)
{
	return p->backend;
}

struct device *params_device(const struct params *p)
{
	return p->device;
}

bool params_training(const struct params *p)
{
	return p->training;
}

const uint32_t *params_shards(const struct params *p, uint32_t *n)
{
	*n = p->n_held;
	return p->shards;
}

enum err params_match(const struct params *p, const struct graph *g, struct why *why)
{
	for (uint32_t i = 0; i < g->n_tensors || i < p->n_slots; i++) {
		const struct tensor *t = i < g->n_tensors ? &g->tensors[i] : NULL;
		struct slot is = {0};
		if (t && t->role == TENSOR_param)
			is = (struct slot){t->shard, t->offset, shape_count(&t->shape), false};
		struct slot must = i < p->n_slots ? p->slots[i] : (struct slot){0};
		if (is.shard != must.shard || is.offset != must.offset || is.n != must.n)
			return err_why(why, ERR_shape,
				"the graph's tensor %u (%s) is not what the parameters were made "
				"for",
				i, t ? t->name : "none");
	}
	return ERR_OK;
}

bool params_grad_begun(struct params *p, uint32_t tensor)
{
	bool begun = p->slots[tensor].grad_begun;
	p->slots[tensor].grad_begun = true;
	return begun;
}
