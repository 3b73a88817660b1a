#include "model/pairs.h"
#include <stdlib.h>
#include "base/alloc.h"
#include "base/rng.h"

enum err pairs_init(struct pairs *p, size_t n)
{
	size_t slots = 1024;
	while (slots < 2 * n)
		slots *= 2;
	p->slots = alloc_try(slots, sizeof *p->slots);
	if (!p->slots)
		return ERR_nomem;
	for (size_t i = 0; i < slots; i++)
		p->slots[i].rank = PAIRS_NEVER;
	p->mask = (uint32_t)(slots - 1);
	rng_secret(&p->secret, sizeof p->secret);
	return ERR_OK;
}

void pairs_release(struct pairs *p)
{
	free(p->slots);
	p->slots = NULL;
}

/* Where the pair is, or the free slot where it would be. */
static struct pair *probe(const struct pairs *p, uint32_t left, uint32_t right)
{
	uint64_t key = ((uint64_t)left << 32 | right) ^ p->secret;
	/* By 2^64 / golden ratio, which spreads neighbouring keys; twice, so that the secret moves
	 * each key another way. */
	key *= 0x9e3779b97f4a7c15ull;
	key = (key ^ key >> 32) * 0x9e3779b97f4a7c15ull;
	struct pair *at;
	for (uint32_t s = (uint32_t)(key >> 32);; s++) {
		at = &p->slots[s & p->mask];
		if (at->rank == PAIRS_NEVER || (at->left == left && at->right == right))
			return at;
	}
}

enum err pairs_add(struct pairs *p, const struct pair *pair, uint32_t *earlier)
{
	struct pair *at = probe(p, pair->left, pair->right);
	*earlier = at->rank;
	if (at->rank != PAIRS_NEVER)
		return ERR_duplicate;
	*at = *pair;
	return ERR_OK;
}

const struct pair *pairs_find(const struct pairs *p, uint32_t left, uint32_t right)
{
	return probe(p, left, right);
}
