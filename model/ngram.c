#include "model/ngram.h"
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"

/* A context is the one or two bytes before, as a number; kinds counts the different bytes that were
 * seen after it. */
struct ngram {
	uint64_t n;
	uint32_t one[256];
	uint32_t two[1 << 16];
	uint32_t *three; /* 1 << 24 */
	uint16_t kinds_one[256], kinds_two[1 << 16];
	uint32_t kinds; /* different bytes at all */
	uint32_t last;  /* the last three bytes */
};

struct ngram *ngram_new(void)
{
	struct ngram *g = alloc_try(1, sizeof *g);
	if (!g)
		return NULL;
	g->three = alloc_try(1u << 24, sizeof *g->three);
	if (!g->three) {
		free(g);
		return NULL;
	}
	return g;
}

void ngram_free(struct ngram *g)
{
	if (!g)
		return;
	free(g->three);
	free(g);
}

void ngram_add(struct ngram *g, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	for (size_t i = 0; i < n && g->n < UINT32_MAX; i++) {
		g->last = (g->last << 8 | at[i]) & 0xffffff;
		g->kinds += g->one[at[i]]++ == 0;
		if (g->n >= 1 && g->two[g->last & 0xffff]++ == 0)
			g->kinds_one[g->last >> 8 & 0xff]++;
		if (g->n >= 2 && g->three[g->last]++ == 0)
			g->kinds_two[g->last >> 8]++;
		g->n++;
	}
}

/* How often something followed the context: the last one of the text has no follower. */
static uint64_t followed_one(const struct ngram *g, uint32_t context)
{
	return g->one[context] - (g->n >= 1 && (g->last & 0xff) == context);
}

static uint64_t followed_two(const struct ngram *g, uint32_t context)
{
	return g->two[context] - (g->n >= 2 && (g->last & 0xffff) == context);
}

/* Sum of -count ln(count / total) over the bytes after one context. */
static double row_nats(const uint32_t *row, uint64_t total)
{
	double sum = 0;
	for (unsigned i = 0; i < 256; i++)
		if (row[i])
			sum -= row[i] * log((double)row[i] / (double)total);
	return sum;
}

double ngram_entropy(const struct ngram *g, unsigned order)
{
	if (order < 1 || order > 3 || g->n < order)
		return 0;
	double sum = 0;
	if (order == 1)
		sum = row_nats(g->one, g->n);
	for (uint32_t c = 0; order == 2 && c < 256; c++)
		if (followed_one(g, c))
			sum += row_nats(&g->two[c << 8], followed_one(g, c));
	for (uint32_t c = 0; order == 3 && c < 1 << 16; c++)
		if (followed_two(g, c))
			sum += row_nats(&g->three[c << 8], followed_two(g, c));
	return sum / (double)(g->n - (order - 1));
}

/* (count + kinds * lower) / (total + kinds): the weight of the lower order is the number of kinds
 * seen after the context, that is, of how often something new came. */
static double mix(uint64_t count, uint64_t total, uint64_t kinds, double lower)
{
	if (total == 0)
		return lower;
	return ((double)count + (double)kinds * lower) / (double)(total + kinds);
}

double ngram_cost(const struct ngram *g, unsigned order, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	double sum = 0;
	uint32_t last = 0;
	for (size_t i = 0; i < n; i++) {
		last = (last << 8 | at[i]) & 0xffffff;
		double p = mix(g->one[at[i]], g->n, g->kinds, 1.0 / 256);
		uint32_t c = last >> 8 & 0xff;
		if (order >= 2 && i >= 1)
			p = mix(g->two[last & 0xffff], followed_one(g, c), g->kinds_one[c], p);
		c = last >> 8;
		if (order >= 3 && i >= 2)
			p = mix(g->three[last], followed_two(g, c), g->kinds_two[c], p);
		sum -= log(p);
	}
	return sum;
}
