#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"
#include "coordinator/distance.h"
#include "coordinator/topology_parts.h"

/* Members nearer than so many seconds, or than this share of the usual way, are in one place. */
#define NEAR_S 0.003
#define NEAR_SHARE 0.25
#define SAMPLE 48u

/* Flows into or out of the coordinator that get at least this share of what the fastest gets are
 * held up by the coordinator, not by the member: of flows that share a full line those that get
 * less are limited elsewhere (max-min fairness). */
#define HELD_SHARE 0.5

/* ---- looking things up */

static int by_number(const void *a, const void *b)
{
	const struct topology_member *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

static int by_ends(const void *a, const void *b)
{
	const struct topology_pair *x = a, *y = b;
	return x->from != y->from ? (x->from > y->from ? 1 : -1)
				  : (x->to > y->to) - (x->to < y->to);
}

uint32_t topology_world_node(const struct topology_world *w, uint32_t number)
{
	const struct topology_member key = {.number = number},
				     *m = w->n ? bsearch(&key, w->in->members, w->n,
							 sizeof *w->in->members, by_number)
					       : NULL;
	if (number == TOPOLOGY_COORDINATOR)
		return w->n;
	return m ? (uint32_t)(m - w->in->members) : TOPOLOGY_NONE;
}

static uint32_t number_of(const struct topology_world *w, uint32_t node)
{
	return node == w->n ? TOPOLOGY_COORDINATOR : w->in->members[node].number;
}

static const struct topology_pair *said(const struct topology_in *in, uint32_t from, uint32_t to)
{
	const struct topology_pair key = {.from = from, .to = to};
	return in->n_pairs ? bsearch(&key, in->pairs, in->n_pairs, sizeof *in->pairs, by_ends)
			   : NULL;
}

static double guess_s(const struct topology_world *w, uint32_t a, uint32_t b)
{
	struct distance_place at[2];
	const uint32_t node[2] = {a, b};
	for (int i = 0; i < 2; i++) {
		const struct topology_member *m = node[i] < w->n ? &w->in->members[node[i]] : NULL;
		at[i] = (struct distance_place){.error = m && !m->placed};
		if (m)
			memcpy(at[i].at, m->at, sizeof m->at);
		at[i].height = m ? m->height : 0;
	}
	return distance_guess_s(&at[0], &at[1]);
}

double topology_world_rtt(const struct topology_world *w, uint32_t a, uint32_t b)
{
	const uint32_t x = number_of(w, a), y = number_of(w, b);
	const struct topology_pair *p = said(w->in, x, y), *q = said(w->in, y, x);
	const double rtt = fmax(p ? p->rtt_s : 0, q ? q->rtt_s : 0);
	return rtt > 0 ? rtt : guess_s(w, a, b);
}

/* ---- clusters */

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Of members spread over the list, so that a thousand do not need a million looks. */
static double usual_rtt(const struct topology_world *w)
{
	double kept[SAMPLE * SAMPLE];
	size_t n = 0;
	const uint32_t some = w->n < SAMPLE ? w->n : SAMPLE;
	for (uint32_t i = 0; i < some; i++)
		for (uint32_t k = 0; k < i; k++) {
			const double rtt = topology_world_rtt(w, i * w->n / some, k * w->n / some);
			if (rtt > 0)
				kept[n++] = rtt;
		}
	qsort(kept, n, sizeof *kept, by_value);
	return n ? kept[n / 2] : 0;
}

static uint32_t nearest_leader(const struct topology_world *w, uint32_t node, double *rtt_s)
{
	uint32_t best = 0;
	*rtt_s = INFINITY;
	for (uint32_t c = 0; c < w->n_clusters; c++) {
		const double rtt = topology_world_rtt(w, node, w->leader[c]);
		if (rtt > 0 && rtt < *rtt_s) {
			*rtt_s = rtt;
			best = c;
		}
	}
	return best;
}

/* One after the other by number: each to the nearest that began a cluster, or begins one. */
static void make_clusters(struct topology_world *w)
{
	const double near = fmax(NEAR_S, NEAR_SHARE * usual_rtt(w));
	for (uint32_t i = 0; i < w->n; i++) {
		double rtt;
		uint32_t c = nearest_leader(w, i, &rtt);
		if (rtt > near && w->n_clusters < TOPOLOGY_CLUSTERS_MAX) {
			c = w->n_clusters++;
			w->leader[c] = i;
		}
		w->cluster[i] = c;
		w->size[c]++;
	}
	w->cluster[w->n] = w->n_clusters;
	w->leader[w->n_clusters] = w->n;
}

static void find_lans(struct topology_world *w)
{
	double most[TOPOLOGY_PLACES] = {0};
	for (uint32_t i = 0; i < w->n; i++) {
		const uint32_t b = w->cluster[i];
		const double rtt = i == w->leader[b] ? 0 : topology_world_rtt(w, i, w->leader[b]);
		most[b] = fmax(most[b], rtt);
	}
	for (uint32_t b = 0; b < w->n_clusters; b++)
		w->lan[b] = w->size[b] > 1 && most[b] > 0 && most[b] <= NEAR_S ? INFINITY : 0;
}

static void measure_ways(struct topology_world *w)
{
	for (uint32_t a = 0; a <= w->n_clusters; a++)
		for (uint32_t b = 0; b <= w->n_clusters; b++)
			w->rtt[a][b] =
				a == b ? 0 : topology_world_rtt(w, w->leader[a], w->leader[b]);
}

/* ---- capacities */

/* Of a node or a line, one way: the fastest flow that was seen, and the sum of those that were
 * there together. */
struct seen {
	double one, sum;
	double best; /* of those that were there together: the fastest, */
	uint32_t n;  /* and how many */
};

struct flows {
	struct seen *up, *down; /* by node */
	double *least_up, *least_down;
	struct seen line[TOPOLOGY_PLACES][TOPOLOGY_PLACES], lan[TOPOLOGY_PLACES];
	/* To the coordinator, and from it. */
	double best_up, best_down, all_up, all_down;
	uint32_t n_up, n_down;
};

static void see(struct seen *s, double rate, bool together)
{
	s->one = fmax(s->one, rate);
	s->sum += together ? rate : 0;
}

/* What both ends say of one direction: the smaller, so that nobody draws load by boasting. */
static double agreed(double one, double other)
{
	return one > 0 && other > 0 ? fmin(one, other) : fmax(one, other);
}

/* And only where the coordinator's line was about full. */
static bool is_held(const struct topology_world *w, const struct flows *f, uint32_t from,
	uint32_t to, double rate)
{
	if (to == w->n)
		return f->n_up > 1 && rate >= HELD_SHARE * f->best_up &&
		       f->all_up >= HELD_SHARE * w->in->down;
	return from == w->n && f->n_down > 1 && rate >= HELD_SHARE * f->best_down &&
	       f->all_down >= HELD_SHARE * w->in->up;
}

/* Several that came over one line together, about as fast: it held them, and what each member's own
 * line carries is at least that. */
static bool is_shared(
	const struct flows *f, uint32_t a, uint32_t b, const struct topology_pair *p, double rate)
{
	const struct seen *l = &f->line[a][b];
	return a != b && p->together && l->n > 1 && rate >= HELD_SHARE * l->best;
}

static void note_flow(const struct topology_world *w, struct flows *f, uint32_t from, uint32_t to,
	const struct topology_pair *p, double rate)
{
	if (rate <= 0)
		return;
	const uint32_t a = w->cluster[from], b = w->cluster[to];
	const bool held = is_held(w, f, from, to, rate);
	if (a == b && w->lan[a] > 0) {
		see(&f->lan[a], rate, false);
		return;
	}
	if (is_shared(f, a, b, p, rate)) {
		f->least_up[from] += rate;
		f->least_down[to] += rate;
	} else {
		if (from == w->n || !held)
			see(&f->up[from], rate, p->together);
		if (to == w->n || !held)
			see(&f->down[to], rate, p->together);
	}
	if (a != b && !held)
		see(&f->line[a][b], rate, p->together);
}

/* Each direction of each pair once. */
static void each_flow(const struct topology_world *w, struct flows *f,
	void (*take)(const struct topology_world *w, struct flows *f, uint32_t from, uint32_t to,
		const struct topology_pair *p, double rate))
{
	for (uint32_t i = 0; i < w->in->n_pairs; i++) {
		const struct topology_pair *p = &w->in->pairs[i], *q = said(w->in, p->to, p->from);
		const uint32_t from = topology_world_node(w, p->from),
			       to = topology_world_node(w, p->to);
		if (from == TOPOLOGY_NONE || to == TOPOLOGY_NONE)
			continue;
		take(w, f, from, to, p, agreed(p->up, q ? q->down : 0));
		if (!q)
			take(w, f, to, from, p, p->down);
	}
}

static void note_best(const struct topology_world *w, struct flows *f, uint32_t from, uint32_t to,
	const struct topology_pair *p, double rate)
{
	struct seen *line = &f->line[w->cluster[from]][w->cluster[to]];
	if (rate > 0 && p->together && from != w->n && to != w->n) {
		line->best = fmax(line->best, rate);
		line->n++;
	}
	if (rate > 0 && to == w->n) {
		f->best_up = fmax(f->best_up, rate);
		f->all_up += rate;
		f->n_up++;
	}
	if (rate > 0 && from == w->n) {
		f->best_down = fmax(f->best_down, rate);
		f->all_down += rate;
		f->n_down++;
	}
}

static double capacity(const struct seen *s)
{
	const double most = fmax(s->one, s->sum);
	return most > 0 ? most : INFINITY;
}

/* Of a member: as it was seen where nothing else held it up, else at least what came over lines
 * that did, and what the coordinator can.  False: it is a guess. */
static bool own(const struct seen *s, double least, double guess, double *out)
{
	const double seen = fmax(s->one, s->sum);
	*out = least > 0 || seen <= 0 ? fmax(guess, fmax(least, seen)) : seen;
	return least <= 0 && seen > 0;
}

static void set_capacities(struct topology_world *w, const struct flows *f)
{
	const struct topology_in *in = w->in;
	w->up[w->n] = in->up > 0 ? in->up : capacity(&f->up[w->n]);
	w->down[w->n] = in->down > 0 ? in->down : capacity(&f->down[w->n]);
	for (uint32_t i = 0; i < w->n; i++) {
		const bool up = own(&f->up[i], f->least_up[i], w->down[w->n], &w->up[i]),
			   down = own(&f->down[i], f->least_down[i], w->up[w->n], &w->down[i]);
		w->guessed[i] = !up || !down;
	}
	for (uint32_t a = 0; a <= w->n_clusters; a++)
		for (uint32_t b = 0; b <= w->n_clusters; b++)
			w->line[a][b] = a == b ? INFINITY : capacity(&f->line[a][b]);
	for (uint32_t b = 0; b < w->n_clusters; b++)
		if (w->lan[b] > 0)
			w->lan[b] = capacity(&f->lan[b]);
}

static void find_capacities(struct topology_world *w)
{
	struct flows *f = alloc_must_zero(1, sizeof *f);
	f->up = alloc_must_zero(w->n + 1u, sizeof *f->up);
	f->down = alloc_must_zero(w->n + 1u, sizeof *f->down);
	f->least_up = alloc_must_zero(w->n + 1u, sizeof *f->least_up);
	f->least_down = alloc_must_zero(w->n + 1u, sizeof *f->least_down);
	each_flow(w, f, note_best);
	each_flow(w, f, note_flow);
	set_capacities(w, f);
	free(f->up);
	free(f->down);
	free(f->least_up);
	free(f->least_down);
	free(f);
}

/* ---- the whole */

void topology_world_init(struct topology_world *w, struct topology_in *in)
{
	const size_t nodes = in->n_members + 1u;
	*w = (struct topology_world){.in = in, .n = in->n_members};
	if (in->n_members)
		qsort(in->members, in->n_members, sizeof *in->members, by_number);
	if (in->n_pairs)
		qsort(in->pairs, in->n_pairs, sizeof *in->pairs, by_ends);
	double **const reals[] = {&w->up, &w->down, &w->sends, &w->takes, &w->gets_c, &w->gets_u,
		&w->gets_b, &w->largest_u, &w->out_sends, &w->out_takes};
	for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
		*reals[i] = alloc_must_zero(nodes, sizeof(double));
	w->guessed = alloc_must_zero(nodes, sizeof *w->guessed);
	w->cluster = alloc_must_zero(nodes, sizeof *w->cluster);
	for (uint32_t s = 0; s < in->n_shards; s++) {
		w->contributions += in->shards[s].contribution;
		w->updates += in->shards[s].update;
	}
	make_clusters(w);
	measure_ways(w);
	find_lans(w);
	find_capacities(w);
}

void topology_world_shuffle(struct topology_world *w)
{
	for (uint32_t i = w->n; i > 1; i--) {
		const uint64_t k = rng_below(w->in->seed, 1, i, i);
		const uint32_t c = w->cluster[i - 1];
		w->cluster[i - 1] = w->cluster[k];
		w->cluster[k] = c;
	}
}

void topology_world_release(struct topology_world *w)
{
	free(w->up);
	free(w->down);
	free(w->guessed);
	free(w->cluster);
	free(w->sends);
	free(w->takes);
	free(w->gets_c);
	free(w->gets_u);
	free(w->gets_b);
	free(w->largest_u);
	free(w->out_sends);
	free(w->out_takes);
}
