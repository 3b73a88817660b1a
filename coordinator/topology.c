#include "coordinator/topology.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "coordinator/topology_parts.h"

#define TIE 0.9    /* of the star's time: what is slower changes nothing */
#define STAYS 1.15 /* times the best: the plan before is good enough */

void topology_in_release(struct topology_in *in)
{
	if (!in)
		return;
	free(in->members);
	free(in->pairs);
	free(in->shards);
	*in = (struct topology_in){0};
}

void topology_plan_release(struct topology_plan *p)
{
	if (!p)
		return;
	free(p->nodes);
	free(p->aggregator);
	*p = (struct topology_plan){0};
}

const struct topology_node *topology_node(const struct topology_plan *p, uint32_t number)
{
	uint32_t first = 0, end = p->n_members;
	while (first < end) {
		const uint32_t mid = first + (end - first) / 2;
		if (p->nodes[mid].number < number)
			first = mid + 1;
		else
			end = mid;
	}
	return first < p->n_members && p->nodes[first].number == number ? &p->nodes[first] : NULL;
}

/* ---- the plan before */

static uint32_t able_node(const struct topology_world *w, uint32_t number)
{
	const uint32_t node = topology_world_node(w, number);
	return node < w->n && w->in->members[node].reachable ? node : TOPOLOGY_NONE;
}

/* False: somebody who aggregated is not there. */
static bool before(const struct topology_world *w, struct topology_choice *c)
{
	uint32_t who[TOPOLOGY_SHARDS_MAX];
	bool whole = w->in->before;
	topology_predict_star(w, c);
	for (uint32_t s = 0; whole && s < w->in->n_shards; s++) {
		const uint32_t was = w->in->shards[s].before;
		if (was != TOPOLOGY_COORDINATOR)
			c->aggregator[s] = able_node(w, was);
		whole = c->aggregator[s] != TOPOLOGY_NONE;
	}
	for (uint32_t i = 0; whole && i < w->n; i++) {
		const uint32_t relay = able_node(w, w->in->members[i].before_relay);
		if (relay != TOPOLOGY_NONE && w->cluster[relay] == w->cluster[i])
			c->relay[w->cluster[i]] = relay;
	}
	return whole && topology_predict_aggregators(w, c, who) > 0;
}

/* ---- choosing */

struct candidates {
	struct topology_choice star, peers, before;
	bool any_peers, any_before;
};

static struct topology_choice *by_latency(struct candidates *c)
{
	const double star = c->star.time.total_s,
		     peers = c->any_peers ? c->peers.time.total_s : INFINITY,
		     best = fmin(star, peers);
	if (c->any_before && c->before.time.total_s <= STAYS * best)
		return &c->before;
	if (c->any_before)
		return peers < star ? &c->peers : &c->star;
	return peers < TIE * star ? &c->peers : &c->star;
}

static void give_reason(const struct topology_world *w, const struct candidates *c,
	const struct topology_choice *chosen, struct topology_plan *out)
{
	uint32_t who[TOPOLOGY_SHARDS_MAX], able = 0;
	for (uint32_t i = 0; i < w->n; i++)
		able += w->in->members[i].reachable;
	const uint32_t n = topology_predict_aggregators(w, chosen, who);
	const double star = c->star.time.total_s, peers = c->peers.time.total_s;
	if (w->in->mode == TOPOLOGY_star)
		snprintf(out->reason, sizeof out->reason,
			"the coordinator takes and sends everything, as it was told");
	else if (!able)
		snprintf(out->reason, sizeof out->reason,
			"the coordinator takes and sends everything: no member has been reached at "
			"an address of its own (shoal-peer join --listen)");
	else if (w->in->mode == TOPOLOGY_random)
		snprintf(out->reason, sizeof out->reason,
			"%u aggregators by lot of %u members that are reached", n, able);
	else if (w->contributions <= 0)
		snprintf(out->reason, sizeof out->reason,
			"the coordinator takes and sends everything until a round has shown how "
			"much "
			"that is");
	else if (!n)
		snprintf(out->reason, sizeof out->reason,
			"the coordinator takes and sends everything: %.2f s, and %.2f s with "
			"aggregators among the %u members that are reached",
			star, peers, able);
	else
		snprintf(out->reason, sizeof out->reason,
			"%u aggregators of %u members that are reached%s: %.2f s, and %.2f s by "
			"the "
			"coordinator alone",
			n, able, chosen == &c->before ? ", as before" : "", chosen->time.total_s,
			star);
}

/* ---- the result */

static void write_nodes(
	struct topology_world *w, const struct topology_choice *chosen, struct topology_plan *out)
{
	out->nodes = alloc_must_zero(w->n + 1u, sizeof *out->nodes);
	for (uint32_t i = 0; i <= w->n; i++)
		out->nodes[i] = (struct topology_node){
			.number = i < w->n ? w->in->members[i].number : TOPOLOGY_COORDINATOR,
			.cluster = w->cluster[i],
			.relay = TOPOLOGY_COORDINATOR,
			.up = isfinite(w->up[i]) ? w->up[i] : 0,
			.down = isfinite(w->down[i]) ? w->down[i] : 0,
			.guessed = w->guessed[i],
			.sends = w->sends[i],
			.takes = w->takes[i]};
	uint32_t who[TOPOLOGY_SHARDS_MAX];
	const uint32_t n = topology_predict_aggregators(w, chosen, who);
	for (uint32_t i = 0; n && i < w->n; i++) {
		const uint32_t relay = chosen->relay[w->cluster[i]];
		uint32_t k = 0;
		while (k < n && who[k] != i)
			k++;
		if (k == n && relay != TOPOLOGY_NONE && relay != i)
			out->nodes[i].relay = w->in->members[relay].number;
	}
}

static void write_plan(
	struct topology_world *w, struct topology_choice *chosen, struct topology_plan *out)
{
	uint32_t who[TOPOLOGY_SHARDS_MAX];
	topology_predict(w, chosen); /* for the loads */
	out->n_members = w->n;
	out->n_clusters = w->n_clusters;
	out->n_shards = w->in->n_shards;
	out->star = !topology_predict_aggregators(w, chosen, who);
	out->time = chosen->time;
	out->aggregator = alloc_must_zero(w->in->n_shards + 1u, sizeof *out->aggregator);
	for (uint32_t s = 0; s < w->in->n_shards; s++)
		out->aggregator[s] = chosen->aggregator[s] == w->n
					     ? TOPOLOGY_COORDINATOR
					     : w->in->members[chosen->aggregator[s]].number;
	write_nodes(w, chosen, out);
}

/* Sizes that nobody knows yet are one byte: to draw lots they need not be known. */
static void assume_sizes(struct topology_in *in)
{
	double known = 0;
	for (uint32_t s = 0; s < in->n_shards; s++)
		known += in->shards[s].contribution;
	for (uint32_t s = 0; known <= 0 && in->mode == TOPOLOGY_random && s < in->n_shards; s++)
		in->shards[s].contribution = in->shards[s].update = 1;
}

void topology_make(struct topology_in *in, struct topology_plan *out)
{
	struct topology_world *w = alloc_must_zero(1, sizeof *w);
	struct candidates *c = alloc_must_zero(1, sizeof *c);
	struct topology_choice *chosen = &c->star;
	*out = (struct topology_plan){0};
	assume_sizes(in);
	topology_world_init(w, in);
	topology_predict_star(w, &c->star);
	topology_predict(w, &c->star);
	if (in->mode != TOPOLOGY_star && w->contributions > 0)
		c->any_peers = topology_search(w, &c->peers);
	c->any_before = c->any_peers && in->mode == TOPOLOGY_latency && before(w, &c->before);
	if (c->any_before)
		topology_predict(w, &c->before);
	out->if_star = c->star.time;
	out->if_peers = c->any_peers ? c->peers.time : (struct topology_time){.total_s = INFINITY};
	if (in->mode == TOPOLOGY_latency) {
		chosen = by_latency(c);
	} else if (c->any_peers) {
		const struct topology_choice like = c->peers;
		topology_search_draw(w, &like, &c->peers);
		chosen = &c->peers;
	}
	write_plan(w, chosen, out);
	give_reason(w, c, chosen, out);
	topology_world_release(w);
	free(w);
	free(c);
}

bool topology_judge(struct topology_in *in, struct topology_time *out)
{
	struct topology_world *w = alloc_must_zero(1, sizeof *w);
	struct topology_choice *c = alloc_must_zero(1, sizeof *c);
	topology_world_init(w, in);
	topology_predict_star(w, c);
	const bool there = !in->before || before(w, c);
	if (there)
		topology_predict(w, c);
	*out = c->time;
	out->total_s = out->up_s + out->merge_s + out->down_s;
	topology_world_release(w);
	free(w);
	free(c);
	return there;
}
