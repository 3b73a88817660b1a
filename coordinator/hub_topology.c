#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"
#include "coordinator/hub_completion.h"
#include "coordinator/hub_distance.h"
#include "coordinator/hub_topology_parts.h"
#include "round/turns.h"

#define DISTRUST (120 * CLOCK_SECOND)
#define PAIRS_ALL 65536u /* of all members, in one plan: the newest of each */
#define PAIRS_LEAST 9u
#define SLOWER_MOST 20.0

struct hub_topology *hub_topology_new(void)
{
	struct hub_topology *t = alloc_must_zero(1, sizeof *t);
	for (uint32_t i = 0; i < GRAPH_SHARDS_MAX; i++)
		t->aggregator[i] = MEMBERS_NONE;
	t->distance = distance_new();
	return t;
}

void hub_topology_free(struct hub_topology *t)
{
	if (!t)
		return;
	distance_free(t->distance);
	topology_in_release(&t->in);
	topology_plan_release(&t->plan);
	free(t);
}

/* ---- what is known */

static bool is_reachable(const struct hub *h, uint32_t member, uint64_t now)
{
	const struct hub_way *w = &h->topology->ways[member];
	const struct hub_member *m = &h->members[member];
	return m->linked && m->address[0] && !w->banned && now >= w->distrust_ns &&
	       hub_distance_reached(h, member, now);
}

static void collect_members(const struct hub *h, uint64_t now, struct topology_in *in)
{
	const struct hub_topology *t = h->topology;
	in->members = alloc_must_zero(h->n_members + 1u, sizeof *in->members);
	for (uint32_t i = MEMBERS_FIRST; i < h->n_members; i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (!h->members[i].linked || !m || !m->assigned)
			continue;
		const struct distance_place place = distance_place(t->distance, i);
		const struct topology_node *was = t->planned ? topology_node(&t->plan, i) : NULL;
		struct topology_member *to = &in->members[in->n_members++];
		*to = (struct topology_member){.number = i,
			.reachable = is_reachable(h, i, now),
			.placed = place.error < 1,
			.before_relay = was ? was->relay : TOPOLOGY_COORDINATOR};
		memcpy(to->at, place.at, sizeof to->at);
		to->height = place.height;
	}
}

static int newest_first(const void *a, const void *b)
{
	const struct topology_pair *x = a, *y = b;
	return x->age_s != y->age_s ? (x->age_s > y->age_s ? 1 : -1)
				    : (x->to > y->to) - (x->to < y->to);
}

static bool is_in(const struct topology_in *in, uint32_t member)
{
	uint32_t first = 0, end = in->n_members;
	while (first < end) {
		const uint32_t mid = first + (end - first) / 2;
		if (in->members[mid].number < member)
			first = mid + 1;
		else
			end = mid;
	}
	return first < in->n_members && in->members[first].number == member;
}

/* Those of one member that matter, the newest of them; how many. */
static uint32_t collect_of(const struct hub *h, const struct topology_in *in, uint32_t member,
	uint64_t now, struct topology_pair out[static DISTANCE_PAIRS])
{
	size_t said;
	uint32_t n = 0;
	const struct distance_pair *p = distance_pairs(h->topology->distance, member, &said);
	for (size_t k = 0; k < said; k++) {
		if (p[k].to != DISTANCE_COORDINATOR && !is_in(in, p[k].to))
			continue;
		out[n++] = (struct topology_pair){.from = member,
			.to = p[k].to == DISTANCE_COORDINATOR ? TOPOLOGY_COORDINATOR : p[k].to,
			.rtt_s = p[k].rtt_s,
			.up = p[k].up,
			.down = p[k].down,
			.age_s = now > p[k].at_ns ? clock_seconds(now - p[k].at_ns) : 0,
			.together = p[k].together};
	}
	if (n)
		qsort(out, n, sizeof *out, newest_first);
	return n;
}

static void collect_pairs(const struct hub *h, uint64_t now, struct topology_in *in)
{
	uint32_t each = in->n_members ? PAIRS_ALL / in->n_members : 0;
	each = each < PAIRS_LEAST ? PAIRS_LEAST : each;
	in->pairs = alloc_must_zero((size_t)in->n_members * DISTANCE_PAIRS + 1u, sizeof *in->pairs);
	for (uint32_t i = 0; i < in->n_members; i++) {
		struct topology_pair kept[DISTANCE_PAIRS];
		const uint32_t n = collect_of(h, in, in->members[i].number, now, kept);
		for (uint32_t k = 0; k < n && k < each; k++)
			in->pairs[in->n_pairs++] = kept[k];
	}
}

static void collect_shards(const struct hub *h, struct topology_in *in)
{
	const struct hub_topology *t = h->topology;
	const uint64_t round = rounds_ask_round(h->rounds);
	in->n_shards = h->run.files.n_shards;
	in->shards = alloc_must_zero(in->n_shards + 1u, sizeof *in->shards);
	in->before = t->planned && !t->plan.star;
	for (uint32_t s = 0; s < in->n_shards; s++) {
		if (turns_has(&h->run.spec->round, round, s))
			in->shards[s] = t->shards[s];
		in->shards[s].before = t->planned ? t->plan.aggregator[s] : TOPOLOGY_COORDINATOR;
	}
}

static struct topology_in collect(const struct hub *h, uint64_t now)
{
	const struct hub_topology *t = h->topology;
	struct topology_in in = {
		.mode = h->config.plan, .up = t->up, .down = t->down, .slower = t->slower};
	memcpy(&in.seed, h->run.spec->id.b, sizeof in.seed);
	in.seed &= INT64_MAX;
	collect_members(h, now, &in);
	collect_pairs(h, now, &in);
	collect_shards(h, &in);
	return in;
}

/* ---- rounds as they were predicted, and as they were */

static void remember(struct hub_topology *t, double measured_s)
{
	struct hub_completed *c = &t->rounds[t->n_rounds % HUB_TOPOLOGY_ROUNDS];
	if (!t->planned || !t->completion.closed)
		return;
	*c = (struct hub_completed){.round = t->completion.round,
		.star = t->plan.star,
		.predicted_s = t->plan.time.total_s,
		.measured_s = measured_s};
	t->n_rounds++;
	trace_event("completion", "{s:I, s:b, s:f, s:f}", "round", (json_int_t)c->round, "star",
		c->star, "predicted", c->predicted_s, "measured", c->measured_s);
}

/* What the round took is compared with what its plan promises by what is known now: else the first
 * round of a plan would be blamed for what nobody had measured before it. */
static void learn(struct hub *h, struct topology_in *in)
{
	struct hub_topology *t = h->topology;
	const double measured = hub_completion_s(h);
	struct topology_time now;
	remember(t, measured);
	if (!t->planned || measured <= 0 || !topology_judge(in, &now) || now.total_s <= 0)
		return;
	double *slower = t->plan.star ? &t->slower.star : &t->slower.peers;
	const double ratio = fmin(SLOWER_MOST, fmax(1 / SLOWER_MOST, measured / now.total_s));
	*slower = *slower > 0 ? (*slower + ratio) / 2 : ratio;
	in->slower = t->slower;
}

void hub_topology_closed(struct hub *h, const struct desk_close *c)
{
	struct hub_topology *t = h->topology;
	double values = 0;
	hub_completion_closed(h);
	for (uint32_t s = 0; s < c->n_shards; s++)
		values += (double)c->counts[s] * (double)h->run.files.n[s];
	for (uint32_t s = 0; s < c->n_shards; s++) {
		if (!c->counts[s])
			continue;
		const double one = (double)h->contributed * (double)h->run.files.n[s] / values;
		const bool merged = c->out[s].entry.kind == UPDATE_merged;
		t->aggregated += t->aggregator[s] != MEMBERS_NONE;
		t->shards[s] = (struct topology_shard){.contribution = one,
			.update = (double)shared_len(c->out[s].record),
			.bundle = merged ? one * c->counts[s] : 0};
	}
}

/* ---- planning */

void hub_topology_open(struct hub *h, uint64_t now)
{
	struct hub_topology *t = h->topology;
	hub_distance_settle(h, now);
	struct topology_in in = collect(h, now);
	learn(h, &in);
	topology_in_release(&t->in);
	topology_plan_release(&t->plan);
	t->in = in;
	topology_make(&t->in, &t->plan);
	t->planned = true;
	for (uint32_t i = 0; i < h->n_members; i++)
		t->ways[i].follows = false;
	for (uint32_t s = 0; s < h->run.files.n_shards; s++)
		t->aggregator[s] = t->plan.aggregator[s];
	hub_completion_open(h);
	log_at(coord, 3, "round %llu: %s", (unsigned long long)rounds_ask_round(h->rounds),
		t->plan.reason);
}

static uint8_t name_peer(const struct hub *h, uint32_t member, struct plan_peer *list, uint32_t *n)
{
	uint32_t i = 0;
	while (i < *n && list[i].member != member)
		i++;
	if (i == PLAN_PEERS_MAX)
		return PLAN_COORDINATOR;
	if (i == *n) {
		list[i].member = member;
		snprintf(list[i].address, sizeof list[i].address, "%s", h->members[member].address);
		(*n)++;
	}
	return (uint8_t)i;
}

void hub_topology_fill(struct hub *h, uint32_t member, struct plan *p)
{
	struct hub_topology *t = h->topology;
	const struct topology_node *node = t->planned ? topology_node(&t->plan, member) : NULL;
	const uint32_t relay =
		node && node->relay != TOPOLOGY_COORDINATOR && h->members[node->relay].linked
			? node->relay
			: MEMBERS_NONE;
	plan_star(p);
	for (uint32_t i = 0; i < h->run.files.n_shards; i++) {
		const uint32_t a = t->aggregator[i];
		if (a == MEMBERS_NONE)
			continue;
		p->aggregator[i] = name_peer(h, a, p->aggregators, &p->n_aggregators);
		if (a != member && relay == MEMBERS_NONE)
			name_peer(h, a, p->sources, &p->n_sources);
	}
	if (p->n_aggregators && relay != MEMBERS_NONE)
		name_peer(h, relay, p->sources, &p->n_sources);
	t->ways[member].follows = p->n_aggregators > 0;
}

void hub_topology_lost(struct hub *h, uint32_t shard, const char *why)
{
	struct hub_topology *t = h->topology;
	const uint32_t member = t->aggregator[shard];
	if (member == MEMBERS_NONE)
		return;
	log_at(coord, 2, "shard %u is the coordinator's again, not member %u's: %s", shard, member,
		why);
	t->aggregator[shard] = MEMBERS_NONE;
	t->ways[member].distrust_ns = clock_now_ns() + DISTRUST;
	hub_completion_spoil(h);
}

void hub_topology_ban(struct hub *h, uint32_t member)
{
	struct hub_topology *t = h->topology;
	t->ways[member].banned = true;
	for (uint32_t i = 0; i < h->run.files.n_shards; i++)
		if (t->aggregator[i] == member)
			hub_topology_lost(h, i, "it is not trusted any more");
}

/* ---- asking */

uint32_t hub_topology_aggregator(const struct hub *h, uint32_t shard)
{
	return shard < GRAPH_SHARDS_MAX ? h->topology->aggregator[shard] : MEMBERS_NONE;
}

bool hub_topology_follows(const struct hub *h, uint32_t member)
{
	return member < ROUNDS_MEMBERS_MAX && h->topology->ways[member].follows;
}

uint64_t hub_topology_aggregated(const struct hub *h)
{
	return h->topology->aggregated;
}

static json_t *rounds_json(const struct hub_topology *t)
{
	const uint32_t n = t->n_rounds < HUB_TOPOLOGY_ROUNDS ? t->n_rounds : HUB_TOPOLOGY_ROUNDS;
	json_t *list = json_array();
	for (uint32_t i = t->n_rounds - n; i < t->n_rounds; i++) {
		const struct hub_completed *c = &t->rounds[i % HUB_TOPOLOGY_ROUNDS];
		json_t *doc =
			json_pack("{s:I, s:b}", "round", (json_int_t)c->round, "star", c->star);
		json_object_set_new(doc, "predicted_s", json_real(c->predicted_s));
		json_object_set_new(doc, "measured_s",
			c->measured_s > 0 ? json_real(c->measured_s) : json_null());
		json_array_append_new(list, doc);
	}
	return list;
}

json_t *hub_topology_view(struct hub *h, uint64_t now)
{
	const struct hub_topology *t = h->topology;
	struct topology_in in = {0};
	struct topology_plan plan = {0};
	struct link_counters c;
	link_counters(h->link, &c);
	if (!t->planned) { /* what the first round's plan would be by now */
		in = collect(h, now);
		topology_make(&in, &plan);
	}
	json_t *doc = json_object();
	json_object_set_new(doc, "mode", json_string(topology_mode_text(h->config.plan)));
	json_object_set_new(doc, "round", json_integer((json_int_t)t->completion.round));
	json_object_set_new(doc, "plan", topology_json_plan(t->planned ? &t->plan : &plan));
	json_object_set_new(doc, "input", topology_json_dump(t->planned ? &t->in : &in));
	json_object_set_new(doc, "rounds", rounds_json(t));
	json_object_set_new(doc, "aggregated", json_integer((json_int_t)t->aggregated));
	json_object_set_new(doc, "bytes_in", json_integer((json_int_t)c.bytes_in));
	json_object_set_new(doc, "bytes_out", json_integer((json_int_t)c.bytes_out));
	topology_in_release(&in);
	topology_plan_release(&plan);
	return doc;
}
