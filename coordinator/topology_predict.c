#include <math.h>
#include <string.h>
#include "coordinator/topology_parts.h"

/* Bytes over each line between clusters. */
struct lines {
	double load[TOPOLOGY_PLACES][TOPOLOGY_PLACES];
};

void topology_predict_star(const struct topology_world *w, struct topology_choice *c)
{
	for (uint32_t s = 0; s < w->in->n_shards; s++)
		c->aggregator[s] = w->n;
	for (uint32_t i = 0; i < TOPOLOGY_PLACES; i++)
		c->relay[i] = TOPOLOGY_NONE;
}

uint32_t topology_predict_aggregators(const struct topology_world *w,
	const struct topology_choice *c, uint32_t out[static TOPOLOGY_SHARDS_MAX])
{
	uint32_t n = 0;
	for (uint32_t s = 0; s < w->in->n_shards; s++) {
		uint32_t i = 0;
		if (c->aggregator[s] == w->n || w->in->shards[s].contribution <= 0)
			continue;
		while (i < n && out[i] != c->aggregator[s])
			i++;
		if (i == n)
			out[n++] = c->aggregator[s];
	}
	return n;
}

/* What this prediction is about. */
struct phases {
	struct topology_world *w;
	const struct topology_choice *c;
	uint32_t who[TOPOLOGY_SHARDS_MAX + 1]; /* aggregators; the last: the coordinator */
	uint32_t n_who;                        /* members among them */
	uint32_t direct[TOPOLOGY_PLACES];      /* members there whom aggregators tell */
	uint32_t relayed[TOPOLOGY_PLACES];     /* those whom the relay tells */
	double through_peers;                  /* bytes of updates that members make */
	double ends; /* bytes of what each aggregator sends last: one update of each */
	struct lines lines;
	double near[TOPOLOGY_PLACES]; /* bytes of updates that are made in a local network */
	double near_s;                /* the longest of a phase inside one */
	double fluid[3];
};

static void share_out(struct phases *p)
{
	struct topology_world *w = p->w;
	const struct topology_in *in = w->in;
	const size_t bytes = (w->n + 1u) * sizeof(double);
	memset(w->gets_c, 0, bytes);
	memset(w->gets_u, 0, bytes);
	memset(w->gets_b, 0, bytes);
	memset(w->largest_u, 0, bytes);
	memset(w->sends, 0, bytes);
	memset(w->takes, 0, bytes);
	for (uint32_t s = 0; s < in->n_shards; s++) {
		const uint32_t a = p->c->aggregator[s];
		w->gets_c[a] += in->shards[s].contribution;
		w->gets_u[a] += in->shards[s].update;
		w->gets_b[a] += in->shards[s].bundle;
		if (a != w->n) {
			p->through_peers += in->shards[s].update;
			w->largest_u[a] = fmax(w->largest_u[a], in->shards[s].update);
			if (w->lan[w->cluster[a]] > 0)
				p->near[w->cluster[a]] += in->shards[s].update;
		}
	}
	p->n_who = topology_predict_aggregators(w, p->c, p->who);
	p->who[p->n_who] = w->n;
	for (uint32_t i = 0; i < p->n_who; i++)
		p->ends += w->largest_u[p->who[i]];
}

/* Aggregators and relays are told by the aggregators in any case. */
static void count_direct(struct phases *p)
{
	const struct topology_world *w = p->w;
	for (uint32_t b = 0; b < w->n_clusters; b++)
		p->direct[b] = p->c->relay[b] == TOPOLOGY_NONE ? w->size[b] : 1;
	for (uint32_t i = 0; i < p->n_who; i++) {
		const uint32_t b = w->cluster[p->who[i]], relay = p->c->relay[b];
		p->direct[b] += relay != TOPOLOGY_NONE && relay != p->who[i];
	}
	for (uint32_t b = 0; b < w->n_clusters; b++)
		p->relayed[b] = w->size[b] - p->direct[b];
	p->direct[w->n_clusters] = 1; /* the coordinator takes every update */
}

/* What a member exchanges inside its own local network. */
static void near_by(struct phases *p, uint32_t node, double bytes)
{
	const uint32_t b = p->w->cluster[node];
	p->near_s = fmax(p->near_s, bytes / p->w->lan[b]);
}

static double slowest(struct phases *p, const double *sends, const double *takes)
{
	const struct topology_world *w = p->w;
	double most = p->near_s;
	p->near_s = 0;
	for (uint32_t i = 0; i <= w->n; i++)
		most = fmax(most, fmax(sends[i] / w->up[i], takes[i] / w->down[i]));
	for (uint32_t a = 0; a <= w->n_clusters; a++)
		for (uint32_t b = 0; b <= w->n_clusters; b++)
			most = fmax(most, p->lines.load[a][b] / w->line[a][b]);
	return most;
}

/* All phases add to the world's sends and takes; each is timed by what it adds. */
static void contributions_in(struct phases *p)
{
	struct topology_world *w = p->w;
	for (uint32_t i = 0; i < w->n; i++)
		w->sends[i] = w->contributions - w->gets_c[i];
	for (uint32_t k = 0; k <= p->n_who; k++) {
		const uint32_t a = p->who[k];
		w->takes[a] = w->gets_c[a] * (a == w->n ? w->n : w->n - 1);
		for (uint32_t b = 0; b < w->n_clusters; b++)
			if (b != w->cluster[a])
				p->lines.load[b][w->cluster[a]] += w->size[b] * w->gets_c[a];
	}
	p->fluid[0] = slowest(p, w->sends, w->takes);
}

/* Of merged updates to their witnesses, who are drawn among all other members. */
static void bundles_out(struct phases *p, uint32_t a)
{
	struct topology_world *w = p->w;
	const uint32_t from = w->cluster[a];
	const double each = w->n > 1 ? w->gets_b[a] / (w->n - 1) : 0;
	for (uint32_t b = 0; b < w->n_clusters; b++)
		if (b != from)
			p->lines.load[from][b] += each * w->size[b];
}

static void near_by_if(struct phases *p, uint32_t node, double bytes)
{
	if (p->w->lan[p->w->cluster[node]] > 0)
		near_by(p, node, bytes);
}

/* Told by its cluster's relay. */
static bool is_relayed(const struct phases *p, uint32_t node)
{
	const uint32_t relay = p->c->relay[p->w->cluster[node]];
	return relay != TOPOLOGY_NONE && relay != node && p->w->gets_c[node] <= 0;
}

/* What members made: to each other, and to the coordinator. */
static void updates_out(struct phases *p, double *sends, double *takes)
{
	struct topology_world *w = p->w;
	uint32_t direct = 0;
	memset(&p->lines, 0, sizeof p->lines);
	for (uint32_t b = 0; b < w->n_clusters; b++)
		direct += p->direct[b];
	for (uint32_t i = 0; i < w->n; i++) {
		const uint32_t b = w->cluster[i];
		const bool lan = w->lan[b] > 0;
		if (is_relayed(p, i) && lan) {
			near_by(p, i, p->through_peers);
			continue;
		}
		takes[i] = p->through_peers - (lan ? p->near[b] : w->gets_u[i]);
		if (lan)
			near_by(p, i, p->near[b] - w->gets_u[i]);
	}
	takes[w->n] = p->through_peers;
	for (uint32_t k = 0; k < p->n_who; k++) {
		/* To all of those but itself, and to the coordinator. */
		const uint32_t a = p->who[k], from = w->cluster[a];
		const uint32_t near = w->lan[from] > 0 ? p->direct[from] - 1 : 0;
		sends[a] = w->gets_u[a] * (direct - near) + w->gets_b[a];
		near_by_if(p, a, w->gets_u[a] * near);
		for (uint32_t b = 0; b <= w->n_clusters; b++)
			if (b != from)
				p->lines.load[from][b] += w->gets_u[a] * p->direct[b];
		bundles_out(p, a);
	}
	for (uint32_t b = 0; b < w->n_clusters; b++)
		if (p->relayed[b] && w->lan[b] > 0)
			near_by(p, p->c->relay[b], p->through_peers * p->relayed[b]);
		else if (p->relayed[b])
			sends[p->c->relay[b]] += p->through_peers * p->relayed[b];
	p->fluid[1] = slowest(p, sends, takes);
}

/* The coordinator's own shards go out when the round is in the ledger, that is after the members'
 * updates have come to it. */
static void records_out(struct phases *p, double *sends, double *takes)
{
	struct topology_world *w = p->w;
	const double own = w->gets_u[w->n];
	memset(&p->lines, 0, sizeof p->lines);
	for (uint32_t i = 0; i < w->n; i++)
		takes[i] = own;
	sends[w->n] = own * w->n;
	for (uint32_t b = 0; b < w->n_clusters; b++)
		p->lines.load[w->n_clusters][b] = own * w->size[b];
	p->fluid[2] = slowest(p, sends, takes);
}

/* What is passed on has to be there first, as a whole, and aggregators that are equally busy send
 * their last one at the same time. */
static double relay_s(const struct phases *p)
{
	const struct topology_world *w = p->w;
	double most = 0;
	for (uint32_t b = 0; b < w->n_clusters; b++)
		if (p->relayed[b])
			most = fmax(
				most, p->ends * p->relayed[b] /
					      (w->lan[b] > 0 ? w->lan[b] : w->up[p->c->relay[b]]));
	return most;
}

/* The longest way from a cluster with members. */
static double far_s(const struct topology_world *w, uint32_t from)
{
	double most = 0;
	for (uint32_t b = 0; b < w->n_clusters; b++)
		most = fmax(most, w->rtt[from][b]);
	return most;
}

static struct topology_time ways(const struct phases *p)
{
	const struct topology_world *w = p->w;
	const uint32_t home = w->n_clusters;
	struct topology_time t = {0};
	if (w->gets_c[w->n] > 0)
		t.up_s = t.down_s = far_s(w, home) / 2;
	for (uint32_t k = 0; k < p->n_who; k++) {
		const uint32_t a = w->cluster[p->who[k]];
		const bool merged = w->gets_b[p->who[k]] > 0;
		const double far = far_s(w, a), back = w->rtt[a][home];
		t.up_s = fmax(t.up_s, far / 2);
		/* The receipt, the list; the bundle is asked for and comes, the verdict. */
		t.merge_s = fmax(t.merge_s, back + (merged ? far + back / 2 : 0));
		/* The update comes to the coordinator, the entry goes back and on. */
		t.down_s = fmax(t.down_s, back + far / 2);
	}
	return t;
}

void topology_predict(struct topology_world *w, struct topology_choice *c)
{
	struct phases p = {.w = w, .c = c};
	share_out(&p);
	count_direct(&p);
	contributions_in(&p);
	const struct topology_slower *slower = &w->in->slower;
	const double known = p.n_who ? slower->peers : slower->star,
		     other = p.n_who ? slower->star : slower->peers;
	for (int phase = 1; phase <= 2; phase++) {
		double *const sends = w->out_sends, *const takes = w->out_takes;
		memset(sends, 0, (w->n + 1u) * sizeof *sends);
		memset(takes, 0, (w->n + 1u) * sizeof *takes);
		if (phase == 1)
			updates_out(&p, sends, takes);
		else
			records_out(&p, sends, takes);
		for (uint32_t i = 0; i <= w->n; i++) {
			w->sends[i] += sends[i];
			w->takes[i] += takes[i];
		}
	}
	c->time = ways(&p);
	c->time.up_s += p.fluid[0];
	c->time.down_s += p.fluid[1] + p.fluid[2] + relay_s(&p);
	c->time.total_s =
		(c->time.up_s + c->time.merge_s + c->time.down_s) * (known > 0          ? known
									    : other > 0 ? other
											: 1);
}
