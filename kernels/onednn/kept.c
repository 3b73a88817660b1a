#include "kernels/onednn/kept.h"
#include <string.h>

#define NEIGHBOURS 8u /* slots in which a key may lie */

static uint64_t hash(const struct kept_key *key)
{
	const uint64_t *word = (const uint64_t *)(const void *)key;
	uint64_t h = 0;
	for (size_t i = 0; i < sizeof *key / sizeof *word; i++)
		h = (h ^ word[i]) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
	return h;
}

static void release(struct kept *k)
{
	for (int i = 0; i < KEPT_MEMORIES; i++)
		dnnl_memory_destroy(k->memory[i]);
	dnnl_primitive_destroy(k->primitive);
	*k = (struct kept){0};
}

struct kept *kept_find(
	struct kept_table *t, const struct kept_key *key, kept_make_fn *make, dnnl_engine_t engine)
{
	uint64_t first = hash(key);
	struct kept *oldest = NULL;
	for (uint64_t i = 0; i < NEIGHBOURS; i++) {
		struct kept *k = &t->slots[(first + i) % KEPT_SLOTS];
		if (k->primitive && memcmp(&k->key, key, sizeof *key) == 0) {
			k->used = ++t->clock;
			return k;
		}
		if (!oldest || k->used < oldest->used)
			oldest = k;
	}
	if (oldest->primitive)
		release(oldest);
	oldest->key = *key;
	oldest->used = ++t->clock;
	make(oldest, engine);
	return oldest;
}

void kept_release(struct kept_table *t)
{
	for (uint32_t i = 0; i < KEPT_SLOTS; i++)
		if (t->slots[i].primitive)
			release(&t->slots[i]);
}
