#include "peer/linkspeed.h"
#include <string.h>
#include "base/clock.h"

void linkspeed_add(struct linkspeed *l, const struct linkspeed_burst *object)
{
	struct linkspeed_burst *last = &l->last[0];
	if (!last->bytes || object->began_ns > last->ended_ns) {
		memmove(l->last + 1, l->last, (LINKSPEED_BURSTS - 1) * sizeof *last);
		*last = *object;
		return;
	}
	last->bytes += object->bytes;
	last->ended_ns = object->ended_ns;
	if (object->began_ns < last->began_ns)
		last->began_ns = object->began_ns;
	if (object->idle_ns < last->idle_ns)
		last->idle_ns = object->idle_ns;
}

static double burst_bits(const struct linkspeed_burst *b)
{
	uint64_t took = b->ended_ns - b->began_ns, moving = took - b->idle_ns;
	// A round trip that was measured at another time may be too long.
	if (b->idle_ns > took / 2)
		moving = took - took / 2;
	return b->bytes && moving ? 8 * (double)b->bytes / clock_seconds(moving) : 0;
}

double linkspeed_bits(const struct linkspeed *l)
{
	double best = 0;
	for (unsigned i = 0; i < LINKSPEED_BURSTS; i++)
		if (burst_bits(&l->last[i]) > best)
			best = burst_bits(&l->last[i]);
	return best;
}
