/* Links to other members that this one opens: to aggregators and to sources of updates, as plans
 * name them, and for a moment to members that the way is to be measured to. */
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/version.h"
#include "peer/member_parts.h"

#define PROBE_ASKS 3u                     /* the least of so many round trips */
#define PROBE_EVERY (1200 * CLOCK_MS)     /* each by a new echo */
#define PROBE_PATIENCE (8 * CLOCK_SECOND) /* who is not reached by then is not */
#define REACHED_WITHIN (30 * CLOCK_SECOND)
#define LINKS_EVERY (5 * CLOCK_SECOND)  /* between two tellings */
#define LINKS_AGAIN (60 * CLOCK_SECOND) /* of what has not changed */
#define PROBES_MOST 64u
#define LINK_ITEM 24u /* bytes in links */
#define LINK_REACHED 1u

/* ---- the table */

struct member_mesh *member_mesh_find(struct member *m, const uint8_t *key)
{
	for (uint32_t i = 0; i < MEMBER_MESH; i++)
		if (m->mesh[i].used && !memcmp(m->mesh[i].key, key, LINK_KEY))
			return &m->mesh[i];
	return NULL;
}

struct member_mesh *member_mesh_number(struct member *m, uint32_t number)
{
	for (uint32_t i = 0; i < MEMBER_MESH; i++)
		if (m->mesh[i].used && m->mesh[i].number == number)
			return &m->mesh[i];
	return NULL;
}

static void say_hello(struct member *m, const struct member_mesh *p)
{
	shoal_hello h = {.number = m->number,
		.instance = m->config->identity->instance,
		.sequence = m->head.sequence,
		.follow = p->follow};
	snprintf(h.version, sizeof h.version, "%s", version_text());
	memcpy(h.run, m->spec->id.b, sizeof h.run);
	memcpy(h.head, m->head.hash.b, sizeof h.head);
	link_connect(m->link, p->key, p->address, &h);
}

static void forget(struct member *m, struct member_mesh *p)
{
	link_forget(m->link, p->key);
	p->used = false;
}

/* NULL: it is on no roster that this peer has, or the table is full. */
static struct member_mesh *open_link(
	struct member *m, const struct plan_peer *to, uint32_t follow, bool probe, uint64_t now)
{
	const struct roster_member *who = roster_by_number(m->roster, to->member);
	struct member_mesh *p = m->mesh;
	if (!who || who->removed)
		return NULL;
	while (p < m->mesh + MEMBER_MESH && p->used)
		p++;
	if (p == m->mesh + MEMBER_MESH)
		return NULL;
	*p = (struct member_mesh){.used = true,
		.follow = follow,
		.probe = probe,
		.number = to->member,
		.since_ns = now};
	memcpy(p->key, who->curve, sizeof p->key);
	snprintf(p->address, sizeof p->address, "%s", to->address);
	say_hello(m, p);
	return p;
}

/* ---- as plans say */

static void want(struct member *m, const struct plan_peer *to, uint32_t follow, uint64_t now)
{
	struct member_mesh *p = member_mesh_number(m, to->member);
	if (to->member == m->number)
		return;
	if (p && (strcmp(p->address, to->address) != 0 || p->probe ||
			 (follow && p->follow != follow))) {
		forget(m, p);
		p = NULL;
	}
	if (!p)
		p = open_link(m, to, follow, false, now);
	if (p)
		p->named = m->plan.round;
}

/* Of aggregators what they make is enough; who is none passes on what they make. */
static uint32_t follow_how(const struct plan *p)
{
	for (uint32_t i = 0; i < p->n_aggregators; i++) {
		uint32_t k = 0;
		while (k < p->n_sources && p->sources[k].member != p->aggregators[i].member)
			k++;
		if (k == p->n_sources && p->aggregators[i].member != p->member)
			return GIVE_all;
	}
	return GIVE_made;
}

void member_mesh_plan(struct member *m, uint64_t now)
{
	const uint32_t how = follow_how(&m->plan);
	for (uint32_t i = 0; m->link && i < m->plan.n_sources; i++)
		want(m, &m->plan.sources[i], how, now);
	for (uint32_t i = 0; m->link && i < m->plan.n_aggregators; i++)
		want(m, &m->plan.aggregators[i], 0, now);
	for (uint32_t i = 0; m->link && i < MEMBER_MESH; i++)
		if (m->mesh[i].used && !m->mesh[i].probe && m->mesh[i].named + 1 < m->plan.round)
			forget(m, &m->mesh[i]);
}

void member_mesh_end(struct member *m)
{
	for (uint32_t i = 0; m->link && i < MEMBER_MESH; i++)
		if (m->mesh[i].used)
			forget(m, &m->mesh[i]);
}

/* ---- what they tell */

static void measure(struct member_mesh *p, const struct link_event *e, uint64_t now)
{
	const bool up = e->mail.kind == LINK_delivered;
	const struct linkspeed_burst object = {.bytes = e->size,
		.began_ns = now > e->taken_ns ? now - e->taken_ns : 0,
		.ended_ns = now,
		.idle_ns = up ? 2 * p->rtt_ns : p->rtt_ns};
	if (!e->rtt_ns || !e->size)
		return;
	if (!p->rtt_ns || e->rtt_ns < p->rtt_ns)
		p->rtt_ns = e->rtt_ns;
	linkspeed_add(up ? &p->up : &p->down, &object);
	p->measured_ns = now;
}

static void on_object(struct member *m, struct member_mesh *p, struct link_event *e)
{
	switch (e->object_kind) {
	case OBJECT_update:
	case OBJECT_entry:
		if (p->follow) {
			member_update_object(m, e);
			return;
		}
		break;
	case OBJECT_bundle: member_aggregate_check(m, p, e); return;
	default: break;
	}
	link_answer(m->link, e->key, e->ref, ERR_refused, "this was not asked for");
}

static void on_message(
	struct member *m, struct member_mesh *p, const struct link_event *e, uint64_t now)
{
	if (e->header.which_body != MSG_refusal)
		return;
	if (!p->probe)
		member_aggregate_refused(m, p->number, &e->header.body.refusal);
	if (!p->probe || !e->rtt_ns)
		return;
	if (!p->rtt_ns || e->rtt_ns < p->rtt_ns)
		p->rtt_ns = e->rtt_ns;
	p->answered++;
	p->measured_ns = now;
}

void member_mesh_event(struct member *m, struct member_mesh *p, struct link_event *e, uint64_t now)
{
	switch ((enum link_event_kind)e->mail.kind) {
	case LINK_connected:
		p->open = true;
		p->measured_ns = now; /* that it is reached is worth to be told, */
		m->links_told_ns = 0; /* and at once */
		member_log(m, 2, "linked with member %u at %s%s", p->number, p->address,
			p->follow ? ", for its updates" : "");
		break;
	case LINK_lost:
	case LINK_waiting:
		if (p->open || m->plan.n_aggregators)
			member_log(m, 2, "no link to member %u at %s: %s", p->number, p->address,
				e->why.text);
		p->open = false;
		break;
	case LINK_message: on_message(m, p, e, now); break;
	case LINK_object:
		member_rate_object(m, e, now);
		measure(p, e, now);
		on_object(m, p, e);
		break;
	case LINK_delivered:
		member_rate_object(m, e, now);
		measure(p, e, now);
		member_send_answered(m, e, now);
		break;
	case LINK_declined: member_send_answered(m, e, now); break;
	case LINK_clone: break;
	}
}

/* ---- measuring */

static void begin_probe(struct member *m, const json_t *item, uint64_t now)
{
	struct plan_peer to = {
		.member = (uint32_t)json_integer_value(json_object_get(item, "member"))};
	const char *address = json_string_value(json_object_get(item, "address"));
	if (!json_is_integer(json_object_get(item, "member")) || !address || !address_ok(address) ||
		to.member == m->number || member_mesh_number(m, to.member))
		return;
	snprintf(to.address, sizeof to.address, "%s", address);
	(void)open_link(m, &to, 0, true, now);
}

void member_mesh_probe(struct member *m, const struct link_event *e, uint64_t now)
{
	json_t *list = NULL;
	struct why why;
	if (json_parse(e->payload, e->payload_len, MSG_LINKS_MAX, &list, &why))
		member_warn(m, "a list of members to measure is passed over: %s", why.text);
	for (size_t i = 0; i < json_array_size(list) && i < PROBES_MOST; i++)
		begin_probe(m, json_array_get(list, i), now);
	json_decref(list);
}

/* A question that is refused: the answer brings the round trip of the last echo. */
static void ask(struct member *m, struct member_mesh *p, uint64_t now)
{
	shoal_header h = {.which_body = MSG_want};
	p->asked_ns = now;
	p->asked++;
	link_send(m->link, p->key, &h, NULL);
}

static void put_link(struct buf *b, const struct member_mesh *p, uint64_t now)
{
	const double speed[2] = {linkspeed_bits(&p->up) / 8, linkspeed_bits(&p->down) / 8};
	const uint64_t us = p->rtt_ns / 1000, ms = (now - p->measured_ns) / CLOCK_MS;
	buf_put_u32(b, p->number);
	buf_put_u32(b, us < UINT32_MAX ? (uint32_t)us : UINT32_MAX);
	for (int i = 0; i < 2; i++) {
		const float f = (float)speed[i];
		uint32_t bits;
		memcpy(&bits, &f, sizeof bits);
		buf_put_u32(b, bits);
	}
	buf_put_u32(b, ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX);
	buf_put_u32(b, LINK_REACHED);
}

static void put_given(struct buf *b, const struct give_measured *g)
{
	const float speed[2] = {(float)(g->up / 8), (float)(g->down / 8)};
	buf_put_u32(b, g->member);
	buf_put_u32(b, 0);
	for (int i = 0; i < 2; i++) {
		uint32_t bits;
		memcpy(&bits, &speed[i], sizeof bits);
		buf_put_u32(b, bits);
	}
	buf_put_u32(b, 0);
	buf_put_u32(b, 0);
}

/* What has changed since it was told, or was told long ago. */
static void tell(struct member *m, uint64_t now)
{
	struct give_measured given;
	struct buf b;
	buf_init(&b, MSG_LINKS_MAX);
	for (uint32_t i = 0; i < MEMBER_MESH; i++) {
		struct member_mesh *p = &m->mesh[i];
		if (!p->used || !p->measured_ns ||
			(p->measured_ns <= p->told_ns && now - p->told_ns < LINKS_AGAIN))
			continue;
		if (p->probe && p->told_ns && p->answered < PROBE_ASKS)
			continue; /* that it is reached was told; the way when it is known */
		p->told_ns = now;
		put_link(&b, p, now);
	}
	for (uint32_t i = 0; give_measured(m->give, i, &given); i++)
		if ((given.up > 0 || given.down > 0) && b.len + LINK_ITEM <= MSG_LINKS_MAX)
			put_given(&b, &given);
	if (b.len) {
		shoal_header h = {.which_body = MSG_links};
		struct shared *payload = shared_copy(b.data, b.len);
		h.body.links.count = (uint32_t)(b.len / LINK_ITEM);
		link_send(m->link, m->curve, &h, payload);
		shared_drop(payload);
	}
	buf_release(&b);
}

static bool others(const struct member *m)
{
	size_t n = 0;
	for (size_t i = 0; i < roster_count(m->roster); i++)
		n += !roster_at(m->roster, i)->removed;
	return n > 1;
}

/* Nobody comes in at the address that others were told. */
static void say_alone(struct member *m, uint64_t now)
{
	if (!*give_address(m->give) || m->alone_said || give_reached(m->give))
		return;
	if (!m->alone_ns)
		m->alone_ns = others(m) ? now : 0;
	if (!m->alone_ns || now - m->alone_ns < REACHED_WITHIN)
		return;
	m->alone_said = true;
	member_warn(m,
		"no other peer has reached %s within half a minute: a NAT or a firewall is in the "
		"way, or it is an address that only this machine knows; open or forward that port, "
		"or give another --listen; training goes on without it",
		give_address(m->give));
}

void member_mesh_turn(struct member *m, uint64_t now)
{
	if (!m->linked)
		return;
	say_alone(m, now);
	for (uint32_t i = 0; i < MEMBER_MESH; i++) {
		struct member_mesh *p = &m->mesh[i];
		if (!p->used || !p->probe)
			continue;
		if ((p->told_ns >= p->measured_ns && p->answered >= PROBE_ASKS) ||
			(!p->open && now - p->since_ns > PROBE_PATIENCE))
			forget(m, p);
		else if (p->open && p->asked < 2 * PROBE_ASKS && p->answered < PROBE_ASKS &&
			 now - (p->asked_ns ? p->asked_ns : p->since_ns) > PROBE_EVERY)
			ask(m, p, now);
		else if (now - p->since_ns > 4 * PROBE_PATIENCE)
			forget(m, p);
	}
	if (now - m->links_told_ns < LINKS_EVERY)
		return;
	m->links_told_ns = now;
	tell(m, now);
}
