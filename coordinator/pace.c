#include "coordinator/pace.h"
#include <math.h>
#include "base/clock.h"

void pace_note(struct hub *h, const struct store_round *r, uint64_t now)
{
	h->sum.rounds++;
	h->sum.members += r->members;
	h->sum.bytes_up += r->bytes_up;
	h->sum.bytes_down += r->bytes_down;
	h->sum.merged += r->merged;
	h->pace[h->n_pace++ % HUB_PACE] = (struct hub_pace){now, r->total_tokens};
}

double pace_tokens_per_s(const struct hub *h)
{
	uint32_t n = h->n_pace < HUB_PACE ? h->n_pace : HUB_PACE;
	if (n < 2)
		return NAN;
	const struct hub_pace *first = &h->pace[(h->n_pace - n) % HUB_PACE],
			      *last = &h->pace[(h->n_pace - 1) % HUB_PACE];
	return (double)(last->tokens - first->tokens) / clock_seconds(last->at_ns - first->at_ns);
}

double pace_utilisation(const struct hub *h)
{
	double speeds = 0;
	for (uint32_t i = 0; i < h->n_members; i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (m && h->members[i].linked)
			speeds += m->speed;
	}
	return speeds > 0 ? pace_tokens_per_s(h) / speeds : NAN;
}

double pace_left_s(const struct hub *h)
{
	uint64_t tokens = ledger_tokens(h->run.ledger), total = h->run.spec->train.total_tokens;
	double rate = pace_tokens_per_s(h);
	return tokens >= total ? 0 : rate > 0 ? (double)(total - tokens) / rate : NAN;
}

double pace_bits_up(const struct hub *h)
{
	double values = (double)h->sum.members * (double)graph_params(h->run.graph);
	return values > 0 ? 8 * (double)h->sum.bytes_up / values : NAN;
}

double pace_bits_down(const struct hub *h)
{
	double values = (double)h->sum.rounds * (double)graph_params(h->run.graph);
	return values > 0 ? 8 * (double)h->sum.bytes_down / values : NAN;
}
