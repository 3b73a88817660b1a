#include <stdio.h>
#include "base/clock.h"
#include "compress/rate.h"
#include "coordinator/human.h"
#include "coordinator/inspect.h"
#include "model/graph.h"
#include "model/spec.h"
#include "round/exchange.h"
#include "round/turns.h"

#define MONTH_S (30 * 86400.0)

static enum err take_round(
	const struct inspect *i, const struct spec *s, struct rate_ask *ask, struct why *why)
{
	ask->round_s = i->link->round_ns ? clock_seconds(i->link->round_ns) : s->round.seconds;
	if (ask->round_s > 0)
		return ERR_OK;
	return err_why(why, ERR_usage,
		"%s: its rounds have %u steps, however long these take: say how long with --round",
		i->path, s->round.steps);
}

static enum err take_codec(const struct spec *s, struct rate_ask *ask, struct why *why)
{
	struct exchange exchange;
	struct graph *g = NULL;
	enum err err = exchange_find(s, &exchange, why);
	if (!err)
		err = graph_build(&s->model, s->train.micro_batch, s->train.seq, &g, why);
	if (err)
		return err;
	ask->most = exchange.codec;
	turns_rate(&s->round, g->n_shards, g->shard_params, ask);
	graph_free(g);
	return ERR_OK;
}

static void take_link(const struct inspect_link *l, const struct spec *s, struct rate_ask *ask)
{
	ask->any_values = l->any_values;
	ask->up = (double)l->up;
	ask->down = (double)l->down;
	ask->peers = l->peers ? (uint32_t)l->peers : s->round.peers_min;
	ask->quota_s = l->quota ? MONTH_S : 0;
	ask->quota_bytes = (double)l->quota;
}

static void seconds(double s, char out[static HUMAN_TEXT])
{
	if (s > 0)
		snprintf(out, HUMAN_TEXT, s < 10 ? "%.2f" : "%.0f", s);
	else
		snprintf(out, HUMAN_TEXT, "-");
}

static void show_rung(const struct rate_ask *ask, const struct rate_rung *rung, bool picked)
{
	struct rate_cost c = rate_cost(ask, rung);
	char up[HUMAN_TEXT], down[HUMAN_TEXT], share[HUMAN_TEXT] = "-", month[HUMAN_TEXT];
	double longest = c.up_s > c.down_s ? c.up_s : c.down_s;
	seconds(c.up_s, up);
	seconds(c.down_s, down);
	if (longest > 0)
		snprintf(share, sizeof share, "%.1f %%", 100 * longest / ask->round_s);
	double bytes = (c.up_bytes + c.down_bytes) * MONTH_S / ask->round_s;
	human_size(bytes < 0x1p63 ? (uint64_t)bytes : (uint64_t)1 << 63, "B", month);
	printf("%c %6u  %-6s  %9.4f  %9.4f  %9s  %9s  %9s  %9s\n", picked ? '>' : ' ', rung->k,
		values_row(rung->values)->name, c.bits, c.bits * ask->peers, up, down, share,
		month);
}

static void show(const struct rate_ask *ask)
{
	struct rate_rung ladder[RATE_RUNGS];
	char why[RATE_TEXT], codec[CODEC_NAME_MAX], n[HUMAN_TEXT];
	size_t rungs = rate_ladder(ask, ladder);
	struct rate_rung picked = rate_pick(ask, why);
	codec_describe(&ask->most, codec);
	printf("%s parameters, codec %s, %u peer%s, rounds of %.4g s, of which a transfer may "
	       "take %.3g s\n\n",
		human_count(ask->n, n), codec, ask->peers, ask->peers == 1 ? "" : "s", ask->round_s,
		ask->share * ask->round_s);
	printf("%8s  %-6s  %20s  %20s  %9s  %9s\n", "", "", "bits of a parameter",
		"seconds of a round", "of the", "of 30");
	printf("%8s  %-6s  %9s  %9s  %9s  %9s  %9s  %9s\n", "k", "values", "up", "down", "up",
		"down", "round", "days");
	for (size_t i = 0; i < rungs; i++)
		show_rung(ask, &ladder[i],
			ladder[i].k == picked.k && ladder[i].values == picked.values);
	printf("\n%s\n", why);
	if (select_row(ask->most.select)->takes_threshold || codec_lossless(&ask->most))
		printf("These are what the codec needs at most: %s.\n",
			codec_lossless(&ask->most) ? "what repeats in its bytes takes less"
						   : "below the threshold nothing is sent");
}

enum err inspect_rate(const struct inspect *i, struct why *why)
{
	struct spec *s = NULL;
	struct rate_ask ask = {0};
	enum err err = spec_load(i->path, i->sets, i->n_sets, &s, NULL, why);
	if (!err)
		err = take_round(i, s, &ask, why);
	if (!err)
		err = take_codec(s, &ask, why);
	if (!err) {
		take_link(i->link, s, &ask);
		show(&ask);
	}
	spec_free(s);
	return err;
}
