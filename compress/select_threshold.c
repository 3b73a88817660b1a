#include <math.h>
#include "compress/floats.h"
#include "compress/select.h"
#include "compress/topk.h"

/* The smallest magnitude that is normal and at least limit; FLOATS_INFINITE if none is. */
static uint32_t magnitude_from(double limit)
{
	float nearest = (float)limit;
	uint32_t from = floats_magnitude(nearest) + ((double)nearest < limit);
	return from < FLOATS_NORMAL ? FLOATS_NORMAL : from;
}

static uint32_t choose(const struct select_from *from, uint16_t *place)
{
	double squares = 0;
	for (uint32_t i = 0; i < from->len; i++)
		squares += (double)from->v[i] * (double)from->v[i];
	double limit = (double)from->threshold * sqrt(squares / from->len);
	return topk_select(from->v, from->len, from->k, magnitude_from(limit), place);
}

const struct select_row select_threshold = {
	.name = "threshold",
	.sends_places = true,
	.takes_k = true,
	.takes_threshold = true,
	.choose = choose,
};
