#include "sim/events.h"
#include <stdlib.h>
#include "base/alloc.h"
#include "sim/letter.h"

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void events_put(struct events *e, struct event event)
{
	if (e->n == e->cap) {
		e->cap = e->cap ? 2 * e->cap : 256;
		e->heap = alloc_must_resize(e->heap, e->cap, sizeof *e->heap);
	}
	event.order = e->order++;
	size_t at = e->n++;
	for (; at && before(&event, &e->heap[(at - 1) / 2]); at = (at - 1) / 2)
		e->heap[at] = e->heap[(at - 1) / 2];
	e->heap[at] = event;
}

bool events_next(struct events *e, struct event *out)
{
	if (!e->n)
		return false;
	*out = e->heap[0];
	const struct event last = e->heap[--e->n];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < e->n; at = child) {
		if (child + 1 < e->n && before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!before(&e->heap[child], &last))
			break;
		e->heap[at] = e->heap[child];
	}
	e->heap[at] = last;
	return true;
}

void events_release(struct events *e)
{
	for (size_t i = 0; i < e->n; i++)
		letter_free(e->heap[i].letter);
	free(e->heap);
	*e = (struct events){0};
}
