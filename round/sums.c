#include "round/sums.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

struct sums {
	bool per_sender;
	size_t count;
	struct rule_input *by_peer;
	double *norm_squared, *weight; /* weight: tokens times the rule's scale */
	struct codec_reader **readers; /* one for each input */
	double total;                  /* tokens of all */
	double *sum, *senders;         /* of one chunk: weighted values, and tokens of who sent */
};

/* ---- inputs in their order */

static int compare(const void *a, const void *b)
{
	const struct rule_input *x = a, *y = b;
	return (x->peer > y->peer) - (x->peer < y->peer);
}

static enum err check_shape(
	const struct rule_input *in, const struct codec_params *as, size_t n, struct why *why)
{
	const struct codec_vector *v = in->vector;
	if (v->n != n)
		return err_why(why, ERR_shape, "peer %" PRIu32 " contributed %zu values to %zu",
			in->peer, v->n, n);
	if (v->params.chunk != as->chunk || v->params.dct != as->dct)
		return err_why(why, ERR_shape,
			"peer %" PRIu32 " contributed %schunks of %" PRIu32
			", another one %schunks of %" PRIu32,
			in->peer, v->params.dct ? "a DCT's " : "", v->params.chunk,
			as->dct ? "a DCT's " : "", as->chunk);
	return ERR_OK;
}

static enum err check(const struct sums *s, size_t n, struct why *why)
{
	uint64_t total = 0;
	for (size_t i = 0; i < s->count; i++) {
		const struct rule_input *in = &s->by_peer[i];
		if (i > 0 && s->by_peer[i - 1].peer == in->peer)
			return err_why(
				why, ERR_duplicate, "peer %" PRIu32 " contributed twice", in->peer);
		enum err err = check_shape(in, &s->by_peer[0].vector->params, n, why);
		if (err)
			return err;
		if (in->tokens < 1 || in->tokens > RULE_TOKENS_MAX - total)
			return err_why(why, ERR_tokens,
				"peer %" PRIu32 " contributed %" PRIu64 " tokens", in->peer,
				in->tokens);
		total += in->tokens;
	}
	return ERR_OK;
}

static enum err weigh(struct sums *s, const struct rule_row *row)
{
	for (size_t i = 0; i < s->count; i++) {
		s->total += (double)s->by_peer[i].tokens;
		s->norm_squared[i] = s->by_peer[i].vector->norm_squared;
		s->weight[i] = 1;
	}
	enum err err = row->scale ? row->scale(s->norm_squared, s->count, s->weight) : ERR_OK;
	for (size_t i = 0; i < s->count && !err; i++)
		s->weight[i] *= (double)s->by_peer[i].tokens;
	return err;
}

/* ---- life */

void sums_free(struct sums *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->readers && i < s->count; i++)
		codec_reader_free(s->readers[i]);
	free(s->readers);
	free(s->by_peer);
	free(s->norm_squared);
	free(s->weight);
	free(s->sum);
	free(s->senders);
	free(s);
}

static enum err take_memory(struct sums *s, uint32_t chunk)
{
	s->by_peer = alloc_try(s->count, sizeof *s->by_peer);
	s->norm_squared = alloc_try(s->count, sizeof *s->norm_squared);
	s->weight = alloc_try(s->count, sizeof *s->weight);
	s->readers = alloc_try(s->count, sizeof *s->readers);
	s->sum = alloc_try(chunk, sizeof *s->sum);
	s->senders = alloc_try(chunk, sizeof *s->senders);
	for (size_t i = 0; s->readers && i < s->count; i++)
		s->readers[i] = NULL;
	bool all = s->by_peer && s->norm_squared && s->weight && s->readers && s->sum && s->senders;
	return all ? ERR_OK : ERR_nomem;
}

static enum err open_readers(struct sums *s)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < s->count && !err; i++)
		err = codec_reader_new(s->by_peer[i].vector, &s->readers[i]);
	return err;
}

enum err sums_new(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	size_t n, struct sums **out, struct why *why)
{
	if (count > RULE_PEERS_MAX)
		return err_why(why, ERR_range, "%zu contributions are more than %d", count,
			RULE_PEERS_MAX);
	struct sums *s = alloc_must_zero(1, sizeof *s);
	s->per_sender = p->row->per_sender;
	s->count = count;
	enum err err = take_memory(s, inputs[0].vector->params.chunk);
	if (err)
		err_why(why, err, "no memory for %zu contributions", count);
	if (!err) {
		memcpy(s->by_peer, inputs, count * sizeof *inputs);
		qsort(s->by_peer, count, sizeof *s->by_peer, compare);
		err = check(s, n, why);
	}
	if (!err && (weigh(s, p->row) || open_readers(s)))
		err = err_why(why, ERR_nomem, "no memory to add up %zu contributions", count);
	if (err)
		sums_free(s);
	else
		*out = s;
	return err;
}

/* ---- chunks */

static void clear(struct sums *s, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		s->sum[i] = -0.0; // adding to it changes nothing, not even -0.0
		s->senders[i] = 0;
	}
}

static void add(struct sums *s, size_t i, const struct codec_chunk *c)
{
	const double tokens = (double)s->by_peer[i].tokens, weight = s->weight[i];
	for (uint32_t j = 0; j < c->m; j++) {
		uint32_t at = c->place ? c->place[j] : j;
		s->sum[at] += weight * (double)c->value[j];
		s->senders[at] += tokens;
	}
}

static void divide(struct sums *s, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		double by = s->per_sender ? s->senders[i] : s->total;
		s->sum[i] = s->senders[i] > 0 ? s->sum[i] / by : 0;
	}
}

bool sums_next(struct sums *s, struct sums_chunk *out)
{
	struct codec_chunk c = {0};
	for (size_t i = 0; i < s->count; i++) {
		if (!codec_reader_next(s->readers[i], &c))
			return false;
		if (i == 0)
			clear(s, c.len);
		add(s, i, &c);
	}
	divide(s, c.len);
	*out = (struct sums_chunk){c.first, c.len, s->sum};
	return true;
}
