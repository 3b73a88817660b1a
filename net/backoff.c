#include "net/backoff.h"
#include "base/rng.h"

#define STREAM 2 /* of the seed; others of the same process take others */

void backoff_init(struct backoff *b, uint64_t seed, uint64_t least_ns, uint64_t most_ns)
{
	*b = (struct backoff){.seed = seed, .least_ns = least_ns, .most_ns = most_ns};
}

uint64_t backoff_next(struct backoff *b)
{
	uint64_t wait = b->least_ns;
	for (uint32_t i = 0; i < b->failures && wait > 0 && wait < b->most_ns; i++)
		wait = wait > UINT64_MAX / 2 ? UINT64_MAX : wait * 2;
	if (wait > b->most_ns)
		wait = b->most_ns;
	if (b->failures < UINT32_MAX)
		b->failures++;
	uint64_t half = wait / 2;
	return wait - half + (uint64_t)((double)half * rng_unit(b->seed, STREAM, b->tries++));
}

void backoff_reset(struct backoff *b)
{
	b->failures = 0;
}
