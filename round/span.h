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
/* Cut the list after count numbers: head and tail receive at most n spans each. */
void span_split(const struct span *all, uint32_t n, uint64_t count, struct span *head,
	uint32_t *n_head, struct span *tail, uint32_t *n_tail);

#endif
