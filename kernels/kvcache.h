/*
 * Keys and values of the tokens seen so far, for generation: one piece [2][B][capacity][kv_heads D]
 * per attention node.  Shared by the executors of one batch size (one for the prompt, one for the
 * single tokens that follow).
 */
#ifndef KERNELS_KVCACHE_H
#define KERNELS_KVCACHE_H
#include <stdint.h>
#include "base/err.h"
#include "kernels/backend.h"
#include "model/graph.h"

struct kvcache;

/* device is borrowed and outlives the object; g's sequence length does not matter. */
enum err kvcache_new(const struct backend *b, struct device *device, const struct graph *g,
	uint32_t capacity, struct kvcache **out, struct why *why) MUST_CHECK;
void kvcache_free(struct kvcache *c); /* NULL-safe */
uint32_t kvcache_capacity(const struct kvcache *c);
uint32_t kvcache_batch(const struct kvcache *c);
/* The piece of the i-th attention node of the whole graph. */
struct view kvcache_view(const struct kvcache *c, uint32_t i);

#endif
