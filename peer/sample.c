#include "peer/sample.h"
#include <math.h>
#include <stdlib.h>

/* Most likely first, then by id, so that ties do not depend on the sort. */
static int more_likely(const void *a, const void *b, void *logits_p)
{
	const float *logits = logits_p;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (logits[x] != logits[y])
		return logits[x] > logits[y] ? -1 : 1;
	return x < y ? -1 : x > y;
}

static uint32_t largest(const float *logits, size_t n)
{
	uint32_t best = 0;
	for (uint32_t i = 1; i < n; i++)
		if (logits[i] > logits[best] || isnan(logits[best]))
			best = i;
	return best;
}

uint32_t sample_token(const float *logits, size_t n, const struct sample_config *config, double u,
	uint32_t *order)
{
	if (config->temperature <= 0)
		return largest(logits, n);
	size_t kept = 0;
	for (uint32_t i = 0; i < n; i++)
		if (!isnan(logits[i]))
			order[kept++] = i;
	if (!kept)
		return 0;
	qsort_r(order, kept, sizeof *order, more_likely, (void *)(uintptr_t)logits);
	if (config->top_k && config->top_k < kept)
		kept = config->top_k;

	double top = logits[order[0]], all = 0, sum = 0;
	for (size_t i = 0; i < kept; i++)
		all += exp((logits[order[i]] - top) / config->temperature);
	size_t last = 0;
	for (; last < kept; last++) {
		sum += exp((logits[order[last]] - top) / config->temperature);
		if (sum >= config->top_p * all)
			break;
	}
	double want = u * sum, at = 0;
	for (size_t i = 0; i < kept && i <= last; i++) {
		at += exp((logits[order[i]] - top) / config->temperature);
		if (want < at)
			return order[i];
	}
	return order[last < kept ? last : kept - 1];
}
