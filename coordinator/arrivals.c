#include "coordinator/arrivals.h"
#include <stdlib.h>
#include <string.h>

/* Members that are alike arrive within milliseconds, until one is a step later than the others:
 * what it did is worth more than a tenth of the time that it took. */
#define LEAST 10

void arrivals_add(struct arrivals *a, uint64_t offset_ns)
{
	a->ns[a->next] = offset_ns;
	a->next = (a->next + 1) % ARRIVALS_KEPT;
	if (a->n < ARRIVALS_KEPT)
		a->n++;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof *ns, ascending);
	return ns[n / 2];
}

uint64_t arrivals_expected(const struct arrivals *a, uint64_t fallback, uint64_t floor)
{
	uint64_t ns[ARRIVALS_KEPT], expected = fallback;
	if (a->n >= 3) {
		memcpy(ns, a->ns, a->n * sizeof *ns);
		uint64_t middle = median(ns, a->n);
		for (size_t i = 0; i < a->n; i++)
			ns[i] = a->ns[i] > middle ? a->ns[i] - middle : middle - a->ns[i];
		const uint64_t spread = 3 * median(ns, a->n), least = middle / LEAST;
		expected = middle + (spread > least ? spread : least);
	}
	return expected > floor ? expected : floor;
}
