#include "coordinator/hub_completion.h"
#include <math.h>
#include "base/clock.h"
#include "coordinator/hub_topology_parts.h"

void hub_completion_open(struct hub *h)
{
	struct hub_topology *t = h->topology;
	for (uint32_t i = 0; i < h->n_members; i++) {
		t->ways[i].cut_ns = 0;
		t->ways[i].waited = false;
	}
	t->completion = (struct hub_completion){.round = rounds_ask_round(h->rounds)};
}

static void cut(struct hub_way *w, uint64_t at_ns)
{
	if (!w->cut_ns || at_ns < w->cut_ns)
		w->cut_ns = at_ns;
}

void hub_completion_beat(struct hub *h, uint32_t member, const shoal_heartbeat *b, uint64_t now)
{
	struct hub_topology *t = h->topology;
	struct hub_completion *c = &t->completion;
	const uint64_t age = b->age_ms * CLOCK_MS;
	if (h->run.spec->round.overlap) {
		if (c->closed && b->delay_round == c->round && isfinite(b->delay_s))
			c->delay_s = fmax(c->delay_s, (double)b->delay_s);
	} else if (h->announced && b->round == h->announced && b->steps &&
		   b->steps_done >= b->steps && b->state != shoal_state_working) {
		cut(&t->ways[member], now > age ? now - age : now);
	}
}

void hub_completion_began(struct hub *h, uint32_t member, uint64_t began_ns)
{
	const struct rounds_member *m = rounds_ask_member(h->rounds, member);
	if (h->announced && m && m->assigned)
		cut(&h->topology->ways[member], began_ns);
}

void hub_completion_closed(struct hub *h)
{
	struct hub_topology *t = h->topology;
	struct hub_completion *c = &t->completion;
	c->closed = true;
	for (uint32_t i = 0; i < h->n_members; i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (!m || m->state != MEMBER_in)
			continue;
		c->spoilt |= !h->members[i].linked || !t->ways[i].cut_ns;
		c->cut_ns = c->cut_ns > t->ways[i].cut_ns ? c->cut_ns : t->ways[i].cut_ns;
		t->ways[i].waited = true;
		c->waited++;
	}
}

void hub_completion_standing(struct hub *h, uint32_t member, uint64_t now)
{
	struct hub_topology *t = h->topology;
	struct hub_completion *c = &t->completion;
	const uint64_t back = h->members[member].told.rtt_us * 1000ull / 2;
	if (!t->ways[member].waited)
		return;
	t->ways[member].waited = false;
	c->waited--;
	c->standing_ns = c->standing_ns > now - back ? c->standing_ns : now - back;
}

void hub_completion_spoil(struct hub *h)
{
	h->topology->completion.spoilt = true;
}

double hub_completion_s(const struct hub *h)
{
	const struct hub_completion *c = &h->topology->completion;
	if (h->run.spec->round.overlap)
		return c->delay_s;
	if (!c->closed || c->spoilt || c->waited || c->standing_ns <= c->cut_ns)
		return 0;
	return clock_seconds(c->standing_ns - c->cut_ns);
}
