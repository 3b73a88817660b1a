#include "round/weighed.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

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

static enum err check(const struct rule_input *by_peer, size_t count, size_t n, struct why *why)
{
	uint64_t total = 0;
	for (size_t i = 0; i < count; i++) {
		const struct rule_input *in = &by_peer[i];
		if (i > 0 && by_peer[i - 1].peer == in->peer)
			return err_why(
				why, ERR_duplicate, "peer %" PRIu32 " contributed twice", in->peer);
		enum err err = check_shape(in, &by_peer[0].vector->params, n, why);
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

static enum err weigh(
	const struct rule_row *row, const struct rule_input *by_peer, struct weighed *w)
{
	const size_t count = w->config.count;
	double *norm_squared = alloc_try(count, sizeof *norm_squared);
	double *scale = alloc_try(count, sizeof *scale);
	enum err err = norm_squared && scale ? ERR_OK : ERR_nomem;
	for (size_t i = 0; i < count && !err; i++) {
		norm_squared[i] = by_peer[i].vector->norm_squared;
		scale[i] = 1;
	}
	if (!err && row->scale)
		err = row->scale(norm_squared, count, scale);
	for (size_t i = 0; i < count && !err; i++) {
		const double tokens = (double)by_peer[i].tokens;
		w->inputs[i] = (struct merge_input){
			.vector = by_peer[i].vector, .weight = scale[i] * tokens, .part = tokens};
	}
	free(norm_squared);
	free(scale);
	return err;
}

enum err weighed_init(const struct rule_params *p, const struct rule_input *inputs, size_t count,
	size_t n, struct weighed *out, struct why *why)
{
	*out = (struct weighed){0};
	if (count > RULE_PEERS_MAX)
		return err_why(why, ERR_range, "%zu contributions are more than %d", count,
			RULE_PEERS_MAX);
	struct rule_input *by_peer = alloc_try(count, sizeof *by_peer);
	out->inputs = alloc_try(count, sizeof *out->inputs);
	out->config = (struct merge_config){out->inputs, count, p->row->per_sender};
	enum err err = by_peer && out->inputs ? ERR_OK : ERR_nomem;
	if (!err) {
		memcpy(by_peer, inputs, count * sizeof *inputs);
		qsort(by_peer, count, sizeof *by_peer, compare);
		err = check(by_peer, count, n, why);
	}
	if (!err)
		err = weigh(p->row, by_peer, out);
	if (err == ERR_nomem)
		err_why(why, err, "no memory to add up %zu contributions", count);
	if (err)
		weighed_release(out);
	free(by_peer);
	return err;
}

void weighed_release(struct weighed *w)
{
	if (!w)
		return;
	free(w->inputs);
	*w = (struct weighed){0};
}
