#include "compress/decoded.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

enum err decoded_init(struct decoded *d, size_t n, size_t count, bool sparse, struct why *why)
{
	*d = (struct decoded){.n = n, .count = count};
	// One more than needed: a sparse vector without values still has an index.
	d->value = alloc_try(count + 1, sizeof *d->value);
	if (sparse)
		d->index = alloc_try(count + 1, sizeof *d->index);
	if (d->value && (d->index || !sparse))
		return ERR_OK;
	decoded_release(d);
	return err_why(why, ERR_nomem, "no memory for %zu decoded values", count);
}

void decoded_release(struct decoded *d)
{
	if (!d)
		return;
	free(d->index);
	free(d->value);
	*d = (struct decoded){0};
}

void decoded_expand(const struct decoded *d, float *out)
{
	if (!d->index) {
		memcpy(out, d->value, d->n * sizeof *out);
		return;
	}
	memset(out, 0, d->n * sizeof *out);
	for (size_t i = 0; i < d->count; i++)
		out[d->index[i]] = d->value[i];
}

double decoded_norm_squared(const struct decoded *d)
{
	double sum = 0;
	for (size_t i = 0; i < d->count; i++)
		sum += (double)d->value[i] * (double)d->value[i];
	return sum;
}
