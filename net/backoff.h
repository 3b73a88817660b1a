/*
 * How long to wait before the next try: doubled from least to most, half of it by chance, so that
 * the peers of a coordinator that was away do not come back in one moment.  Pure.
 */
#ifndef NET_BACKOFF_H
#define NET_BACKOFF_H
#include <stdint.h>

struct backoff {
	uint64_t seed; /* differs from process to process */
	uint64_t least_ns, most_ns;
	uint32_t failures; /* in a row */
	uint32_t tries;    /* all; the jitter's counter */
};

void backoff_init(struct backoff *b, uint64_t seed, uint64_t least_ns, uint64_t most_ns);
uint64_t backoff_next(struct backoff *b); /* after a failure: ns to wait */
void backoff_reset(struct backoff *b);    /* after a success */

#endif
