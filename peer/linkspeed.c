#include "peer/linkspeed.h"
#include <math.h>
#include <stdbool.h>
#include "base/clock.h"

/* Mostly round trips.  One that was measured at another time may be too long, so no more than half
 * of the time is taken for idle. */
static bool is_small(const struct linkspeed_burst *b)
{
	return b->idle_ns > (b->ended_ns - b->began_ns) / 2;
}

static double burst_bits(const struct linkspeed_burst *b)
{
	uint64_t took = b->ended_ns - b->began_ns;
	uint64_t moving = is_small(b) ? took - took / 2 : took - b->idle_ns;
	return b->bytes && moving ? 8 * (double)b->bytes / clock_seconds(moving) : 0;
}

/* What the newest burst, now that it is over, lets believe. */
static double believed(const struct linkspeed *l)
{
	const double bits = burst_bits(&l->last);
	if (!is_small(&l->last))
		return bits;
	return fmax(bits, fmin(2 * fmax(l->before, bits), LINKSPEED_HOPE * bits));
}

void linkspeed_add(struct linkspeed *l, const struct linkspeed_burst *object)
{
	struct linkspeed_burst *last = &l->last;
	if (!last->bytes || object->began_ns > last->ended_ns) {
		l->before = believed(l);
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

double linkspeed_bits(const struct linkspeed *l)
{
	return fmax(l->before, burst_bits(&l->last));
}
