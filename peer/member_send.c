/* What was cut, on its way to whom the plan names, or else to the coordinator, who takes it at any
 * time.  The bytes are kept until the round is listed: whoever has them may be lost with them. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "peer/member_parts.h"

#define LINK_PATIENCE (5 * CLOCK_SECOND) /* for a link to the aggregator */
#define DECLINED_MOST 2u                 /* for a cause that passes */

static void push(struct member *m, uint32_t shard, const uint8_t *key)
{
	const struct link_object o = {.kind = OBJECT_contribution, .bytes = m->sent[shard].bytes};
	m->pushes[shard] = link_push(m->link, key, &o);
}

static void send_coordinator(struct member *m, uint32_t shard)
{
	m->sent[shard].to = SENT_coordinator;
	push(m, shard, m->curve);
}

/* What is on its way there stops, if it has not arrived; and is counted anew. */
static void take_back(struct member *m, uint32_t shard)
{
	struct member_sent *s = &m->sent[shard];
	if (m->pushes[shard] && s->to != SENT_here)
		link_cancel(
			m->link, s->to == SENT_coordinator ? m->curve : s->key, m->pushes[shard]);
	m->pushes[shard] = 0;
	m->delivered -= s->delivered;
	s->delivered = false;
}

static void send_here(struct member *m, uint32_t shard)
{
	struct member_sent *s = &m->sent[shard];
	const struct aggregate_from from = {.ref = shard, .own = true};
	const size_t n = shared_len(s->bytes);
	uint8_t *copy = alloc_must(n);
	memcpy(copy, shared_data(s->bytes), n);
	s->to = SENT_here;
	m->pushes[shard] = 1; /* no ref of a link: it is with the aggregator's thread */
	aggregate_put(m->aggregate, &from, copy, n);
}

static void send_on(struct member *m, uint32_t shard, uint64_t now)
{
	struct member_sent *s = &m->sent[shard];
	const struct plan_peer *to = plan_aggregator(&m->plan, shard);
	const struct member_mesh *link = to ? member_mesh_number(m, to->member) : NULL;
	s->since_ns = now;
	s->declined = 0;
	if (to && to->member == m->number && m->aggregate) {
		send_here(m, shard);
	} else if (link) {
		s->to = SENT_aggregator;
		memcpy(s->key, link->key, sizeof s->key);
		push(m, shard, s->key);
	} else {
		send_coordinator(m, shard);
	}
}

void member_send(struct member *m, uint32_t shard, uint8_t *bytes, size_t len)
{
	struct member_sent *s = &m->sent[shard];
	if (s->bytes) /* the same again, since it was asked for again */
		take_back(m, shard);
	shared_drop(s->bytes);
	*s = (struct member_sent){.bytes = shared_new(bytes, len)};
	send_on(m, shard, clock_now_ns());
}

void member_send_end(struct member *m)
{
	for (uint32_t i = 0; i < m->spec->model.n_shards; i++) {
		take_back(m, i);
		shared_drop(m->sent[i].bytes);
		m->sent[i] = (struct member_sent){0};
	}
	m->delivered = m->refused = 0;
	m->again_ns = 0;
}

void member_send_begin(struct member *m)
{
	for (uint32_t i = 0; i < m->spec->model.n_shards; i++)
		m->sent[i].delivered = false;
	m->delivered = m->refused = 0;
	m->again_ns = 0;
}

/* Where it is, or on its way to, by the plan. */
static bool is_right(struct member *m, uint32_t shard)
{
	const struct member_sent *s = &m->sent[shard];
	const struct plan_peer *to = plan_aggregator(&m->plan, shard);
	if (!to || s->to == SENT_coordinator)
		return s->to == SENT_coordinator;
	if (s->to == SENT_here)
		return to->member == m->number;
	const struct member_mesh *link = member_mesh_number(m, to->member);
	return link && !memcmp(link->key, s->key, LINK_KEY);
}

void member_send_again(struct member *m, uint64_t now)
{
	for (uint32_t i = 0; i < m->spec->model.n_shards; i++) {
		if (!m->sent[i].bytes || is_right(m, i))
			continue;
		take_back(m, i);
		send_on(m, i, now);
	}
}

static void give_up(struct member *m, uint32_t shard, const char *why)
{
	member_log(m, 2, "shard %u of round %llu goes to the coordinator: %s", shard,
		(unsigned long long)m->plan.round, why);
	take_back(m, shard);
	send_coordinator(m, shard);
}

void member_send_turn(struct member *m, uint64_t now)
{
	for (uint32_t i = 0; m->sent && i < m->spec->model.n_shards; i++) {
		struct member_sent *s = &m->sent[i];
		const struct member_mesh *link;
		if (!m->pushes[i] || s->to != SENT_aggregator)
			continue;
		link = member_mesh_find(m, s->key);
		if (link && link->open)
			s->since_ns = now;
		else if (now - s->since_ns > LINK_PATIENCE)
			give_up(m, i, "there is no link to its aggregator");
	}
}

/* ---- answers */

/* Nothing is wrong with what was sent. */
static bool passes(enum err code)
{
	return code == ERR_full || code == ERR_nomem || code == ERR_io || code == ERR_busy;
}

/* The first one of a process is worth a line to everybody: it works. */
static void count_delivered(struct member *m, uint32_t shard)
{
	const uint32_t due = turns_shards(&m->spec->round, m->plan.round, m->spec->model.n_shards);
	m->pushes[shard] = 0;
	m->sent[shard].delivered = true;
	if (++m->delivered < due)
		return;
	backoff_reset(&m->again);
	member_log(m, m->contributed ? 3 : 1, "round %llu: contribution delivered",
		(unsigned long long)m->plan.round);
	m->contributed = true;
}

/* The aggregator may know less than the coordinator: it has an older roster, or another round. */
static void declined_by_aggregator(
	struct member *m, uint32_t shard, const struct why *why, uint64_t now)
{
	struct member_sent *s = &m->sent[shard];
	if (passes(why->code) && ++s->declined < DECLINED_MOST && s->to == SENT_aggregator) {
		push(m, shard, s->key);
		s->since_ns = now;
		return;
	}
	give_up(m, shard, why->text);
}

static void declined(struct member *m, uint32_t shard, const struct why *why, uint64_t now)
{
	if (m->sent[shard].to != SENT_coordinator) {
		declined_by_aggregator(m, shard, why, now);
		return;
	}
	m->pushes[shard] = 0;
	m->refused++;
	if (!passes(why->code))
		member_link_refusal(m, why->code, "a contribution", why->text);
	else if (!m->again_ns)
		m->again_ns = now + backoff_next(&m->again);
	if (passes(why->code))
		snprintf(m->status.last_refusal, sizeof m->status.last_refusal,
			"%.100s, at the coordinator; sent again until there is room", why->text);
}

/* The shard whose contribution this answer is about; n_shards: of one that is not asked about any
 * more, or was sent to somebody else meanwhile. */
static uint32_t shard_of(const struct member *m, const struct link_event *e)
{
	uint32_t i = 0;
	for (; i < m->spec->model.n_shards; i++) {
		const struct member_sent *s = &m->sent[i];
		const uint8_t *key = s->to == SENT_coordinator ? m->curve : s->key;
		if (m->pushes[i] == e->ref && s->to != SENT_here && !memcmp(key, e->key, LINK_KEY))
			break;
	}
	return i;
}

void member_send_answered(struct member *m, const struct link_event *e, uint64_t now)
{
	const uint32_t shard = shard_of(m, e);
	if (shard == m->spec->model.n_shards)
		return;
	if (e->mail.kind == LINK_delivered)
		count_delivered(m, shard);
	else
		declined(m, shard, &e->why, now);
}

void member_send_here(struct member *m, uint32_t shard, const struct why *why, uint64_t now)
{
	if (m->sent[shard].to != SENT_here || !m->pushes[shard])
		return;
	if (!why->code)
		count_delivered(m, shard);
	else
		declined(m, shard, why, now);
}
