#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "peer/aggregate_parts.h"

static bool roster_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct roster_member *m = arg ? roster_by_number(arg, peer) : NULL;
	if (m)
		memcpy(out, m->sign.b, SIGN_PUBLIC);
	return m != NULL;
}

struct update_make aggregate_make_how(
	const struct aggregate *a, const struct aggregate_round *round, uint32_t shard)
{
	return (struct update_make){.expect = {.run = a->spec->id,
					    .parent = round->parent,
					    .codec = a->exchange.codec,
					    .merged = a->exchange.merged,
					    .n = a->values[shard],
					    .key = roster_key,
					    .arg = a->roster},
		.rule = a->exchange.rule,
		.round = round->round,
		.shard = shard};
}

static bool same_items(const struct aggregate_shard *s, const struct aggregate_job *job)
{
	if (!s->update || s->n_items != job->n)
		return false;
	for (size_t i = 0; i < job->n; i++)
		if (s->items[i].peer != job->items[i].peer ||
			!hash_equal(&s->items[i].id, &job->items[i].id))
			return false;
	return true;
}

static struct shared *share(struct buf *bytes)
{
	size_t n;
	uint8_t *all = buf_steal(bytes, &n);
	return shared_new(all, n);
}

static enum err make(const struct update_make *how, struct aggregate_shard *s,
	struct aggregate_job *job, struct why *why)
{
	struct update_part *parts = NULL;
	struct update_made made = {0};
	enum err err = aggregate_keep_parts(s, job->items, job->n, &parts, why);
	if (!err)
		err = update_make_bundle(how, parts, (uint32_t)job->n, &made, why);
	free(parts);
	if (!err)
		err = update_make_smaller(how, &made, why);
	if (!err) {
		shared_drop(s->update);
		free(s->items);
		s->kind = made.update.kind;
		s->update = share(&made.bytes);
		s->items = job->items;
		s->n_items = job->n;
		job->items = NULL;
	}
	update_make_release(&made);
	return err;
}

enum err aggregate_make_update(
	struct aggregate *a, struct aggregate_job *job, struct aggregate_result *r, struct why *why)
{
	struct aggregate_round *round;
	enum err err = aggregate_keep_find(a, job->round, job->shard, &round, why);
	if (err)
		return err;
	struct aggregate_shard *s = &round->shards[job->shard];
	const struct update_make how = aggregate_make_how(a, round, job->shard);
	if (!same_items(s, job))
		err = make(&how, s, job, why);
	if (!err)
		r->shared = shared_hold(s->update);
	return err;
}

/* Put together again: it is asked for once or twice, and would take as much room as all that it is
 * made of. */
static enum err bundle_again(const struct update_make *how, const struct aggregate_shard *s,
	struct shared **out, struct why *why)
{
	struct update_part *parts = NULL;
	struct buf bytes;
	enum err err = aggregate_keep_parts(s, s->items, s->n_items, &parts, why);
	if (err)
		return err;
	const struct update_head head = {.run = how->expect.run,
		.parent = how->expect.parent,
		.round = how->round,
		.shard = how->shard};
	buf_init(&bytes, SIZE_MAX / 2);
	err = update_encode(&head, parts, (uint32_t)s->n_items, &bytes, why);
	if (!err)
		*out = share(&bytes);
	buf_release(&bytes);
	free(parts);
	return err;
}

enum err aggregate_make_bundle(
	struct aggregate *a, struct aggregate_job *job, struct aggregate_result *r, struct why *why)
{
	struct aggregate_round *round;
	enum err err = aggregate_keep_find(a, job->round, job->shard, &round, why);
	if (err)
		return err;
	const struct aggregate_shard *s = &round->shards[job->shard];
	if (!s->update)
		return err_why(why, ERR_missing,
			"there is no bundle of round %" PRIu64 " shard %" PRIu32
			": nothing of it was gathered here",
			job->round, job->shard);
	if (s->kind == UPDATE_bundle) {
		r->shared = shared_hold(s->update);
		return ERR_OK;
	}
	const struct update_make how = aggregate_make_how(a, round, job->shard);
	return bundle_again(&how, s, &r->shared, why);
}
