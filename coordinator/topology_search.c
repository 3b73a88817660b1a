#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "coordinator/topology_parts.h"

#define BOUNDLESS 1e12   /* bytes/s: what no limit is known of, where a number is needed */
#define PER_CLUSTER 6u   /* members of one that are looked at, the fastest */
#define HELPS 0.99       /* of the time without: less is no help */
#define MOVES_MOST 4096u /* shards times aggregators up to which single moves are tried */
#define MOVE_TURNS 3

/* ---- who could */

struct able {
	uint32_t node;
	double carries;
};

static double bounded(double capacity)
{
	return fmin(capacity, BOUNDLESS);
}

static int by_strength(const void *a, const void *b)
{
	const struct able *x = a, *y = b;
	return x->carries != y->carries ? (x->carries < y->carries ? 1 : -1)
					: (x->node > y->node) - (x->node < y->node);
}

static bool is_able(const struct topology_world *w, uint32_t node)
{
	return node < w->n && w->in->members[node].reachable;
}

/* The strongest of each cluster, strongest first. */
static struct able *find_able(const struct topology_world *w, uint32_t *n)
{
	uint32_t taken[TOPOLOGY_PLACES] = {0}, kept = 0;
	struct able *all = alloc_must_zero(w->n + 1u, sizeof *all);
	*n = 0;
	for (uint32_t i = 0; i < w->n; i++)
		if (is_able(w, i))
			all[(*n)++] = (struct able){i, bounded(w->up[i]) < bounded(w->down[i])
							       ? bounded(w->up[i])
							       : bounded(w->down[i])};
	qsort(all, *n, sizeof *all, by_strength);
	for (uint32_t i = 0; i < *n; i++)
		if (taken[w->cluster[all[i].node]]++ < PER_CLUSTER)
			all[kept++] = all[i];
	*n = kept;
	return all;
}

static void default_relays(
	const struct topology_world *w, const struct able *able, uint32_t n, uint32_t *relay)
{
	for (uint32_t b = 0; b < TOPOLOGY_PLACES; b++)
		relay[b] = TOPOLOGY_NONE;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t b = w->cluster[able[i].node];
		if (w->size[b] > 1 &&
			(relay[b] == TOPOLOGY_NONE || w->up[able[i].node] > w->up[relay[b]]))
			relay[b] = able[i].node;
	}
}

/* ---- shards to aggregators */

struct team {
	uint32_t who[TOPOLOGY_AGGREGATORS_MAX + 1];
	uint32_t n;
};

/* Largest first, each to who then ends first: what it takes in and what it gives out at once. */
static void spread(const struct topology_world *w, const uint32_t *order, const struct team *t,
	struct topology_choice *c)
{
	double in_s[TOPOLOGY_AGGREGATORS_MAX + 1] = {0}, out_s[TOPOLOGY_AGGREGATORS_MAX + 1] = {0};
	for (uint32_t k = 0; k < w->in->n_shards; k++) {
		const struct topology_shard *s = &w->in->shards[order[k]];
		double best_s = INFINITY, in = 0, out = 0;
		uint32_t best = 0;
		for (uint32_t i = 0; i < t->n; i++) {
			const double takes = in_s[i] +
					     w->n * s->contribution / bounded(w->down[t->who[i]]),
				     gives = out_s[i] + (w->n * s->update + s->bundle) /
								bounded(w->up[t->who[i]]);
			if (fmax(takes, gives) < best_s) {
				best_s = fmax(takes, gives);
				best = i;
				in = takes;
				out = gives;
			}
		}
		in_s[best] = in;
		out_s[best] = out;
		c->aggregator[order[k]] = t->who[best];
	}
}

struct sized {
	uint32_t shard;
	double bytes;
};

static int by_size(const void *a, const void *b)
{
	const struct sized *x = a, *y = b;
	return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1)
				    : (x->shard > y->shard) - (x->shard < y->shard);
}

static void order_shards(const struct topology_world *w, uint32_t *order, uint32_t *in_turn)
{
	struct sized all[TOPOLOGY_SHARDS_MAX];
	*in_turn = 0;
	for (uint32_t s = 0; s < w->in->n_shards; s++) {
		const struct topology_shard *x = &w->in->shards[s];
		all[s] = (struct sized){s, x->contribution + x->update};
		*in_turn += x->contribution > 0;
	}
	qsort(all, w->in->n_shards, sizeof *all, by_size);
	for (uint32_t s = 0; s < w->in->n_shards; s++)
		order[s] = all[s].shard;
}

/* ---- the search */

struct search {
	struct topology_world *w;
	uint32_t order[TOPOLOGY_SHARDS_MAX], in_turn;
	struct able *able;
	uint32_t n_able;
	struct topology_choice best;
};

static void consider(struct search *s, struct topology_choice *c)
{
	topology_predict(s->w, c);
	if (c->time.total_s < s->best.time.total_s)
		s->best = *c;
}

static bool is_in(const struct team *t, uint32_t node)
{
	uint32_t i = 0;
	while (i < t->n && t->who[i] != node)
		i++;
	return i < t->n;
}

/* The one that helps most besides those that are there. */
static bool add_one(struct search *s, struct team *t, struct topology_choice *c)
{
	uint32_t best = TOPOLOGY_NONE;
	double best_s = INFINITY;
	for (uint32_t i = 0; i < s->n_able; i++) {
		if (is_in(t, s->able[i].node))
			continue;
		t->who[t->n++] = s->able[i].node;
		spread(s->w, s->order, t, c);
		topology_predict(s->w, c);
		t->n--;
		if (c->time.total_s < best_s) {
			best_s = c->time.total_s;
			best = s->able[i].node;
		}
	}
	if (best != TOPOLOGY_NONE)
		t->who[t->n++] = best;
	return best != TOPOLOGY_NONE;
}

/* With more and more aggregators; of those that are about as good the fewest are kept. */
static void grow(struct search *s, const uint32_t *relay, bool coordinator)
{
	struct team t = {.n = coordinator};
	struct topology_choice c;
	t.who[0] = s->w->n;
	memcpy(c.relay, relay, sizeof c.relay);
	while (t.n < TOPOLOGY_AGGREGATORS_MAX && t.n - coordinator < s->in_turn &&
		add_one(s, &t, &c)) {
		uint32_t who[TOPOLOGY_SHARDS_MAX];
		spread(s->w, s->order, &t, &c);
		topology_predict(s->w, &c);
		if (topology_predict_aggregators(s->w, &c, who) &&
			c.time.total_s < HELPS * s->best.time.total_s)
			s->best = c;
	}
}

static void toggle_relays(struct search *s, const uint32_t *relay)
{
	for (uint32_t b = 0; b < s->w->n_clusters; b++) {
		struct topology_choice c = s->best;
		c.relay[b] = c.relay[b] == TOPOLOGY_NONE ? relay[b] : TOPOLOGY_NONE;
		consider(s, &c);
	}
}

/* False: none of them helped. */
static bool move_shards(struct search *s)
{
	uint32_t who[TOPOLOGY_SHARDS_MAX + 1];
	const double before = s->best.time.total_s;
	uint32_t n = topology_predict_aggregators(s->w, &s->best, who);
	who[n++] = s->w->n;
	if (n * s->in_turn > MOVES_MOST)
		return false;
	for (uint32_t k = 0; k < s->in_turn; k++)
		for (uint32_t i = 0; i < n; i++) {
			struct topology_choice c = s->best;
			uint32_t left[TOPOLOGY_SHARDS_MAX];
			if (c.aggregator[s->order[k]] == who[i])
				continue;
			c.aggregator[s->order[k]] = who[i];
			if (topology_predict_aggregators(s->w, &c, left))
				consider(s, &c);
		}
	return s->best.time.total_s < HELPS * before;
}

bool topology_search(struct topology_world *w, struct topology_choice *best)
{
	struct search *s = alloc_must_zero(1, sizeof *s);
	uint32_t relay[TOPOLOGY_PLACES], none[TOPOLOGY_PLACES];
	s->w = w;
	s->best.time.total_s = INFINITY;
	order_shards(w, s->order, &s->in_turn);
	s->able = find_able(w, &s->n_able);
	default_relays(w, s->able, s->n_able, relay);
	memset(none, 0xff, sizeof none);
	grow(s, none, false);
	grow(s, relay, false);
	grow(s, relay, true);
	const bool found = isfinite(s->best.time.total_s);
	for (int i = 0; found && i < MOVE_TURNS; i++) {
		toggle_relays(s, relay);
		if (!move_shards(s))
			break;
	}
	*best = s->best;
	free(s->able);
	free(s);
	return found;
}

/* ---- by lot */

/* The i-th of n drawn without putting back: list is permuted as far as needed. */
static uint32_t draw(
	const struct topology_world *w, uint64_t stream, uint32_t *list, uint32_t n, uint32_t i)
{
	const uint32_t k = i + (uint32_t)rng_below(w->in->seed, stream, i, n - i), drawn = list[k];
	list[k] = list[i];
	list[i] = drawn;
	return drawn;
}

void topology_search_draw(
	struct topology_world *w, const struct topology_choice *like, struct topology_choice *out)
{
	uint32_t who[TOPOLOGY_SHARDS_MAX], shards[TOPOLOGY_SHARDS_MAX], n_able = 0, relays = 0;
	uint32_t *able = alloc_must_zero(w->n + 1u, sizeof *able),
		 n = topology_predict_aggregators(w, like, who);
	topology_predict_star(w, out);
	for (uint32_t i = 0; i < w->n; i++)
		if (is_able(w, i))
			able[n_able++] = i;
	n = n < n_able ? n : n_able;
	for (uint32_t i = 0; i < n; i++)
		who[i] = draw(w, 2, able, n_able, i);
	for (uint32_t s = 0; s < w->in->n_shards; s++)
		shards[s] = s;
	for (uint32_t s = 0; n && s < w->in->n_shards; s++)
		out->aggregator[draw(w, 3, shards, w->in->n_shards, s)] = who[s % n];
	for (uint32_t b = 0; b < w->n_clusters; b++)
		relays += like->relay[b] != TOPOLOGY_NONE;
	topology_world_shuffle(w);
	for (uint32_t i = 0; i < n_able && relays; i++) {
		uint32_t *relay = &out->relay[w->cluster[able[i]]];
		if (*relay == TOPOLOGY_NONE) {
			*relay = able[i];
			relays--;
		}
	}
	free(able);
	topology_predict(w, out);
}
