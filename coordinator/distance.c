#include "coordinator/distance.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"

/* The constants of the paper: how far a place goes towards a measurement, and its error. */
#define CC 0.25
#define CE 0.25
#define HEIGHT_LEAST 1e-5
#define FLAG_REACHED 1u

struct node {
	struct distance_place place;
	struct distance_pair *pairs;
	uint32_t n, cap;
};

struct distance {
	struct node *at; /* by number */
	uint32_t n;
};

struct distance *distance_new(void)
{
	return alloc_must_zero(1, sizeof(struct distance));
}

void distance_free(struct distance *d)
{
	for (uint32_t i = 0; d && i < d->n; i++)
		free(d->at[i].pairs);
	if (d)
		free(d->at);
	free(d);
}

/* ---- what was said */

static struct node *node_of(const struct distance *d, uint32_t member)
{
	return member < d->n ? &d->at[member] : NULL;
}

static struct node *node_for(struct distance *d, uint32_t member)
{
	if (member >= d->n) {
		d->at = alloc_must_resize(d->at, member + 1u, sizeof *d->at);
		for (uint32_t i = d->n; i <= member; i++)
			d->at[i] = (struct node){.place = {.height = HEIGHT_LEAST, .error = 1}};
		d->n = member + 1;
	}
	return &d->at[member];
}

static bool sane(double v, double most)
{
	return isfinite(v) && v >= 0 && v <= most;
}

static struct distance_pair *find(const struct node *node, uint32_t to)
{
	for (uint32_t i = 0; node && i < node->n; i++)
		if (node->pairs[i].to == to)
			return &node->pairs[i];
	return NULL;
}

/* The way to the coordinator is kept whatever else is. */
static struct distance_pair *oldest(struct node *node)
{
	struct distance_pair *out = NULL;
	for (uint32_t i = 0; i < node->n; i++)
		if (node->pairs[i].to != DISTANCE_COORDINATOR &&
			(!out || node->pairs[i].at_ns < out->at_ns))
			out = &node->pairs[i];
	return out;
}

static struct distance_pair *room(struct node *node, uint32_t to)
{
	struct distance_pair *p = find(node, to);
	if (p)
		return p;
	if (node->n == DISTANCE_PAIRS) {
		p = oldest(node);
	} else {
		if (node->n == node->cap) {
			node->cap = node->cap ? 2 * node->cap : 4;
			node->pairs =
				alloc_must_resize(node->pairs, node->cap, sizeof *node->pairs);
		}
		p = &node->pairs[node->n++];
	}
	*p = (struct distance_pair){.to = to};
	return p;
}

void distance_note(struct distance *d, uint32_t from, const struct distance_pair *p)
{
	if (from >= DISTANCE_MEMBERS_MAX || from == p->to ||
		(p->to >= DISTANCE_MEMBERS_MAX && p->to != DISTANCE_COORDINATOR) ||
		!sane(p->rtt_s, DISTANCE_RTT_MAX) || !sane(p->up, DISTANCE_RATE_MAX) ||
		!sane(p->down, DISTANCE_RATE_MAX))
		return;
	struct distance_pair *kept = room(node_for(d, from), p->to);
	if (p->rtt_s > 0)
		kept->rtt_s = p->rtt_s;
	if (p->up > 0)
		kept->up = p->up;
	if (p->down > 0)
		kept->down = p->down;
	if (p->up > 0 || p->down > 0)
		kept->together = p->together;
	if (p->at_ns > kept->at_ns)
		kept->at_ns = p->at_ns;
	kept->reached = p->reached;
}

/* ---- places */

/* Where two places coincide a direction has to be chosen. */
static void any_direction(uint32_t a, uint32_t b, double out[static 3])
{
	double norm = 0;
	for (uint32_t i = 0; i < 3; i++) {
		out[i] = rng_unit(a, b, i) - 0.5;
		norm += out[i] * out[i];
	}
	norm = sqrt(norm);
	for (uint32_t i = 0; i < 3; i++)
		out[i] = norm > 0 ? out[i] / norm : i == 0;
}

static double flat_s(
	const struct distance_place *a, const struct distance_place *b, double out[static 3])
{
	double sum = 0;
	for (int i = 0; i < 3; i++) {
		out[i] = a->at[i] - b->at[i];
		sum += out[i] * out[i];
	}
	return sqrt(sum);
}

static void pull(struct distance *d, uint32_t member, const struct distance_pair *p)
{
	struct distance_place *a = &d->at[member].place;
	const struct distance_place b = distance_place(d, p->to);
	double away[3];
	if (p->rtt_s <= 0 || b.error >= 1)
		return;
	const double flat = flat_s(a, &b, away), heights = a->height + b.height,
		     norm = flat + heights, sure = a->error / (a->error + b.error),
		     wrong = fabs(norm - p->rtt_s) / p->rtt_s;
	const double step = CC * sure * (p->rtt_s - norm);
	if (flat > 0)
		for (int i = 0; i < 3; i++)
			away[i] /= norm;
	else
		any_direction(member, p->to, away);
	for (int i = 0; i < 3; i++)
		a->at[i] += step * away[i];
	if (norm > 0)
		a->height = fmax(HEIGHT_LEAST, a->height + step * heights / norm);
	/* Never quite 0 or 1: a place that is sure for ever could not follow a move. */
	a->error = fmin(0.99, fmax(0.02, wrong * CE * sure + a->error * (1 - CE * sure)));
}

void distance_settle(struct distance *d, uint32_t member)
{
	const struct node *node = node_of(d, member);
	for (uint32_t i = 0; node && i < node->n; i++)
		pull(d, member, &node->pairs[i]);
}

struct distance_place distance_place(const struct distance *d, uint32_t member)
{
	const struct node *node = node_of(d, member);
	if (member == DISTANCE_COORDINATOR)
		return (struct distance_place){.error = 0.02};
	return node ? node->place : (struct distance_place){.error = 1};
}

double distance_guess_s(const struct distance_place *a, const struct distance_place *b)
{
	double away[3];
	return a->error >= 1 || b->error >= 1 ? 0 : flat_s(a, b, away) + a->height + b->height;
}

/* ---- asking */

const struct distance_pair *distance_said(const struct distance *d, uint32_t from, uint32_t to)
{
	return find(node_of(d, from), to);
}

const struct distance_pair *distance_pairs(const struct distance *d, uint32_t from, size_t *n)
{
	const struct node *node = node_of(d, from);
	*n = node ? node->n : 0;
	return node ? node->pairs : NULL;
}

double distance_rtt_s(const struct distance *d, uint32_t a, uint32_t b)
{
	const struct distance_pair *one = distance_said(d, a, b), *other = distance_said(d, b, a);
	const double said = fmax(one ? one->rtt_s : 0, other ? other->rtt_s : 0);
	const struct distance_place at = distance_place(d, a), to = distance_place(d, b);
	return said > 0 ? said : distance_guess_s(&at, &to);
}

/* ---- on the wire */

static double rd_f32(struct rd *r)
{
	const uint32_t bits = rd_u32(r);
	float v;
	memcpy(&v, &bits, sizeof v);
	return (double)v;
}

enum err distance_item_read(
	const uint8_t bytes[static DISTANCE_ITEM], uint64_t now, struct distance_pair *out)
{
	struct rd r;
	rd_init(&r, bytes, DISTANCE_ITEM);
	*out = (struct distance_pair){.to = rd_u32(&r)};
	out->rtt_s = rd_u32(&r) / 1e6;
	out->up = rd_f32(&r);
	out->down = rd_f32(&r);
	const uint64_t age = rd_u32(&r) * CLOCK_MS;
	out->at_ns = now > age ? now - age : 0;
	out->reached = rd_u32(&r) & FLAG_REACHED;
	const bool good = out->to < DISTANCE_MEMBERS_MAX && out->rtt_s <= DISTANCE_RTT_MAX &&
			  sane(out->up, DISTANCE_RATE_MAX) && sane(out->down, DISTANCE_RATE_MAX);
	return good ? ERR_OK : ERR_syntax;
}
