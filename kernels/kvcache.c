#include "kernels/kvcache.h"
#include <assert.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "model/attention_form.h"

struct kvcache {
	const struct backend *backend;
	struct device *device;
	struct mem *mem;
	uint32_t batch, capacity, n;
	uint64_t *at; /* by attention node: first element */
};

static uint32_t count(const struct graph *g)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += g->nodes[i].op == OP_attention;
	return n;
}

static uint64_t width_of(const struct graph *g, uint32_t node)
{
	struct attention_form f = attention_form(g, &g->nodes[node]);
	return (uint64_t)f.kv_heads * f.size;
}

static enum err fill(struct kvcache *c, const struct graph *g, uint64_t *bytes)
{
	c->n = count(g);
	c->at = alloc_try((size_t)c->n + 1, sizeof *c->at);
	if (!c->at)
		return ERR_nomem;
	uint64_t total = 0;
	for (uint32_t i = 0, k = 0; i < g->n_nodes; i++) {
		if (g->nodes[i].op != OP_attention)
			continue;
		c->at[k++] = total;
		uint64_t rows = 2 * (uint64_t)c->batch, piece;
		if (__builtin_mul_overflow(rows, c->capacity, &piece) ||
			__builtin_mul_overflow(piece, width_of(g, i), &piece) ||
			piece > GRAPH_ELEMENTS_MAX)
			return ERR_nomem;
		total += piece;
	}
	*bytes = total * c->backend->real_size;
	return c->backend->alloc(c->device, *bytes, &c->mem);
}

enum err kvcache_new(const struct backend *b, struct device *device, const struct graph *g,
	uint32_t capacity, struct kvcache **out, struct why *why)
{
	uint64_t bytes = 0;
	struct kvcache *c = alloc_try(1, sizeof *c);
	enum err e = ERR_nomem;
	if (c) {
		*c = (struct kvcache){
			.backend = b, .device = device, .batch = g->batch, .capacity = capacity};
		e = fill(c, g, &bytes);
	}
	if (e) {
		kvcache_free(c);
		return err_why(why, e,
			"out of memory for the keys and values of %u sequences of %u tokens (%.1f "
			"MiB)",
			g->batch, capacity, (double)bytes / 1048576);
	}
	*out = c;
	return ERR_OK;
}

void kvcache_free(struct kvcache *c)
{
	if (!c)
		return;
	c->backend->free(c->device, c->mem);
	free(c->at);
	free(c);
}

uint32_t kvcache_capacity(const struct kvcache *c)
{
	return c->capacity;
}

uint32_t kvcache_batch(const struct kvcache *c)
{
	return c->batch;
}

struct view kvcache_view(const struct kvcache *c, uint32_t i)
{
	assert(i < c->n);
	return (struct view){c->mem, c->at[i]};
}
