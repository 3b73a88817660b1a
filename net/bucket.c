#include "net/bucket.h"
#include "base/clock.h"

void bucket_init(struct bucket *b, uint32_t per_s, uint32_t burst)
{
	*b = (struct bucket){.per_s = per_s, .burst = burst, .level = burst};
}

static void fill(struct bucket *b, uint64_t now_ns)
{
	if (now_ns > b->filled_ns) {
		b->level += clock_seconds(now_ns - b->filled_ns) * b->per_s;
		b->filled_ns = now_ns;
	}
	if (b->level > b->burst)
		b->level = b->burst;
}

bool bucket_take(struct bucket *b, uint64_t now_ns)
{
	fill(b, now_ns);
	if (b->level < 1) {
		b->debt += 1;
		return false;
	}
	b->level -= 1;
	if (b->level > b->burst / 2.0)
		b->debt = 0;
	return true;
}

bool bucket_flooded(struct bucket *b, uint32_t bursts)
{
	if (b->debt <= (double)bursts * b->burst)
		return false;
	b->debt = 0;
	return true;
}

void bucket_spend(struct bucket *b, double n, double owed_s, uint64_t now_ns)
{
	fill(b, now_ns);
	b->level -= n;
	if (b->level < -owed_s * b->per_s)
		b->level = -owed_s * b->per_s;
}

uint64_t bucket_wait_ns(struct bucket *b, uint64_t now_ns)
{
	fill(b, now_ns);
	return b->level > 0 ? 0 : (uint64_t)(-b->level / b->per_s * CLOCK_SECOND) + 1;
}
