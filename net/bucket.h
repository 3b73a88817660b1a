/* A token bucket: how many messages one sender may have taken, and how far it is beyond that; or
 * how many bytes may go. */
#ifndef NET_BUCKET_H
#define NET_BUCKET_H
#include <stdbool.h>
#include <stdint.h>

struct bucket {
	uint32_t per_s, burst;
	double level, debt;
	uint64_t filled_ns;
};

void bucket_init(struct bucket *b, uint32_t per_s, uint32_t burst); /* full */
/* Take one at this time.  false: none is left, which adds to the debt; a bucket that is half full
 * again forgets the debt. */
bool bucket_take(struct bucket *b, uint64_t now_ns);
/* The debt is more than so many bursts; asking forgets it when it is. */
bool bucket_flooded(struct bucket *b, uint32_t bursts);

/* Take n, whether they are there or not; what is missing the time to come pays, but for no longer
 * than owed_s. */
void bucket_spend(struct bucket *b, double n, double owed_s, uint64_t now_ns);
/* Until something is there; 0: now. */
uint64_t bucket_wait_ns(struct bucket *b, uint64_t now_ns);

#endif
