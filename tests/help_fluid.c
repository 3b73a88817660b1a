#include "tests/help_fluid.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "sim/flow.h"

#define MBIT (1e6 / 8)
#define SERVER (1000 * MBIT)
#define EARTH_KM 6371.0
#define KM_PER_S 130000.0 /* light in glass, and the ways that cables take */
#define LAST_MILE_S 0.005

/* ---- the world */

static void place_sites(struct fluid_world *w, uint64_t seed)
{
	double at[FLUID_SITES][3];
	for (uint32_t i = 0; i < FLUID_SITES; i++) {
		const double turn = 2 * M_PI * rng_unit(seed, 1, i),
			     up = 2 * rng_unit(seed, 2, i) - 1, flat = sqrt(1 - up * up);
		at[i][0] = flat * cos(turn);
		at[i][1] = flat * sin(turn);
		at[i][2] = up;
	}
	for (uint32_t i = 0; i < FLUID_SITES; i++)
		for (uint32_t k = 0; k < FLUID_SITES; k++) {
			const double cosine =
				at[i][0] * at[k][0] + at[i][1] * at[k][1] + at[i][2] * at[k][2];
			const double angle = i == k ? 0 : acos(fmax(-1, fmin(1, cosine)));
			w->away_s[i][k] = angle * EARTH_KM / KM_PER_S;
		}
}

void help_fluid_draw(struct fluid_world *w, uint32_t n, uint64_t seed)
{
	static const struct {
		double up, down;
	} homes[] = {{5, 50}, {10, 100}, {20, 100}, {40, 250}, {100, 500}, {500, 500}};
	*w = (struct fluid_world){.n = n};
	place_sites(w, seed);
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t home = rng_below(seed, 3, i, sizeof homes / sizeof *homes);
		w->node[i] =
			(struct fluid_node){.site = (uint32_t)rng_below(seed, 4, i, FLUID_SITES),
				.up = homes[home].up * MBIT,
				.down = homes[home].down * MBIT,
				.reachable = rng_below(seed, 5, i, 3) == 0};
	}
	w->node[n] = (struct fluid_node){.up = SERVER, .down = SERVER, .reachable = true};
}

double help_fluid_away(const struct fluid_world *w, uint32_t a, uint32_t b)
{
	const double home = (a < w->n ? LAST_MILE_S : 0) + (b < w->n ? LAST_MILE_S : 0);
	return w->away_s[w->node[a].site][w->node[b].site] + home;
}

/* ---- a round */

struct play {
	const struct fluid_world *w;
	const struct fluid_plan *p;
	struct fluid_bytes shard; /* of one */
	struct flow *f;
	uint32_t up[FLUID_PEERS + 1], down[FLUID_PEERS + 1];
	uint32_t across[FLUID_SITES][FLUID_SITES];
	uint32_t closed, commit, all; /* the list is there; the ledger has it; everybody stands */
	/* Of what one aggregator made, by node: after which transfer it is there; 0: not asked. */
	uint32_t update[FLUID_PEERS + 1][FLUID_SHARDS], entry[FLUID_PEERS + 1];
};

static void lay_lines(struct play *g)
{
	for (uint32_t i = 0; i <= g->w->n; i++) {
		g->up[i] = flow_line(g->f, g->w->node[i].up);
		g->down[i] = flow_line(g->f, g->w->node[i].down);
	}
	for (uint32_t i = 0; i < FLUID_SITES; i++)
		for (uint32_t k = 0; k < FLUID_SITES; k++)
			g->across[i][k] = flow_line(g->f, g->w->line[i][k]);
}

/* Without bytes it takes the way alone. */
static uint32_t send(struct play *g, uint32_t from, uint32_t to, double bytes)
{
	const struct flow_transfer t = {.bytes = bytes,
		.delay_s = from == to ? 0 : help_fluid_away(g->w, from, to),
		.line = {from == to ? FLOW_NONE : g->up[from],
			from == to ? FLOW_NONE
				   : g->across[g->w->node[from].site][g->w->node[to].site],
			from == to ? FLOW_NONE : g->down[to], FLOW_NONE}};
	return flow_add(g->f, &t);
}

static uint32_t send_after(struct play *g, uint32_t first, uint32_t from, uint32_t to, double bytes)
{
	const uint32_t t = send(g, from, to, bytes);
	flow_after(g->f, t, first);
	return t;
}

/* Who sends this peer what `aggregator` made. */
static uint32_t source_of(const struct play *g, uint32_t peer, uint32_t aggregator)
{
	const struct fluid_plan *p = g->p;
	for (uint32_t i = 0; i < p->n_sources[peer]; i++)
		if (p->sources[peer][i] == aggregator)
			return aggregator;
	return p->n_sources[peer] && aggregator != g->w->n ? p->sources[peer][0] : g->w->n;
}

/* The shards of one aggregator over one connection, each after what it waits for. */
static void send_row(struct play *g, uint32_t n, const uint32_t *first, uint32_t from, uint32_t to,
	double bytes, uint32_t *out)
{
	for (uint32_t k = 0; k < n; k++) {
		out[k] = send_after(g, first[k], from, to, bytes);
		if (k)
			flow_behind(g->f, out[k], out[k - 1]);
	}
}

/* After which transfers a peer has an aggregator's updates, and their entries; relays first. */
static void pass_on(struct play *g, uint32_t peer, uint32_t index)
{
	if (g->entry[peer])
		return;
	const uint32_t from = source_of(g, peer, g->p->aggregator[index]);
	if (!g->entry[from]) {
		g->entry[peer] = FLOW_NONE; /* flow_after refuses a ring of relays */
		pass_on(g, from, index);
	}
	send_row(g, g->p->shards[index], g->update[from], from, peer, g->shard.update,
		g->update[peer]);
	g->entry[peer] = send_after(g, g->entry[from], from, peer, 0);
}

/* The contributions to one aggregator and the receipts for them. */
static void gather(struct play *g, uint32_t index, uint32_t start)
{
	uint32_t begin[FLUID_SHARDS], sent[FLUID_SHARDS];
	const uint32_t who = g->p->aggregator[index], n = g->p->shards[index];
	for (uint32_t k = 0; k < n; k++)
		begin[k] = start;
	for (uint32_t i = 0; i < g->w->n; i++) {
		send_row(g, n, begin, i, who, g->shard.contribution, sent);
		flow_after(g->f, g->closed, send_after(g, sent[n - 1], who, g->w->n, 0));
	}
}

/* What it makes of the list, and the proof. */
static void prove(struct play *g, uint32_t index, const uint32_t *made)
{
	uint32_t sent[FLUID_SHARDS];
	const uint32_t who = g->p->aggregator[index], n = g->p->shards[index], home = g->w->n;
	send_row(g, n, made, who, home, g->shard.update, sent);
	for (uint32_t k = 0; k < n; k++) {
		flow_after(g->f, g->commit, sent[k]);
		if (g->shard.bundle <= 0)
			continue;
		const uint32_t draw = (uint32_t)rng_below(1, 6 + index, k, home - 1),
			       witness = (who + 1 + draw) % home,
			       seen = send_after(g, made[k], who, witness, g->shard.bundle);
		flow_after(g->f, g->commit, send_after(g, seen, witness, home, 0));
	}
}

static void spread(struct play *g, uint32_t index)
{
	const uint32_t who = g->p->aggregator[index], n = g->w->n;
	memset(g->entry, 0, sizeof g->entry);
	g->entry[n] = g->commit;
	for (uint32_t k = 0; k < g->p->shards[index]; k++)
		g->update[n][k] = g->commit;
	if (who != n) {
		const uint32_t asked = send_after(g, g->closed, n, who, 0);
		for (uint32_t k = 0; k < g->p->shards[index]; k++)
			g->update[who][k] = asked;
		g->entry[who] = send_after(g, g->commit, n, who, 0);
		prove(g, index, g->update[who]);
	}
	for (uint32_t i = 0; i < n; i++) {
		pass_on(g, i, index);
		flow_after(g->f, g->all, g->entry[i]);
		for (uint32_t k = 0; k < g->p->shards[index]; k++)
			flow_after(g->f, g->all, g->update[i][k]);
	}
}

static void busiest(const struct play *g, struct fluid_outcome *out)
{
	const uint32_t n = g->w->n;
	double most_s = 0;
	for (uint32_t i = 0; i < 2 * (n + 1) + FLUID_SITES * FLUID_SITES; i++) {
		const uint32_t k = i - 2 * (n + 1), a = k / FLUID_SITES, b = k % FLUID_SITES;
		const bool access = i < 2 * (n + 1), up = i % 2 == 0;
		const double rate = access ? up ? g->w->node[i / 2].up : g->w->node[i / 2].down
					   : g->w->line[a][b],
			     carried = flow_carried(g->f,
				     access ? up ? g->up[i / 2] : g->down[i / 2] : g->across[a][b]);
		if (rate <= 0 || carried / rate <= most_s)
			continue;
		most_s = carried / rate;
		out->busiest = carried;
		out->of_line = rate;
	}
}

struct fluid_outcome help_fluid_play(
	const struct fluid_world *w, const struct fluid_plan *p, const struct fluid_bytes *bytes)
{
	struct play *g = alloc_must_zero(1, sizeof *g);
	struct fluid_outcome out = {0};
	*g = (struct play){.w = w,
		.p = p,
		.shard = {bytes->contribution / FLUID_SHARDS, bytes->update / FLUID_SHARDS,
			bytes->bundle / FLUID_SHARDS},
		.f = flow_new()};
	lay_lines(g);
	/* The first transfer has the number 0, which is said of none. */
	const uint32_t start = send(g, w->n, w->n, 0);
	g->closed = send_after(g, start, w->n, w->n, 0);
	g->commit = send_after(g, g->closed, w->n, w->n, 0);
	g->all = send_after(g, g->commit, w->n, w->n, 0);
	for (uint32_t i = 0; i < p->n_aggregators; i++) {
		gather(g, i, start);
		spread(g, i);
	}
	flow_run(g->f);
	out.seconds = flow_end_s(g->f, g->all);
	out.coordinator = flow_carried(g->f, g->up[w->n]) + flow_carried(g->f, g->down[w->n]);
	busiest(g, &out);
	flow_free(g->f);
	free(g);
	return out;
}

static double entropy(double p)
{
	return p > 0 && p < 1 ? -p * log2(p) - (1 - p) * log2(1 - p) : 0;
}

void help_fluid_bytes(double params, double kept, uint32_t n, struct fluid_bytes *out)
{
	const double all = 1 - pow(1 - kept, n);
	out->contribution = params * (entropy(kept) + 2 * kept) / 8;
	out->update = params * (entropy(all) + 8 * all) / 8;
	out->bundle = n * out->contribution;
	if (out->bundle > out->update)
		return;
	out->update = out->bundle; /* proves itself */
	out->bundle = 0;
}
