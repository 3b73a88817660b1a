#include <stdio.h>
#include <string.h>
#include "peer/member_parts.h"
#include "round/exchange.h"

/* What is known before any link is; false: nothing. */
static bool begin(struct member *m)
{
	struct exchange exchange;
	struct why why;
	if (m->rate.n)
		return true;
	if (exchange_find(m->spec, &exchange, &why))
		return false; /* the worker has said it */
	m->rate.most = exchange.codec;
	worker_rate(m->worker, &m->rate);
	return true;
}

void member_rate_object(struct member *m, const struct link_event *e, uint64_t now)
{
	bool up = e->mail.kind == LINK_delivered;
	/* The least ever: behind a burst's own bytes a round trip is longer. */
	if (e->rtt_ns && (!m->rtt_ns || e->rtt_ns < m->rtt_ns))
		m->rtt_ns = e->rtt_ns;
	const struct linkspeed_burst object = {.bytes = e->size,
		.began_ns = now > e->taken_ns ? now - e->taken_ns : 0,
		.ended_ns = now,
		/* begin waits for its credit, and what is sent for its answer, too */
		.idle_ns = up ? 2 * m->rtt_ns : m->rtt_ns};
	linkspeed_add(up ? &m->up : &m->down, &object);
}

void member_rate_cut(struct member *m)
{
	if (!m->rate.before.k)
		return;
	struct codec_params codec = m->rate.most;
	codec.k = m->rate.before.k;
	m->rate.ratio = 8 * (double)m->cut_bytes / (rate_bits(&codec) * (double)m->rate.n);
}

void member_rate_pick(struct member *m)
{
	char why[RATE_TEXT];
	if (m->plan.seconds <= 0 || !begin(m))
		return;
	if (!m->rate.peers)
		m->rate.peers = m->spec->round.peers_min;
	m->rate.round_s = m->plan.seconds;
	m->rate.up = linkspeed_bits(&m->up);
	m->rate.down = linkspeed_bits(&m->down);
	struct rate_rung rung = rate_pick(&m->rate, why);
	bool changes = rung.k != m->rate.before.k;
	m->rate.before = rung;
	worker_keep(m->worker, rung.k);
	snprintf(m->status.rate, sizeof m->status.rate, "%s", why);
	member_log(m, changes ? 1 : 3, "contributions: %s", why);
}
