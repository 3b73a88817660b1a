/*
 * Deadlines learned from what was seen, never typed: the offsets at which answers arrived in recent
 * rounds, and from them the moment by which the next ones can be expected: median + 3 x median
 * absolute deviation, which counts as a tenth of the median at least.  Pure.
 */
#ifndef COORDINATOR_ARRIVALS_H
#define COORDINATOR_ARRIVALS_H
#include <stddef.h>
#include <stdint.h>

#define ARRIVALS_KEPT 128

struct arrivals {
	uint64_t ns[ARRIVALS_KEPT];
	size_t n, next;
};

void arrivals_add(struct arrivals *a, uint64_t offset_ns);
/* fallback while fewer than three were seen; never less than floor. */
uint64_t arrivals_expected(const struct arrivals *a, uint64_t fallback, uint64_t floor);

#endif
