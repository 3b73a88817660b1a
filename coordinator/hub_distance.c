#include "coordinator/hub_distance.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "coordinator/hub_link.h"
#include "coordinator/hub_topology_parts.h"

#define REACHED_FOR (600 * CLOCK_SECOND) /* what others saw counts for so long */
#define OLD (300 * CLOCK_SECOND)
#define SOON CLOCK_SECOND
#define AGAIN (20 * CLOCK_SECOND) /* where there is more to measure, or an answer is missing */
#define EVERY (250 * CLOCK_MS)
#define ASKED_MOST 16u /* members that are asked at a time */
#define TARGETS 8u
#define CHECKERS 2u
#define CHECKS 3u
#define KNOWN_ENOUGH 24u /* members measured by one */
#define BURST_GAP CLOCK_SECOND
#define BURST_LEAST 16384u
#define KEPT \
	(600 * CLOCK_SECOND) /* a capacity seen in small rounds does not replace a larger one */
/* A way that changed by so much is another way. */
#define MOVED_SHARE 0.5
#define MOVED_US 10000u

static struct hub_way *way(const struct hub *h, uint32_t member)
{
	return &h->topology->ways[member];
}

bool hub_distance_reached(const struct hub *h, uint32_t member, uint64_t now)
{
	const uint64_t at = way(h, member)->reached_ns;
	return at && now < at + REACHED_FOR;
}

/* ---- hearing */

void hub_distance_linked(struct hub *h, uint32_t member, uint64_t now)
{
	struct hub_way *w = way(h, member);
	w->probe_ns = w->check_ns = now + SOON;
	w->n_rtt = w->probed_us = 0;
	w->distrust_ns = 0; /* it may be another process, and another address */
	w->reached_ns = 0;
	w->checks = 0;
}

/* Two that the plan brings together send while others do. */
static bool are_busy(const struct hub *h, uint32_t a, uint32_t b)
{
	const struct hub_topology *t = h->topology;
	for (uint32_t s = 0; t->planned && s < t->plan.n_shards; s++)
		if (t->plan.aggregator[s] == a || t->plan.aggregator[s] == b)
			return true;
	const struct topology_node *x = t->planned ? topology_node(&t->plan, a) : NULL,
				   *y = t->planned ? topology_node(&t->plan, b) : NULL;
	return x && y && (x->relay == b || y->relay == a);
}

static void take_item(struct hub *h, uint32_t member, struct distance_pair *p)
{
	if (p->to == member || !members_at(h->run.members, p->to))
		return;
	p->together = are_busy(h, member, p->to);
	if (p->reached && p->at_ns > way(h, p->to)->reached_ns) {
		if (!way(h, p->to)->reached_ns)
			log_at(coord, 2, "member %u is reached at %s by member %u", p->to,
				hub_member(h, p->to)->address, member);
		way(h, p->to)->reached_ns = p->at_ns;
	}
	distance_note(h->topology->distance, member, p);
}

void hub_distance_links(struct hub *h, uint32_t member, const struct link_event *e, uint64_t now)
{
	const struct hub_refused r = {.what = "links", .member = member};
	struct why why;
	enum err err = ERR_OK;
	struct distance_pair p;
	if (e->payload_len % DISTANCE_ITEM)
		err = ERR_shape;
	for (size_t at = 0; !err && at < e->payload_len; at += DISTANCE_ITEM) {
		err = distance_item_read(e->payload + at, now, &p);
		if (!err)
			take_item(h, member, &p);
	}
	distance_settle(h->topology->distance, member);
	if (!err)
		return;
	err_why(&why, err, "member %u tells ways of which one is no number, or none at all",
		member);
	hub_refuse(h, &r, &why);
	hub_link_refusal(h, member, &r, why.code, why.text);
}

static uint32_t least_rtt(const struct hub_way *w)
{
	const uint32_t n = w->n_rtt < HUB_TOPOLOGY_RTTS ? w->n_rtt : HUB_TOPOLOGY_RTTS;
	uint32_t least = UINT32_MAX;
	for (uint32_t i = 0; i < n; i++)
		least = w->rtt_us[i] < least ? w->rtt_us[i] : least;
	return least;
}

/* Who was moved, or whose line was changed, is as far from the others as nobody knows. */
static void notice_move(struct hub_way *w, uint32_t rtt_us, uint64_t now)
{
	const uint32_t was = w->probed_us, by = rtt_us > was ? rtt_us - was : was - rtt_us;
	if (was && (by < MOVED_US || by < MOVED_SHARE * was))
		return;
	w->probed_us = rtt_us;
	if (!was)
		return;
	w->moved_ns = now;
	if (w->probe_ns > now + SOON)
		w->probe_ns = now + SOON;
}

void hub_distance_beat(struct hub *h, uint32_t member, const shoal_heartbeat *b, uint64_t now)
{
	struct hub_way *w = way(h, member);
	if (!b->rtt_us)
		return;
	w->rtt_us[w->n_rtt++ % HUB_TOPOLOGY_RTTS] = b->rtt_us;
	if (w->n_rtt % HUB_TOPOLOGY_RTTS && w->n_rtt != 2)
		return;
	const uint32_t rtt = least_rtt(w);
	const struct distance_pair p = {
		.to = DISTANCE_COORDINATOR, .rtt_s = rtt / 1e6, .at_ns = now, .together = true};
	distance_note(h->topology->distance, member, &p);
	distance_settle(h->topology->distance, member);
	notice_move(w, rtt, now);
}

/* ---- what objects took */

static void add_to(struct hub_bursts *b, uint64_t bytes, uint64_t began_ns, uint64_t now)
{
	if (!b->now.bytes || began_ns > b->now.ended_ns + BURST_GAP)
		b->now = (struct hub_burst){.began_ns = began_ns};
	b->now.bytes += bytes;
	b->now.ended_ns = now;
	if (began_ns < b->now.began_ns)
		b->now.began_ns = began_ns;
	if (b->now.bytes >= b->most.bytes)
		b->most = b->now;
}

static double rate_of(struct hub_bursts *b)
{
	const struct hub_burst most = b->most;
	*b = (struct hub_bursts){0};
	return most.bytes >= BURST_LEAST && most.ended_ns > most.began_ns
		       ? (double)most.bytes / clock_seconds(most.ended_ns - most.began_ns)
		       : 0;
}

void hub_distance_came(struct hub *h, uint32_t member, const struct link_event *e, uint64_t now)
{
	const uint64_t began = now > e->taken_ns ? now - e->taken_ns : 0;
	add_to(&way(h, member)->came, e->payload_len, began, now);
	add_to(&h->topology->came, e->payload_len, began, now);
}

void hub_distance_went(struct hub *h, uint32_t member, const struct link_event *e, uint64_t now)
{
	const uint64_t began = now > e->taken_ns ? now - e->taken_ns : 0;
	add_to(&way(h, member)->went, e->size, began, now);
	add_to(&h->topology->went, e->size, began, now);
}

/* By the star all bytes go through here: then the newest counts. */
static void renew(
	const struct hub_topology *t, double rate, uint64_t now, double *kept, uint64_t *at)
{
	const bool full = !t->planned || t->plan.star;
	if (rate <= 0 || (!full && rate < *kept && now < *at + KEPT))
		return;
	*kept = rate;
	*at = now;
}

void hub_distance_settle(struct hub *h, uint64_t now)
{
	struct hub_topology *t = h->topology;
	for (uint32_t i = MEMBERS_FIRST; i < h->n_members; i++) {
		const struct distance_pair p = {.to = DISTANCE_COORDINATOR,
			.up = rate_of(&t->ways[i].came),
			.down = rate_of(&t->ways[i].went),
			.at_ns = now,
			.together = true};
		if (p.up > 0 || p.down > 0)
			distance_note(t->distance, i, &p);
	}
	renew(t, rate_of(&t->went), now, &t->up, &t->up_ns);
	renew(t, rate_of(&t->came), now, &t->down, &t->down_ns);
}

/* ---- asking */

static bool listens(const struct hub *h, uint32_t member)
{
	return h->members[member].linked && h->members[member].address[0];
}

static void ask(struct hub *h, uint32_t member, const uint32_t *targets, uint32_t n)
{
	shoal_header header = {.which_body = MSG_probe};
	json_t *list = json_array();
	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(
			list, json_pack("{s:I, s:s}", "member", (json_int_t)targets[i], "address",
				      h->members[targets[i]].address));
	char *text = json_canonical(list);
	json_decref(list);
	struct shared *bytes = shared_copy(text, strlen(text));
	header.body.probe.count = n;
	link_send(h->link, members_at(h->run.members, member)->curve, &header, bytes);
	shared_drop(bytes);
	free(text);
	way(h, member)->turns++;
}

struct target {
	uint32_t member;
	bool known;
	double away_s; /* as far as can be guessed */
	uint32_t lot;
};

static int nearest_first(const void *a, const void *b)
{
	const struct target *x = a, *y = b;
	if (x->known != y->known)
		return x->known ? 1 : -1;
	return x->away_s != y->away_s ? (x->away_s > y->away_s ? 1 : -1)
				      : (x->member > y->member) - (x->member < y->member);
}

static int by_lot(const void *a, const void *b)
{
	const struct target *x = a, *y = b;
	return x->lot != y->lot ? (x->lot > y->lot ? 1 : -1)
				: (x->member > y->member) - (x->member < y->member);
}

/* Where nobody ever comes through nobody is sent any more, but for those who check. */
static bool may_listen(const struct hub *h, uint32_t member)
{
	const struct hub_way *w = way(h, member);
	return listens(h, member) && (w->reached_ns || w->checks < CHECKS);
}

/* Listening members whose way from this one is not known, or not any more; *known: of the others.
 */
static struct target *find_targets(
	const struct hub *h, uint32_t member, uint64_t now, uint32_t *n, uint32_t *known)
{
	const struct hub_topology *t = h->topology;
	struct target *all = NULL;
	const struct distance_place here = distance_place(t->distance, member);
	*n = *known = 0;
	for (uint32_t i = MEMBERS_FIRST; i < h->n_members; i++) {
		const struct distance_pair *p = distance_said(t->distance, member, i);
		if (i == member || !may_listen(h, i))
			continue;
		if (p && p->rtt_s > 0 && now < p->at_ns + OLD &&
			p->at_ns > t->ways[member].moved_ns && p->at_ns > t->ways[i].moved_ns) {
			(*known)++;
			continue;
		}
		const struct distance_place there = distance_place(t->distance, i);
		all = alloc_must_resize(all, *n + 1u, sizeof *all);
		all[(*n)++] = (struct target){.member = i,
			.known = p && p->rtt_s > 0,
			.away_s = distance_guess_s(&here, &there),
			.lot = rng_u32(member, t->ways[member].turns, i)};
	}
	return all;
}

static void ask_to_measure(struct hub *h, uint32_t member, uint64_t now)
{
	uint32_t n, known, chosen[TARGETS], n_chosen = 0;
	struct target *all = find_targets(h, member, now, &n, &known);
	if (n)
		qsort(all, n, sizeof *all, nearest_first);
	while (n_chosen < n && n_chosen < TARGETS / 2) {
		chosen[n_chosen] = all[n_chosen].member;
		n_chosen++;
	}
	const uint32_t near = n_chosen;
	if (n > near)
		qsort(all + near, n - near, sizeof *all, by_lot);
	while (n_chosen < n && n_chosen < TARGETS) {
		chosen[n_chosen] = all[n_chosen].member;
		n_chosen++;
	}
	if (n_chosen)
		ask(h, member, chosen, n_chosen);
	way(h, member)->probe_ns = now + (n && known < KNOWN_ENOUGH ? AGAIN : OLD / 5);
	free(all);
}

/* Somebody else has to connect to it before it is named to anybody. */
static void ask_to_check(struct hub *h, uint32_t member, uint64_t now)
{
	const uint32_t n = h->n_members, from = rng_u32(member, way(h, member)->turns++, 7) % n;
	const bool missing = !hub_distance_reached(h, member, now);
	uint32_t asked = 0;
	for (uint32_t i = 0; i < n && asked < (missing ? CHECKERS : 1); i++) {
		const uint32_t other = (from + i) % n;
		if (other == member || other < MEMBERS_FIRST || !h->members[other].linked)
			continue;
		ask(h, other, &member, 1);
		asked++;
	}
	const uint64_t wait = missing ? AGAIN * ++way(h, member)->checks : OLD;
	way(h, member)->check_ns = now + (wait < OLD ? wait : OLD);
}

void hub_distance_tick(struct hub *h, uint64_t now)
{
	uint32_t asked = 0;
	if (now < h->topology->tick_ns + EVERY)
		return;
	h->topology->tick_ns = now;
	for (uint32_t i = MEMBERS_FIRST; i < h->n_members && asked < ASKED_MOST; i++) {
		if (!h->members[i].linked)
			continue;
		if (now >= way(h, i)->probe_ns) {
			ask_to_measure(h, i, now);
			asked++;
		}
		if (h->members[i].address[0] && now >= way(h, i)->check_ns) {
			ask_to_check(h, i, now);
			asked++;
		}
	}
}
