#include <math.h>
#include "coordinator/topology.h"

static void say_time(struct buf *out, const char *what, const struct topology_time *t)
{
	if (isfinite(t->total_s))
		buf_printf(out,
			"  %-18s %8.2f s: contributions in %.2f s, list and check %.2f s, updates "
			"out %.2f s\n",
			what, t->total_s, t->up_s, t->merge_s, t->down_s);
	else
		buf_printf(out, "  %-18s not possible\n", what);
}

static void say_rate(struct buf *out, const char *what, double rate)
{
	if (rate > 0)
		buf_printf(out, " %s %.1f Mbit/s", what, rate * 8 / 1e6);
	else
		buf_printf(out, " %s without a known limit", what);
}

static uint32_t shards_of(const struct topology_plan *p, uint32_t number, struct buf *out)
{
	uint32_t n = 0;
	for (uint32_t s = 0; s < p->n_shards; s++) {
		if (p->aggregator[s] != number)
			continue;
		if (out)
			buf_printf(out, "%s%u", n ? ", " : "", s);
		n++;
	}
	return n;
}

static void say_node(const struct topology_plan *p, const struct topology_node *n, struct buf *out)
{
	if (n->number == TOPOLOGY_COORDINATOR)
		buf_printf(out, "  coordinator:");
	else
		buf_printf(out, "  member %u (cluster %u):", n->number, n->cluster);
	say_rate(out, "up", n->up);
	buf_printf(out, ",");
	say_rate(out, "down", n->down);
	buf_printf(out, "%s; sends %.2f MB and takes %.2f MB a round",
		n->guessed
			? " (one way or both are assumed: alone its line was not seen at work; the "
			  "coordinator's rate, or what was seen if that is more)"
			: "",
		n->sends / 1e6, n->takes / 1e6);
	if (!p->star && shards_of(p, n->number, NULL)) {
		buf_printf(out, "; aggregates shards ");
		(void)shards_of(p, n->number, out);
	}
	if (n->relay != TOPOLOGY_COORDINATOR)
		buf_printf(out, "; gets updates from member %u", n->relay);
	buf_printf(out, "\n");
}

static void say_known(const struct topology_in *in, struct buf *out)
{
	double bytes = 0, update = 0, oldest = 0;
	uint32_t reachable = 0, rates = 0;
	for (uint32_t s = 0; s < in->n_shards; s++) {
		bytes += in->shards[s].contribution;
		update += in->shards[s].update;
	}
	for (uint32_t i = 0; i < in->n_members; i++)
		reachable += in->members[i].reachable;
	for (uint32_t i = 0; i < in->n_pairs; i++) {
		rates += in->pairs[i].up > 0 || in->pairs[i].down > 0;
		oldest = fmax(oldest, in->pairs[i].age_s);
	}
	buf_printf(out,
		"known: %u members, %u of them reached at an address; %u measured ways, %u with a "
		"rate, the oldest %.0f s ago; a contribution of %.2f MB, an update of %.2f MB\n",
		in->n_members, reachable, in->n_pairs, rates, oldest, bytes / 1e6, update / 1e6);
	if (in->slower.star > 0)
		buf_printf(out,
			"rounds by the coordinator alone took %.2f times what the lines "
			"promise\n",
			in->slower.star);
	if (in->slower.peers > 0)
		buf_printf(out, "rounds with aggregators took %.2f times what the lines promise\n",
			in->slower.peers);
}

void topology_explain(const struct topology_in *in, const struct topology_plan *p, struct buf *out)
{
	buf_printf(out, "plan (%s): %s\n", topology_mode_text(in->mode), p->reason);
	say_time(out, "this plan", &p->time);
	say_time(out, "coordinator alone", &p->if_star);
	say_time(out, "best with peers", &p->if_peers);
	say_known(in, out);
	for (uint32_t i = 0; i <= p->n_members; i++)
		say_node(p, &p->nodes[i], out);
}
