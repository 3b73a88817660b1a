#include "round/rule.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "compress/floats.h"

#define BLOCK 4096u

static const struct rule_row *const rows[] = {
#define X(name) &rule_##name,
	RULE_LIST(X)
#undef X
};
#define N_ROWS (sizeof rows / sizeof rows[0])

enum err rule_find(
	const char *name, double lr, double momentum, struct rule_params *out, struct why *why)
{
	struct buf list;
	buf_init(&list, 1000);
	for (size_t i = 0; i < N_ROWS; i++) {
		if (!strcmp(rows[i]->name, name)) {
			buf_release(&list);
			*out = (struct rule_params){rows[i], lr, momentum};
			return ERR_OK;
		}
		buf_printf(&list, " %s", rows[i]->name);
	}
	enum err err =
		err_why(why, ERR_unsupported, "there is no rule \"%s\"; this program knows:%s",
			name, buf_ok(&list) ? (const char *)list.data : " others");
	buf_release(&list);
	return err;
}

enum err rule_suits(const struct rule_params *p, const struct codec_params *codec, struct why *why)
{
	const struct codec_row *row = codec_row(codec->codec);
	if (p->row->parameters && row->feedback)
		return err_why(why, ERR_unsupported,
			"rule %s averages parameters, which codec %s would distort: use codec raw",
			p->row->name, row->name);
	if (!p->row->parameters && !row->feedback)
		return err_why(why, ERR_unsupported,
			"codec %s sends parameters, which rule %s cannot use: use rule average",
			row->name, p->row->name);
	return ERR_OK;
}

/* ---- inputs in their order */

struct ordered {
	struct rule_input *by_peer;
	double *norm_squared, *weight; /* weight: tokens times the rule's scale */
	size_t *at;                    /* the next value of a sparse vector */
	double total;
};

static void release(struct ordered *o)
{
	free(o->by_peer);
	free(o->norm_squared);
	free(o->weight);
	free(o->at);
}

static int compare(const void *a, const void *b)
{
	const struct rule_input *x = a, *y = b;
	return (x->peer > y->peer) - (x->peer < y->peer);
}

static enum err check(const struct ordered *o, size_t count, size_t n, struct why *why)
{
	uint64_t total = 0;
	for (size_t i = 0; i < count; i++) {
		const struct rule_input *in = &o->by_peer[i];
		if (i > 0 && o->by_peer[i - 1].peer == in->peer)
			return err_why(
				why, ERR_duplicate, "peer %" PRIu32 " contributed twice", in->peer);
		if (in->vector->n != n)
			return err_why(why, ERR_shape,
				"peer %" PRIu32 " contributed %zu values to %zu", in->peer,
				in->vector->n, n);
		if (in->tokens < 1 || in->tokens > RULE_TOKENS_MAX - total)
			return err_why(why, ERR_tokens,
				"peer %" PRIu32 " contributed %" PRIu64 " tokens", in->peer,
				in->tokens);
		total += in->tokens;
	}
	return ERR_OK;
}

static enum err order(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	struct ordered *o)
{
	*o = (struct ordered){0};
	o->by_peer = alloc_try(count, sizeof *o->by_peer);
	o->norm_squared = alloc_try(count, sizeof *o->norm_squared);
	o->weight = alloc_try(count, sizeof *o->weight);
	o->at = alloc_try(count, sizeof *o->at);
	if (!o->by_peer || !o->norm_squared || !o->weight || !o->at)
		return ERR_nomem;
	memcpy(o->by_peer, inputs, count * sizeof *inputs);
	qsort(o->by_peer, count, sizeof *o->by_peer, compare);
	for (size_t i = 0; i < count; i++) {
		o->total += (double)o->by_peer[i].tokens;
		o->weight[i] = 1;
		if (p->row->scale)
			o->norm_squared[i] = decoded_norm_squared(o->by_peer[i].vector);
	}
	enum err err = p->row->scale ? p->row->scale(o->norm_squared, count, o->weight) : ERR_OK;
	for (size_t i = 0; i < count && !err; i++)
		o->weight[i] *= (double)o->by_peer[i].tokens;
	return err;
}

/* ---- the sums */

struct sums {
	double sum[BLOCK], senders[BLOCK];
};

/* Adds what input i has for [first, first + n). */
static void add(struct ordered *o, size_t i, size_t first, size_t n, struct sums *s)
{
	const struct decoded *d = o->by_peer[i].vector;
	double tokens = (double)o->by_peer[i].tokens, weight = o->weight[i];
	if (!d->index) {
		for (size_t j = 0; j < n; j++) {
			s->sum[j] += weight * (double)d->value[first + j];
			s->senders[j] += tokens;
		}
		return;
	}
	size_t at = o->at[i];
	for (; at < d->count && d->index[at] - first < n; at++) {
		s->sum[d->index[at] - first] += weight * (double)d->value[at];
		s->senders[d->index[at] - first] += tokens;
	}
	o->at[i] = at;
}

static enum err check_block(const struct rule_block *b, size_t first, struct why *why)
{
	for (size_t i = 0; i < b->n; i++)
		if (!floats_finite(b->params[i]) || (b->momentum && !floats_finite(b->momentum[i])))
			return err_why(why, ERR_not_finite,
				"value %zu of the outcome is beyond what a float holds", first + i);
	return ERR_OK;
}

static enum err run(const struct rule_params *p, struct ordered *o, size_t count,
	struct rule_state *state, struct why *why)
{
	struct sums *s = alloc_try(1, sizeof *s);
	enum err err = s ? ERR_OK : err_why(why, ERR_nomem, "no memory for sums");
	for (size_t first = 0; first < state->n && !err; first += BLOCK) {
		size_t n = state->n - first < BLOCK ? state->n - first : BLOCK;
		for (size_t j = 0; j < n; j++) {
			s->sum[j] = -0.0; // adding to it changes nothing, not even -0.0
			s->senders[j] = 0;
		}
		for (size_t i = 0; i < count; i++)
			add(o, i, first, n, s);
		struct rule_block b = {n, s->sum, s->senders, o->total, state->params + first,
			state->momentum ? state->momentum + first : NULL};
		p->row->step(p, &b);
		err = check_block(&b, first, why);
	}
	free(s);
	return err;
}

enum err rule_apply(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	struct rule_state *state, struct why *why)
{
	if (count == 0)
		return ERR_OK;
	if (count > RULE_PEERS_MAX)
		return err_why(why, ERR_range, "%zu contributions are more than %d", count,
			RULE_PEERS_MAX);
	struct ordered o;
	enum err err = order(p, inputs, count, &o);
	if (err)
		err = err_why(why, err, "no memory for %zu contributions", count);
	if (!err)
		err = check(&o, count, state->n, why);
	if (!err)
		err = run(p, &o, count, state, why);
	release(&o);
	return err;
}
