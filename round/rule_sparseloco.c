#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/rule.h"

static int compare(const void *a, const void *b)
{
	double x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* Clips to the median norm.  sqrt is exact to the last bit by IEEE 754, like a division. */
static enum err scale(const double *norm_squared, size_t count, double *to)
{
	double *sorted = alloc_try(count, sizeof *sorted);
	if (!sorted)
		return ERR_nomem;
	memcpy(sorted, norm_squared, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, compare);
	double median = sorted[(count - 1) / 2];
	free(sorted);
	for (size_t i = 0; i < count; i++)
		to[i] = norm_squared[i] <= median ? 1 : sqrt(median / norm_squared[i]);
	return ERR_OK;
}

const struct rule_row rule_sparseloco = {
	.name = "sparseloco", .per_sender = true, .scale = scale, .step = rule_descend};
