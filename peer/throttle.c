#include "peer/throttle.h"
#include <assert.h>
#include "base/clock.h"

#define CARRY ((int64_t)CLOCK_SECOND)
/* Longer than any step: what bounds sums of clock readings, whatever a clock may say. */
#define SPELL_MAX (86400 * CLOCK_SECOND)

void throttle_init(struct throttle *p, double share, uint64_t least_ns)
{
	assert(share >= THROTTLE_SHARE_LEAST && share <= 1);
	*p = (struct throttle){.share = share, .least_ns = least_ns};
}

/* How much of a spell was work. */
static uint64_t believed(struct throttle *p, uint64_t busy)
{
	uint64_t usual = p->usual_ns, limit = 2 * usual + CLOCK_SECOND;
	if (limit > SPELL_MAX)
		limit = SPELL_MAX;
	p->usual_ns = busy < limit ? busy : limit;
	return busy <= limit ? busy : usual;
}

static int64_t carried(int64_t owed, uint64_t idle)
{
	int64_t left = owed - (int64_t)(idle < INT64_MAX / 2 ? idle : INT64_MAX / 2);
	return left < -CARRY ? -CARRY : left > CARRY ? CARRY : left;
}

uint64_t throttle_wait(struct throttle *p, uint64_t now_ns, uint64_t busy_ns)
{
	/* Before the first spell nobody was limited, and idling earns nothing. */
	uint64_t passed = p->begun && now_ns > p->last_ns ? now_ns - p->last_ns : 0;
	p->owed_ns = carried(p->owed_ns, passed > busy_ns ? passed - busy_ns : 0);
	p->owed_ns += (int64_t)((double)believed(p, busy_ns) * (1 / p->share - 1));
	p->begun = true;
	p->last_ns = now_ns;
	const uint64_t owed = p->owed_ns > 0 ? (uint64_t)p->owed_ns : 0,
		       left = p->least_ns > busy_ns ? p->least_ns - busy_ns : 0;
	return owed > left ? owed : left;
}
