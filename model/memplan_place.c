#include <stdlib.h>
#include "base/alloc.h"
#include "model/memplan.h"

static int by_size(const void *a, const void *b)
{
	const struct memplan_piece *const *x = a, *const *y = b;
	if ((*x)->size != (*y)->size)
		return (*x)->size > (*y)->size ? -1 : 1;
	return *x < *y ? -1 : 1; /* the same plan everywhere, whatever qsort does */
}

static bool meet(const struct memplan_piece *a, const struct memplan_piece *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/* Insert p into placed, which is kept sorted by offset, at the first gap that is free for p's life.
 * The end of every earlier neighbour in time is where the next gap may start. */
static void place(struct memplan_piece **placed, uint32_t n, struct memplan_piece *p)
{
	uint64_t at = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct memplan_piece *q = placed[i];
		if (!meet(p, q))
			continue;
		if (q->offset >= at + p->size)
			break;
		if (q->offset + q->size > at)
			at = q->offset + q->size;
	}
	p->offset = at;
	uint32_t i = n;
	for (; i > 0 && placed[i - 1]->offset > at; i--)
		placed[i] = placed[i - 1];
	placed[i] = p;
}

enum err memplan_place(struct memplan_piece *pieces, uint32_t n, uint64_t *total)
{
	*total = 0;
	struct memplan_piece **order = alloc_try(2 * (size_t)n + 1, sizeof *order);
	if (!order)
		return ERR_nomem;
	struct memplan_piece **placed = order + n;
	for (uint32_t i = 0; i < n; i++)
		order[i] = &pieces[i];
	qsort(order, n, sizeof *order, by_size);
	for (uint32_t i = 0; i < n; i++) {
		place(placed, i, order[i]);
		if (order[i]->offset + order[i]->size > *total)
			*total = order[i]->offset + order[i]->size;
	}
	free(order);
	return ERR_OK;
}
