#include "coordinator/memberlist.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"

void memberlist_release(struct memberlist *l)
{
	free(l->at);
	*l = (struct memberlist){0};
}

void memberlist_add(struct memberlist *l, uint32_t member, uint64_t now)
{
	if (member >= ROUNDS_MEMBERS_MAX || memberlist_find(l, member))
		return;
	if (member >= l->cap) {
		uint32_t cap = member + 1 > 2 * l->cap ? member + 1 : 2 * l->cap;
		l->at = alloc_must_resize(l->at, cap, sizeof *l->at);
		memset(l->at + l->cap, 0, (cap - l->cap) * sizeof *l->at);
		l->cap = cap;
	}
	if (member >= l->n)
		l->n = member + 1;
	l->at[member] =
		(struct rounds_member){.known = true, .state = MEMBER_away, .since_ns = now};
	l->counts[MEMBER_away]++;
}

struct rounds_member *memberlist_find(const struct memberlist *l, uint32_t member)
{
	return member < l->n && l->at[member].known ? &l->at[member] : NULL;
}

void memberlist_move(struct memberlist *l, uint32_t member, enum member_state to, uint64_t now)
{
	struct rounds_member *m = &l->at[member];
	if (m->state == to || !memberstate_may(m->state, to))
		return;
	l->counts[m->state]--;
	l->counts[to]++;
	log_at(round, 2, "member %u: %s, was %s", member, memberstate_text(to),
		memberstate_text(m->state));
	m->state = to;
	m->since_ns = now;
}

uint32_t memberlist_welcome(const struct memberlist *l, uint64_t round)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->n; i++)
		n += l->at[i].state == MEMBER_ready && budget_welcome(&l->at[i].patience, round);
	return n;
}

uint32_t memberlist_applying(const struct memberlist *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->n; i++)
		n += l->at[i].was_in && l->at[i].state == MEMBER_syncing;
	return n;
}

uint32_t memberlist_near(const struct memberlist *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->n; i++)
		n += l->at[i].near && l->at[i].state == MEMBER_syncing;
	return n;
}

uint32_t memberlist_next_ready(const struct memberlist *l, uint32_t after)
{
	for (uint32_t k = 1; k <= l->n; k++) {
		uint32_t i = (after + k) % l->n;
		if (l->at[i].state == MEMBER_ready)
			return i;
	}
	return UINT32_MAX;
}
