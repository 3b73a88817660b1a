#include "coordinator/spanpool.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

void spanpool_release(struct spanpool *p)
{
	free(p->at);
	*p = (struct spanpool){0};
}

static int by_first(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return x->first < y->first ? -1 : x->first > y->first;
}

void spanpool_return(struct spanpool *p, struct span s)
{
	if (s.first >= s.last)
		return;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 16;
		p->at = alloc_must_resize(p->at, p->cap, sizeof *p->at);
	}
	p->at[p->n++] = s;
	qsort(p->at, p->n, sizeof *p->at, by_first);
	size_t n = 1;
	for (size_t i = 1; i < p->n; i++) {
		if (p->at[n - 1].last == p->at[i].first)
			p->at[n - 1].last = p->at[i].last;
		else
			p->at[n++] = p->at[i];
	}
	p->n = n;
}

/* The pieces that touch are one. */
static uint32_t append(struct span *spans, uint32_t n, struct span s)
{
	if (n && spans[n - 1].last == s.first) {
		spans[n - 1].last = s.last;
		return n;
	}
	spans[n] = s;
	return n + 1;
}

uint32_t spanpool_take(
	struct spanpool *p, uint64_t count, struct span spans[static SPAN_MAX], uint32_t n)
{
	if (n == SPAN_MAX)
		return n;
	while (count && p->n && n + 1 < SPAN_MAX) {
		struct span *s = &p->at[0];
		uint64_t take = s->last - s->first < count ? s->last - s->first : count;
		n = append(spans, n, (struct span){s->first, s->first + take});
		s->first += take;
		count -= take;
		if (s->first == s->last)
			memmove(s, s + 1, --p->n * sizeof *s);
	}
	if (count) {
		n = append(spans, n, (struct span){p->cursor, p->cursor + count});
		p->cursor += count;
	}
	return n;
}
