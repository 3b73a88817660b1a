/* Which sequence numbers go to whom: those that came back unfinished first, then fresh ones from
 * the cursor.  Pure. */
#ifndef COORDINATOR_SPANPOOL_H
#define COORDINATOR_SPANPOOL_H
#include <stddef.h>
#include <stdint.h>
#include "round/span.h"

struct spanpool {
	uint64_t cursor; /* the next number that was never handed out */
	struct span *at; /* came back; ascending, joined where they touch, so that the same holes
			    give the same plans */
	size_t n, cap;
};

void spanpool_release(struct spanpool *p);
void spanpool_return(struct spanpool *p, struct span s);
/* Takes count numbers and puts them behind the n spans that are there, at most SPAN_MAX in all;
 * returns how many spans there are.  The last place is kept for fresh numbers; where none is left,
 * nothing is taken. */
uint32_t spanpool_take(
	struct spanpool *p, uint64_t count, struct span spans[static SPAN_MAX], uint32_t n);

#endif
