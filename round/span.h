/*
 * Intervals of training sequence numbers.  A contribution names what it was trained on as up to
 * SPAN_MAX of them: the plan gives a peer first what others left over, then fresh numbers, and the
 * peer works through its list in order, so that what it did is a prefix of the list, and that
 * is what the receiver checks.  Pure.
 */
#ifndef ROUND_SPAN_H
#define ROUND_SPAN_H
#include <stdbool.h>
#include <stdint.h>

#define SPAN_MAX 4

struct span {
	uint64_t first, last; /* [first, last) */
};

/* How many numbers the n spans hold. */
uint64_t span_count(const struct span *s, uint32_t n);
/* The at-th number of the list; at < span_count. */
uint64_t span_at(const struct span *s, uint32_t n, uint64_t at);
/* Whether done (n_done spans) is what one gets by taking the first span_count(done) numbers of all.
 */
bool span_is_prefix(
	const struct span *done, uint32_t n_done, const struct span *all, uint32_t n_all);
/* The first count numbers of the list, and those after them: out has room for n spans; returns how
 * many it received. */
uint32_t span_head(const struct span *all, uint32_t n, uint64_t count, struct span *out);
uint32_t span_tail(const struct span *all, uint32_t n, uint64_t count, struct span *out);

#endif
