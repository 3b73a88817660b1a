/* Plans of coordinator/topology.h for a world of help_fluid.h, from what its members would have
 * measured there: the ways to the coordinator and to some of those who listen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "coordinator/distance.h"
#include "tests/help_bench.h"
#include "tests/help_fluid.h"

#define PROBES 12u /* members to which each one has measured the round trip */
#define STRIDE 37u
#define SETTLE 20 /* rounds of measuring */
#define TRIES 5   /* of making a plan, to time it */

/* ---- what is measured */

static double least(double a, double b)
{
	return a < b ? a : b;
}

/* Between members both ways at their best, as one after the other has seen them. */
static struct topology_pair measure(const struct fluid_world *w, uint32_t from, uint32_t to)
{
	const bool peers = to != w->n;
	const double line = w->line[w->node[from].site][w->node[to].site],
		     most = line > 0 ? line : INFINITY;
	return (struct topology_pair){.from = from,
		.to = to == w->n ? TOPOLOGY_COORDINATOR : to,
		.rtt_s = 2 * help_fluid_away(w, from, to),
		.up = peers ? least(most, least(w->node[from].up, w->node[to].down)) : 0,
		.down = peers ? least(most, least(w->node[from].down, w->node[to].up)) : 0};
}

static void note(struct distance *d, const struct topology_pair *p)
{
	const struct distance_pair said = {
		.to = p->to, .rtt_s = p->rtt_s, .up = p->up, .down = p->down};
	distance_note(d, p->from, &said);
}

static void probe(const struct fluid_world *w, struct topology_in *in, uint32_t i, bool near)
{
	for (uint32_t k = 0, found = 0; k < w->n && found < PROBES / 2; k++) {
		const uint32_t to = (i + 1 + k * STRIDE) % w->n;
		if (to == i || !w->node[to].reachable ||
			(w->node[to].site == w->node[i].site) != near)
			continue;
		in->pairs[in->n_pairs++] = measure(w, i, to);
		found++;
	}
}

/* The coordinator, and of those who listen some near and some elsewhere. */
static void measure_all(const struct fluid_world *w, struct topology_in *in)
{
	in->pairs = alloc_must_zero((size_t)w->n * (PROBES + 1), sizeof *in->pairs);
	for (uint32_t i = 0; i < w->n; i++) {
		in->pairs[in->n_pairs++] = measure(w, i, w->n);
		probe(w, in, i, true);
		probe(w, in, i, false);
	}
}

static void place_all(struct topology_in *in)
{
	struct distance *d = distance_new();
	for (int round = 0; round < SETTLE; round++) {
		for (uint32_t i = 0; i < in->n_pairs; i++)
			note(d, &in->pairs[i]);
		for (uint32_t i = 0; i < in->n_members; i++)
			distance_settle(d, i);
	}
	for (uint32_t i = 0; i < in->n_members; i++) {
		const struct distance_place place = distance_place(d, i);
		memcpy(in->members[i].at, place.at, sizeof place.at);
		in->members[i].height = place.height;
		in->members[i].placed = place.error < 1;
	}
	distance_free(d);
}

static void ask(const struct fluid_world *w, enum topology_mode mode,
	const struct fluid_bytes *bytes, struct topology_in *in)
{
	*in = (struct topology_in){.mode = mode,
		.seed = 1,
		.up = w->node[w->n].up,
		.down = w->node[w->n].down,
		.n_members = w->n,
		.n_shards = FLUID_SHARDS};
	in->members = alloc_must_zero(w->n, sizeof *in->members);
	in->shards = alloc_must_zero(FLUID_SHARDS, sizeof *in->shards);
	for (uint32_t i = 0; i < w->n; i++)
		in->members[i] = (struct topology_member){.number = i,
			.reachable = w->node[i].reachable,
			.before_relay = TOPOLOGY_COORDINATOR};
	for (uint32_t i = 0; i < FLUID_SHARDS; i++)
		in->shards[i] =
			(struct topology_shard){.contribution = bytes->contribution / FLUID_SHARDS,
				.update = bytes->update / FLUID_SHARDS,
				.bundle = bytes->bundle / FLUID_SHARDS,
				.before = TOPOLOGY_COORDINATOR};
	measure_all(w, in);
	place_all(in);
}

/* ---- what is planned */

static uint32_t node_of(const struct fluid_world *w, uint32_t number)
{
	return number == TOPOLOGY_COORDINATOR ? w->n : number;
}

static void take_aggregators(
	const struct fluid_world *w, const struct topology_plan *from, struct fluid_plan *to)
{
	for (uint32_t i = 0; i < from->n_shards; i++) {
		const uint32_t who = node_of(w, from->aggregator[i]);
		uint32_t k = 0;
		while (k < to->n_aggregators && to->aggregator[k] != who)
			k++;
		to->aggregator[k] = who;
		to->shards[k]++;
		if (k == to->n_aggregators)
			to->n_aggregators++;
	}
}

static void take_sources(
	const struct fluid_world *w, const struct topology_plan *from, struct fluid_plan *to)
{
	for (uint32_t i = 0; !from->star && i < w->n; i++) {
		const uint32_t relay = topology_node(from, i)->relay;
		uint32_t *at = to->sources[i];
		if (relay != TOPOLOGY_COORDINATOR)
			at[to->n_sources[i]++] = relay;
		for (uint32_t k = 0; relay == TOPOLOGY_COORDINATOR && k < to->n_aggregators; k++)
			if (to->aggregator[k] != i && to->aggregator[k] != w->n)
				at[to->n_sources[i]++] = to->aggregator[k];
	}
}

static double make(struct topology_in *in, struct topology_plan *plan)
{
	const uint64_t before = clock_now_ns();
	topology_make(in, plan);
	return clock_seconds(clock_now_ns() - before);
}

/* The same plan again and again; the last one stays. */
static double make_timed(struct topology_in *in, struct topology_plan *plan)
{
	double took[TRIES];
	for (int i = 0; i < TRIES; i++) {
		topology_plan_release(plan);
		*plan = (struct topology_plan){0};
		took[i] = make(in, plan);
	}
	return help_bench_median(took, TRIES);
}

struct fluid_promise help_fluid_plan(const struct fluid_world *w, enum topology_mode mode,
	const struct fluid_bytes *bytes, struct fluid_plan *out)
{
	struct topology_in in;
	struct topology_plan plan = {0};
	*out = (struct fluid_plan){0};
	ask(w, mode, bytes, &in);
	const double plan_s = make_timed(&in, &plan);
	take_aggregators(w, &plan, out);
	take_sources(w, &plan, out);
	const double seconds = plan.time.total_s;
	topology_plan_release(&plan);
	topology_in_release(&in);
	return (struct fluid_promise){seconds, plan_s};
}
