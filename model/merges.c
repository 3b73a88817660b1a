#include "model/merges.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

#define SHORT_MAX 96u /* about where the heap becomes faster */

static size_t merge_short(const struct pairs *p, uint32_t *id, size_t n)
{
	const struct pair *join[SHORT_MAX];
	for (size_t i = 0; i + 1 < n; i++)
		join[i] = pairs_find(p, id[i], id[i + 1]);
	while (n > 1) {
		size_t best = 0;
		for (size_t i = 1; i + 1 < n; i++)
			if (join[i]->rank < join[best]->rank)
				best = i;
		if (join[best]->rank == PAIRS_NEVER)
			break;
		id[best] = join[best]->id;
		n--;
		memmove(&id[best + 1], &id[best + 2], (n - best - 1) * sizeof *id);
		memmove(&join[best], &join[best + 1], (n - best - 1) * sizeof *join);
		if (best + 1 < n)
			join[best] = pairs_find(p, id[best], id[best + 1]);
		if (best > 0)
			join[best - 1] = pairs_find(p, id[best - 1], id[best]);
	}
	return n;
}

/* ---- long pieces */

#define NOWHERE UINT32_MAX

/* An id and its neighbours.  One that was merged into its left neighbour has rank PAIRS_NEVER and
 * is in no list. */
struct node {
	uint32_t id, prev, next;
	uint32_t rank; /* of the pair with the next one */
};

struct offer {
	uint32_t rank, at; /* true as long as node at has this rank */
};

struct heap {
	struct node *nodes;
	struct offer *offers;
	size_t n, cap;
};

static bool before(struct offer a, struct offer b)
{
	return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

/* Sets the rank of the pair that begins at the node, and offers it. */
static enum err offer(struct heap *h, const struct pairs *p, uint32_t at)
{
	struct node *node = &h->nodes[at];
	node->rank = node->next == NOWHERE ? PAIRS_NEVER
					   : pairs_find(p, node->id, h->nodes[node->next].id)->rank;
	if (node->rank == PAIRS_NEVER)
		return ERR_OK;
	if (h->n == h->cap) {
		void *more = alloc_try_resize(h->offers, 2 * h->cap, sizeof *h->offers);
		if (!more)
			return ERR_nomem;
		h->offers = more;
		h->cap *= 2;
	}
	struct offer o = {node->rank, at};
	size_t i = h->n++;
	for (; i > 0 && before(o, h->offers[(i - 1) / 2]); i = (i - 1) / 2)
		h->offers[i] = h->offers[(i - 1) / 2];
	h->offers[i] = o;
	return ERR_OK;
}

static struct offer take(struct heap *h)
{
	struct offer top = h->offers[0], o = h->offers[--h->n];
	size_t i = 0;
	for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
		if (child + 1 < h->n && before(h->offers[child + 1], h->offers[child]))
			child++;
		if (!before(h->offers[child], o))
			break;
		h->offers[i] = h->offers[child];
	}
	h->offers[i] = o;
	return top;
}

static enum err join(struct heap *h, const struct pairs *p, uint32_t at)
{
	struct node *left = &h->nodes[at], *right = &h->nodes[left->next];
	left->id = pairs_find(p, left->id, right->id)->id;
	left->next = right->next;
	right->rank = PAIRS_NEVER;
	if (left->next != NOWHERE)
		h->nodes[left->next].prev = at;
	enum err e = offer(h, p, at);
	return e || left->prev == NOWHERE ? e : offer(h, p, left->prev);
}

static enum err merge_all(struct heap *h, const struct pairs *p, const uint32_t *id, size_t n)
{
	for (uint32_t i = 0; i < n; i++)
		h->nodes[i] = (struct node){.id = id[i],
			.prev = i ? i - 1 : NOWHERE,
			.next = i + 1 < n ? i + 1 : NOWHERE};
	enum err e = ERR_OK;
	for (uint32_t i = 0; i < n && !e; i++)
		e = offer(h, p, i);
	while (h->n && !e) {
		struct offer o = take(h);
		if (h->nodes[o.at].rank == o.rank)
			e = join(h, p, o.at);
	}
	return e;
}

static enum err merge_long(const struct pairs *p, uint32_t *id, size_t *n)
{
	assert(*n < 1u << 31);
	struct heap h = {.cap = *n};
	h.nodes = alloc_try(*n, sizeof *h.nodes);
	h.offers = alloc_try(h.cap, sizeof *h.offers);
	enum err e = h.nodes && h.offers ? merge_all(&h, p, id, *n) : ERR_nomem;
	size_t left = 0;
	for (uint32_t at = 0; !e && at != NOWHERE; at = h.nodes[at].next)
		id[left++] = h.nodes[at].id;
	free(h.nodes);
	free(h.offers);
	if (!e)
		*n = left;
	return e;
}

enum err merges_apply(const struct pairs *p, uint32_t *id, size_t *n)
{
	if (*n > SHORT_MAX)
		return merge_long(p, id, n);
	*n = merge_short(p, id, *n);
	return ERR_OK;
}
