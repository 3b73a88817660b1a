#include "compress/rate.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define RISE 0.75 /* of what is allowed: a rung above the last one must do with it */

/* Cheaper kinds of values, the dearest first. */
static const enum values cheaper[] = {VALUES_int8, VALUES_int4, VALUES_two};
#define N_CHEAPER (sizeof cheaper / sizeof *cheaper)

/* ---- what a rung costs */

/* log2 of the number of ways to choose k of n: a product of k fractions, scaled as it grows.  What
 * is left below 2 counts as if log2 were straight there, which is at most 0.09 bits off. */
static double choose_bits(uint32_t n, uint32_t k)
{
	double product = 1;
	int power, bits = 0;
	if (k > n - k)
		k = n - k;
	for (uint32_t i = 0; i < k; i++) {
		product = frexp(product * (n - i) / (i + 1), &power);
		bits += power;
	}
	return k ? bits + 2 * (product - 1) : 0;
}

double rate_bits(const struct codec_params *p)
{
	const struct values_row *row = values_row(p->values);
	double bits = (double)p->k * (row->bits + row->sign);
	if (!row->whole)
		bits += 8 * row->side;
	if (select_row(p->select)->sends_places)
		bits += choose_bits(p->chunk, p->k);
	return bits / p->chunk;
}

static double rung_bits(const struct rate_ask *ask, const struct rate_rung *rung)
{
	struct codec_params p = ask->most;
	p.k = rung->k;
	p.values = rung->values;
	return rate_bits(&p) * (ask->ratio > 0 ? ask->ratio : 1);
}

size_t rate_ladder(const struct rate_ask *ask, struct rate_rung out[static RATE_RUNGS])
{
	const uint32_t least = (ask->most.chunk + RATE_CHUNK_PER - 1) / RATE_CHUNK_PER;
	struct rate_rung rung = {ask->most.k, ask->most.values};
	size_t n = 0;
	out[n++] = rung;
	for (size_t i = 0; ask->any_values && i < N_CHEAPER; i++) {
		const struct rate_rung other = {rung.k, cheaper[i]};
		if (rung_bits(ask, &other) >= rung_bits(ask, &rung))
			continue; // also where a few values are less than their scale
		rung = other;
		out[n++] = rung;
	}
	if (!select_row(ask->most.select)->takes_k)
		return n;
	while (rung.k / 2 >= least && n < RATE_RUNGS) {
		rung.k /= 2;
		out[n++] = rung;
	}
	return n;
}

struct rate_cost rate_cost(const struct rate_ask *ask, const struct rate_rung *rung)
{
	struct rate_cost c = {.bits = rung_bits(ask, rung)};
	double bits = c.bits * (double)ask->n;
	c.up_bytes = bits / 8;
	c.down_bytes = bits / 8 * ask->peers;
	c.up_s = ask->up > 0 ? bits / ask->up : 0;
	c.down_s = ask->down > 0 ? bits * ask->peers / ask->down : 0;
	return c;
}

/* ---- which one */

enum way { WAY_up, WAY_down, WAY_quota };

/* What the quota leaves for a round. */
static double quota_of_round(const struct rate_ask *ask)
{
	return ask->quota_bytes * ask->round_s / ask->quota_s;
}

static bool quota_gone(const struct rate_ask *ask)
{
	return ask->quota_s > 0 && !(ask->quota_bytes > 0);
}

/* By how much a rung uses up what is allowed, in the way where it is most; 1: all of it. */
static double load(const struct rate_ask *ask, const struct rate_rung *rung, enum way *worst)
{
	struct rate_cost c = rate_cost(ask, rung);
	double of[] = {c.up_s / (ask->share * ask->round_s), c.down_s / (ask->share * ask->round_s),
		ask->quota_s > 0 ? (c.up_bytes + c.down_bytes) / quota_of_round(ask) : 0};
	*worst = WAY_up;
	for (unsigned way = WAY_down; way <= WAY_quota; way++)
		if (of[way] > of[*worst])
			*worst = (enum way)way;
	return of[*worst];
}

static size_t rung_before(const struct rate_ask *ask, const struct rate_rung *ladder, size_t n)
{
	size_t i = 0;
	while (i < n && (ladder[i].k != ask->before.k || ladder[i].values != ask->before.values))
		i++;
	return i < n ? i : 0;
}

/* ---- in words */

struct words {
	char amount[24]; /* "9.1 s" */
	char of[64];     /* "of a 60 s round at 2.1 Mbit/s up" */
};

static void rate_words(double bits, char out[static 24])
{
	static const char *const unit[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s"};
	size_t i = 0;
	for (; bits >= 999.5 && i < 3; i++)
		bits /= 1000;
	snprintf(out, 24, "%.3g %s", bits, unit[i]);
}

static struct words cost_words(
	const struct rate_ask *ask, const struct rate_rung *rung, enum way way)
{
	struct rate_cost c = rate_cost(ask, rung);
	struct words w;
	char rate[24];
	if (way == WAY_quota) {
		snprintf(w.amount, sizeof w.amount, "%.3g MB", (c.up_bytes + c.down_bytes) / 1e6);
		snprintf(w.of, sizeof w.of, "a round, for which the quota leaves %.3g MB",
			quota_of_round(ask) / 1e6);
		return w;
	}
	double s = way == WAY_up ? c.up_s : c.down_s;
	rate_words(way == WAY_up ? ask->up : ask->down, rate);
	snprintf(w.amount, sizeof w.amount, s < 10 ? "%.2g s" : "%.0f s", s);
	snprintf(w.of, sizeof w.of, "of a %.4g s round at %s %s", ask->round_s, rate,
		way == WAY_up ? "up" : "down");
	return w;
}

/* "k 32 of 4096, two" */
static void rung_words(
	const struct rate_ask *ask, const struct rate_rung *rung, char out[static 48])
{
	const char *values = values_row(rung->values)->name;
	if (select_row(ask->most.select)->takes_k)
		snprintf(out, 48, "k %" PRIu32 " of %" PRIu32 ", %s", rung->k, ask->most.chunk,
			values);
	else
		snprintf(out, 48, "all values, %s", values);
}

/* What a rung has that its neighbour has not. */
static void step_words(const struct rate_rung *rung, bool values, char out[static 16])
{
	if (values)
		snprintf(out, 16, "%s", values_row(rung->values)->name);
	else
		snprintf(out, 16, "%" PRIu32, rung->k);
}

static void explain_first(
	const struct rate_ask *ask, const struct rate_rung *rung, char why[static RATE_TEXT])
{
	char name[48];
	enum way way;
	rung_words(ask, rung, name);
	if (load(ask, rung, &way) > 0) {
		struct words w = cost_words(ask, rung, way);
		snprintf(why, RATE_TEXT, "%s, as the spec says: %s %s", name, w.amount, w.of);
	} else {
		snprintf(why, RATE_TEXT, "%s, as the spec says: the link's speed is not known yet",
			name);
	}
}

/* Why it is this one and not the one above it in the ladder. */
static void explain_less(
	const struct rate_ask *ask, const struct rate_rung *rung, char why[static RATE_TEXT])
{
	const struct rate_rung *above = rung - 1;
	char name[48], more[16], less[16];
	enum way way;
	bool values = above->values != rung->values, fits = load(ask, above, &way) <= 1;
	struct words a = cost_words(ask, above, way), b = cost_words(ask, rung, way);
	rung_words(ask, rung, name);
	step_words(above, values, more);
	step_words(rung, values, less);
	if (fits)
		snprintf(why, RATE_TEXT, "%s: %s would take %s %s, little less than is allowed",
			name, more, a.amount, a.of);
	else
		snprintf(why, RATE_TEXT, "%s: %s would take %s %s; %s takes %s", name, more,
			a.amount, a.of, less, b.amount);
}

/* None is small enough. */
static void explain_least(
	const struct rate_ask *ask, const struct rate_rung *rung, char why[static RATE_TEXT])
{
	char name[48];
	enum way way;
	rung_words(ask, rung, name);
	if (quota_gone(ask)) {
		snprintf(why, RATE_TEXT, "%s, the least there is: the quota is used up", name);
		return;
	}
	(void)load(ask, rung, &way);
	struct words w = cost_words(ask, rung, way);
	snprintf(why, RATE_TEXT, "%s, the least there is: it takes %s %s", name, w.amount, w.of);
}

struct rate_rung rate_pick(const struct rate_ask *ask, char why[static RATE_TEXT])
{
	struct rate_rung ladder[RATE_RUNGS];
	enum way way;
	size_t n = rate_ladder(ask, ladder), before = rung_before(ask, ladder, n), i = 0;
	while (i < n && (quota_gone(ask) || load(ask, &ladder[i], &way) > (i < before ? RISE : 1)))
		i++;
	if (i == n)
		explain_least(ask, &ladder[--i], why);
	else if (i == 0)
		explain_first(ask, &ladder[i], why);
	else
		explain_less(ask, &ladder[i], why);
	return ladder[i];
}
