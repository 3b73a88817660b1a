#include "coordinator/rounds_parts.h"

uint64_t rounds_ask_deadline(const struct rounds *r)
{
	uint64_t at = UINT64_MAX;
	if (r->state == ROUNDS_waiting &&
		r->members.counts[MEMBER_ready] >= r->spec->round.peers_min) {
		uint64_t late = memberlist_applying(&r->members) ? waits_settle(&r->waits) : 0,
			 new = memberlist_near(&r->members) ? waits_welcome(&r->waits) : 0;
		at = late > new ? late : new;
		at = at ? at : UINT64_MAX;
	}
	if (r->state == ROUNDS_finishing && r->asked_last)
		return waits_answer(&r->waits);
	uint64_t length = r->state == ROUNDS_open ? waits_length(&r->waits) : 0;
	if (r->state == ROUNDS_open && r->spec->round.overlap && !r->paused &&
		memberlist_welcome(&r->members, r->round))
		at = rounds_overdue(r);
	for (uint32_t i = 0; r->state == ROUNDS_open && i < r->members.n; i++) {
		const struct rounds_member *m = &r->members.at[i];
		if (m->assigned && !rounds_is_in(r, m) && rounds_patience(r, m, length) < at)
			at = rounds_patience(r, m, length);
	}
	return at;
}

enum rounds_state rounds_ask_state(const struct rounds *r)
{
	return r->state;
}

uint64_t rounds_ask_round(const struct rounds *r)
{
	return r->round;
}

uint32_t rounds_ask_members(const struct rounds *r)
{
	return r->members.n;
}

const struct rounds_member *rounds_ask_member(const struct rounds *r, uint32_t member)
{
	return memberlist_find(&r->members, member);
}

uint32_t rounds_ask_count(const struct rounds *r, enum member_state s)
{
	return r->members.counts[s];
}

uint64_t rounds_ask_cursor(const struct rounds *r)
{
	return r->pool.cursor;
}

const struct span *rounds_ask_pool(const struct rounds *r, size_t *n)
{
	*n = r->pool.n;
	return r->pool.at;
}

uint64_t rounds_ask_voided(const struct rounds *r)
{
	return r->voided;
}

uint64_t rounds_ask_planned_tokens(const struct rounds *r)
{
	return r->planned_tokens;
}

uint64_t rounds_ask_opened_ns(const struct rounds *r)
{
	return r->waits.opened_ns;
}

bool rounds_ask_paused(const struct rounds *r)
{
	return r->paused;
}

uint32_t rounds_ask_applying(const struct rounds *r, uint64_t *until_ns)
{
	uint32_t late = memberlist_applying(&r->members), new = memberlist_near(&r->members);
	*until_ns = late ? waits_settle(&r->waits) : waits_welcome(&r->waits);
	return late + new;
}

bool rounds_ask_asked_last(const struct rounds *r)
{
	return r->asked_last;
}
