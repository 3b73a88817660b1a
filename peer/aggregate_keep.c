#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/aggregate_parts.h"
#include "round/normlimit.h"
#include "round/turns.h"

#define NAMED 16 /* peers that a sentence names */

/* ---- rounds */

static void forget_kept(struct aggregate *a, struct aggregate_shard *s)
{
	for (size_t i = 0; i < s->n_kept; i++) {
		a->held -= s->kept[i].len;
		free(s->kept[i].bytes);
	}
	free(s->kept);
	s->kept = NULL;
	s->n_kept = s->cap = 0;
}

static void forget_shard(struct aggregate *a, struct aggregate_shard *s)
{
	forget_kept(a, s);
	free(s->items);
	shared_drop(s->update);
	*s = (struct aggregate_shard){0};
}

void aggregate_keep_forget(struct aggregate *a, struct aggregate_round *r)
{
	for (uint32_t i = 0; r->shards && i < a->n_shards; i++)
		forget_shard(a, &r->shards[i]);
	free(r->shards);
	*r = (struct aggregate_round){0};
}

void aggregate_keep_open(struct aggregate *a, const struct aggregate_job *job)
{
	struct aggregate_round *now = &a->now;
	bool again =
		now->shards && now->round == job->round && hash_equal(&now->parent, &job->parent);
	if (!again) {
		aggregate_keep_forget(a, &a->before);
		if (now->shards && now->round + 1 == job->round)
			a->before = *now;
		else
			aggregate_keep_forget(a, now);
		*now = (struct aggregate_round){.round = job->round,
			.parent = job->parent,
			.shards = alloc_must_zero(a->n_shards, sizeof *now->shards)};
	}
	for (uint32_t i = 0; i < a->n_shards; i++) {
		if (!job->takes[i])
			forget_shard(a, &now->shards[i]);
		now->shards[i].takes = job->takes[i];
	}
}

enum err aggregate_keep_find(struct aggregate *a, uint64_t round, uint32_t shard,
	struct aggregate_round **out, struct why *why)
{
	*out = NULL;
	if (a->now.shards && a->now.round == round)
		*out = &a->now;
	else if (a->before.shards && a->before.round == round)
		*out = &a->before;
	if (!*out)
		return err_why(why, ERR_wrong_round,
			"nothing is kept here of round %" PRIu64 ", open is round %" PRIu64, round,
			a->now.round);
	if (shard >= a->n_shards)
		return err_why(why, ERR_shape,
			"there is no shard %" PRIu32 ": the model of this run has %" PRIu32, shard,
			a->n_shards);
	return ERR_OK;
}

/* ---- one contribution */

/* Whether it is for the open round and a shard that is taken here. */
static enum err check_place(struct aggregate *a, const struct contribution *says, struct why *why)
{
	const struct aggregate_round *now = &a->now;
	if (says->shard >= a->n_shards)
		return err_why(why, ERR_shape,
			"there is no shard %" PRIu32 ": the model of this run has %" PRIu32,
			says->shard, a->n_shards);
	if (!turns_has(&a->spec->round, says->round, says->shard))
		return err_why(why, ERR_shape,
			"it is not the turn of shard %" PRIu32 " in round %" PRIu64
			", where %" PRIu32 " fragments take turns",
			says->shard, says->round, a->spec->round.fragments);
	if (!now->shards || says->round > now->round)
		return err_why(why, ERR_busy,
			"round %" PRIu64 " is not open at this aggregator yet: try again later",
			says->round);
	if (says->round < now->round)
		return err_why(why, ERR_wrong_round,
			"the contribution is for round %" PRIu64 ", open is round %" PRIu64,
			says->round, now->round);
	if (!now->shards[says->shard].takes)
		return err_why(why, ERR_refused,
			"shard %" PRIu32 " of round %" PRIu64
			" is not taken here: the plan names another aggregator, or the coordinator",
			says->shard, says->round);
	return ERR_OK;
}

enum err aggregate_keep_expect(const struct aggregate *a, const struct aggregate_round *round,
	const struct contribution *says, struct gate_expect *out, struct why *why)
{
	/* Who was removed meanwhile is known still: whether it counts is the coordinator's to say,
	 * who may have counted it before. */
	const struct roster_member *m = a->roster ? roster_by_number(a->roster, says->peer) : NULL;
	if (!m)
		return err_why(why, ERR_unknown_peer,
			"the contribution is signed as peer %" PRIu32
			", who is not on the roster known here",
			says->peer);
	uint64_t count = span_count(says->spans, says->n_spans);
	if (count > LEDGER_TOKENS_MAX / a->spec->train.seq)
		return err_why(why, ERR_tokens,
			"the contribution of peer %" PRIu32 " claims %" PRIu64
			" sequences, more than any round has",
			says->peer, count);
	*out = (struct gate_expect){.run = a->spec->id,
		.parent = round->parent,
		.round = round->round,
		.shard = says->shard,
		.n = a->values[says->shard],
		.codec = a->exchange.codec,
		.peer = says->peer,
		.assigned = says->spans,
		.n_assigned = says->n_spans,
		.sequence_tokens = a->spec->train.seq,
		.norm_limit = normlimit(a->spec, a->exchange.rule.row, a->values[says->shard],
			count / a->spec->train.batch)};
	memcpy(out->key, m->sign.b, sizeof out->key);
	return ERR_OK;
}

/* Where the contribution of a peer is, or has to be put in. */
static size_t place_of(const struct aggregate_shard *s, uint32_t peer)
{
	size_t low = 0, high = s->n_kept;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->kept[middle].peer < peer)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct aggregate_kept *kept_of(const struct aggregate_shard *s, uint32_t peer)
{
	size_t at = place_of(s, peer);
	return at < s->n_kept && s->kept[at].peer == peer ? &s->kept[at] : NULL;
}

/* The round before makes room: it is in the ledger, and a witness that still asks for its bundle
 * gets a refusal. */
static enum err make_room(struct aggregate *a, size_t len, struct why *why)
{
	if (a->held + len > a->memory && a->before.shards)
		for (uint32_t i = 0; i < a->n_shards; i++)
			forget_kept(a, &a->before.shards[i]);
	if (a->held + len <= a->memory)
		return ERR_OK;
	return err_why(why, ERR_full,
		"this aggregator keeps %" PRIu64 " bytes of contributions and at most %" PRIu64
		": send it to the coordinator",
		a->held, a->memory);
}

static enum err keep(struct aggregate *a, struct aggregate_shard *s, struct aggregate_job *job,
	const struct gate_passed *passed, struct why *why)
{
	enum err err = make_room(a, job->len, why);
	if (err)
		return err;
	if (s->n_kept == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->kept = alloc_must_resize(s->kept, s->cap, sizeof *s->kept);
	}
	size_t at = place_of(s, passed->says.peer);
	memmove(&s->kept[at + 1], &s->kept[at], (s->n_kept - at) * sizeof *s->kept);
	s->kept[at] = (struct aggregate_kept){passed->says.peer, passed->id, job->bytes, job->len};
	s->n_kept++;
	a->held += job->len;
	job->bytes = NULL;
	return ERR_OK;
}

/* The signed head of what is kept. */
static enum err fill_receipt(
	const struct aggregate_kept *k, struct aggregate_result *r, struct why *why)
{
	struct contribution_view v;
	enum err err = contribution_parse(k->bytes, k->len, &v, why);
	if (err)
		return err;
	r->len = v.signed_len + SIGN_BYTES;
	r->bytes = alloc_must(r->len);
	memcpy(r->bytes, k->bytes, r->len);
	r->size = k->len;
	return ERR_OK;
}

enum err aggregate_keep_put(
	struct aggregate *a, struct aggregate_job *job, struct aggregate_result *r, struct why *why)
{
	struct contribution_view v;
	struct gate_expect expect;
	struct gate_passed passed;
	enum err err = contribution_parse(job->bytes, job->len, &v, why);
	if (err)
		return err;
	r->round = v.says.round;
	r->shard = v.says.shard;
	err = check_place(a, &v.says, why);
	if (!err)
		err = aggregate_keep_expect(a, &a->now, &v.says, &expect, why);
	if (err)
		return err;
	struct aggregate_shard *s = &a->now.shards[v.says.shard];
	const struct aggregate_kept *have = kept_of(s, v.says.peer);
	if (have) {
		expect.have = true;
		expect.have_id = have->id;
	}
	err = gate_check(&expect, job->bytes, job->len, &passed, why);
	codec_release(&passed.vector);
	if (!err)
		err = keep(a, s, job, &passed, why);
	else if (err == ERR_duplicate)
		err = ERR_OK;
	return err ? err : fill_receipt(kept_of(s, v.says.peer), r, why);
}

/* ---- what a list names */

static enum err tell_missing(const struct aggregate_item *const *missing, size_t n, struct why *why)
{
	char names[NAMED * 12 + 32];
	size_t at = 0;
	for (size_t i = 0; i < n && i < NAMED; i++)
		at += (size_t)snprintf(names + at, sizeof names - at, "%s%" PRIu32, i ? ", " : "",
			missing[i]->peer);
	if (n > NAMED)
		snprintf(names + at, sizeof names - at, " and %zu more", n - NAMED);
	return err_why(why, ERR_missing, "the listed contributions of these peers are not here: %s",
		names);
}

enum err aggregate_keep_parts(const struct aggregate_shard *s, const struct aggregate_item *items,
	size_t n, struct update_part **out, struct why *why)
{
	const struct aggregate_item *missing[NAMED];
	size_t n_missing = 0;
	struct update_part *parts = alloc_must_zero(n + 1, sizeof *parts);
	for (size_t i = 0; i < n; i++) {
		const struct aggregate_kept *k = kept_of(s, items[i].peer);
		if (k && hash_equal(&k->id, &items[i].id))
			parts[i] = (struct update_part){k->bytes, k->len};
		else if (n_missing++ < NAMED)
			missing[n_missing - 1] = &items[i];
	}
	if (n_missing) {
		free(parts);
		return tell_missing(missing, n_missing, why);
	}
	*out = parts;
	return ERR_OK;
}
