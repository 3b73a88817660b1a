#include "coordinator/actions.h"
#include <stdlib.h>
#include "base/alloc.h"

void actions_release(struct actions *a)
{
	free(a->queue);
	*a = (struct actions){0};
}

void actions_push(struct actions *a, struct rounds_action action)
{
	if (a->at == a->n)
		a->at = a->n = 0;
	if (a->n == a->cap) {
		a->cap = a->cap ? 2 * a->cap : 16;
		a->queue = alloc_must_resize(a->queue, a->cap, sizeof *a->queue);
	}
	a->queue[a->n++] = action;
}

struct rounds_action actions_next(struct actions *a)
{
	return a->at == a->n ? (struct rounds_action){.kind = ROUNDS_none} : a->queue[a->at++];
}
