#include "peer/standing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"
#include "peer/saved.h"

#define RAMP_STEPS 10
#define STATES_KEPT 2

struct standing {
	const struct spec *spec;
	const struct sign_key *key;
	struct trainer *trainer;
	struct rule_params rule;
	struct codec_params codec;
	struct replica *replica;
	struct ledger *ledger;
	struct feedback **feedback; /* a shard each */
	struct hash *sent;          /* planes of the contribution in flight, a shard each */
	uint32_t n_shards;
	uint32_t peer; /* own number, as the last plan said */
	bool joiner;   /* began in the middle of the run */
	struct statefile_series series;
	char *dir;
	float *w; /* the largest shard's size */
};

static enum err check_words(struct standing *s, struct why *why)
{
	const struct spec_codec *c = &s->spec->codec;
	const struct spec_outer *o = &s->spec->outer;
	enum err e = codec_find(c->name, c->chunk, c->k, &s->codec, why);
	if (!e)
		e = rule_find(o->rule, o->lr, o->momentum, &s->rule, why);
	return e ? e : rule_suits(&s->rule, &s->codec, why);
}

static enum err take_memory(struct standing *s, struct why *why)
{
	size_t largest = 0;
	for (uint32_t i = 0; i < s->n_shards; i++)
		if (trainer_count(s->trainer, i) > largest)
			largest = trainer_count(s->trainer, i);
	s->feedback = alloc_must_zero(s->n_shards, sizeof *s->feedback);
	s->sent = alloc_must_zero(s->n_shards, sizeof *s->sent);
	s->w = alloc_try(largest, sizeof *s->w);
	return s->w ? ERR_OK
		    : err_why(why, ERR_nomem, "no memory for a shard of %zu parameters", largest);
}

enum err standing_new(const struct standing_config *config, struct standing **out, struct why *why)
{
	struct standing *s = alloc_must_zero(1, sizeof *s);
	s->spec = config->spec;
	s->key = config->key;
	s->dir = alloc_must_strdup(config->dir);
	s->series = (struct statefile_series){
		.dir = s->dir, .prefix = "local", .kind = "local", .run = &s->spec->id};
	struct trainer_config how = {.spec = config->spec,
		.corpus = config->corpus,
		.backend = config->backend,
		.threads = config->threads};
	enum err e = check_words(s, why);
	if (!e)
		e = trainer_new(&how, &s->trainer, why);
	if (!e) {
		s->n_shards = trainer_shards(s->trainer);
		e = take_memory(s, why);
	}
	if (e) {
		standing_free(s);
		return e;
	}
	*out = s;
	return ERR_OK;
}

static void forget(struct standing *s)
{
	for (uint32_t i = 0; s->feedback && i < s->n_shards; i++) {
		feedback_free(s->feedback[i]);
		s->feedback[i] = NULL;
	}
	replica_free(s->replica);
	ledger_free(s->ledger);
	s->replica = NULL;
	s->ledger = NULL;
}

void standing_free(struct standing *s)
{
	if (!s)
		return;
	forget(s);
	trainer_free(s->trainer);
	free(s->feedback);
	free(s->sent);
	free(s->w);
	free(s->dir);
	free(s);
}

struct trainer *standing_trainer(struct standing *s)
{
	return s->trainer;
}

/* ---- beginning */

static enum err make_replica(
	struct standing *s, const struct statefile *from, struct ledger_head *head, struct why *why)
{
	size_t *n = alloc_must_zero(s->n_shards, sizeof *n);
	for (uint32_t i = 0; i < s->n_shards; i++)
		n[i] = trainer_count(s->trainer, i);
	struct replica_shape shape = {.rule = s->rule, .n_shards = s->n_shards, .n = n};
	enum err e = replica_new(&shape, &s->replica);
	free(n);
	if (e)
		return err_why(why, e, "no memory for the replica of %u shards", s->n_shards);
	return replica_load(s->replica, from, head, why);
}

static enum err make_ledger(struct standing *s, const struct ledger_head *head)
{
	struct hash *states = alloc_must_zero(s->n_shards, sizeof *states);
	for (uint32_t i = 0; i < s->n_shards; i++)
		states[i] = replica_hash(s->replica, i);
	s->ledger = ledger_new_at(head, states, s->n_shards);
	free(states);
	return s->ledger ? ERR_OK : ERR_nomem;
}

static enum err make_feedback(struct standing *s, struct why *why)
{
	for (uint32_t i = 0; i < s->n_shards; i++) {
		struct feedback_config how = {.codec = s->codec,
			.rule = s->rule.row,
			.decay = s->spec->codec.decay,
			.shard = i,
			.n = trainer_count(s->trainer, i)};
		if (feedback_new(&how, replica_params(s->replica, i), &s->feedback[i]))
			return err_why(
				why, ERR_nomem, "no memory for the error feedback of shard %u", i);
	}
	return ERR_OK;
}

static enum err stand(struct standing *s, const struct statefile *from,
	const struct ledger_head *at, struct why *why)
{
	struct ledger_head head;
	forget(s);
	enum err e = make_replica(s, from, &head, why);
	if (!e && at && (head.sequence != at->sequence || !hash_equal(&head.hash, &at->hash)))
		e = err_why(why, ERR_fork,
			"the snapshot stands at ledger entry %llu, not at the %llu that was signed "
			"for it",
			(unsigned long long)head.sequence, (unsigned long long)at->sequence);
	if (!e)
		e = make_ledger(s, &head);
	return e ? e : make_feedback(s, why);
}

enum err standing_begin(
	struct standing *s, const char *snapshot, const struct ledger_head *at, struct why *why)
{
	struct statefile *file;
	enum err e = statefile_open(snapshot, "snapshot", &s->spec->id, &file, why);
	if (e)
		return e;
	e = stand(s, file, at, why);
	if (!e)
		e = trainer_load(s->trainer, file, false, 0, why);
	statefile_close(file);
	if (e)
		return e;
	trainer_forget_moments(s->trainer);
	s->joiner = at->sequence > 0;
	return standing_save(s, why);
}

enum err standing_resume(struct standing *s, struct why *why)
{
	struct statefile *file;
	struct buf passed;
	uint64_t number, steps = 0, joiner = 0;
	buf_init(&passed, 1 << 16);
	enum err e = statefile_open_newest(&s->series, &file, &number, &passed, why);
	if (!e)
		saved_tell_passed(&passed);
	buf_release(&passed);
	if (e)
		return e;
	e = stand(s, file, NULL, why);
	if (!e)
		e = saved_number(file, "steps", &steps, why);
	if (!e)
		e = saved_number(file, "joiner", &joiner, why);
	if (!e)
		e = trainer_load(s->trainer, file, true, steps, why);
	for (uint32_t i = 0; !e && i < s->n_shards; i++)
		e = feedback_load(s->feedback[i], file, why);
	statefile_close(file);
	s->joiner = joiner != 0;
	return e;
}

struct ledger_head standing_head(const struct standing *s)
{
	return s->ledger ? ledger_at(s->ledger) : (struct ledger_head){0};
}

struct hash standing_state(const struct standing *s)
{
	return replica_hash_all(s->replica);
}

/* ---- a round */

double standing_lr(const struct standing *s, const struct plan *plan, uint64_t step)
{
	uint64_t done = step + 1 < plan->steps ? step + 1 : plan->steps;
	uint64_t share = plan->steps ? (uint64_t)((double)plan->planned_tokens * (double)done /
						  (double)plan->steps)
				     : 0;
	double lr = spec_lr(&s->spec->train, plan->ledger_tokens + share);
	uint64_t taken = trainer_steps(s->trainer) + 1;
	if (s->joiner && taken < RAMP_STEPS)
		lr *= (double)taken / RAMP_STEPS;
	return lr;
}

enum err standing_cut(struct standing *s, const struct plan *plan, uint32_t shard,
	const struct span *done, uint32_t n_done, struct buf *out, struct why *why)
{
	struct planes planes;
	planes_init(&planes, codec_bound(&s->codec, trainer_count(s->trainer, shard)));
	trainer_read(s->trainer, shard, PARAMS_value, s->w);
	enum err e = feedback_cut(s->feedback[shard], s->w, &planes, why);
	struct contribution c = {.run = s->spec->id,
		.parent = plan->parent.hash,
		.round = plan->round,
		.shard = shard,
		.peer = plan->member,
		.tokens = span_count(done, n_done) * s->spec->train.seq,
		.n_spans = n_done};
	memcpy(c.spans, done, n_done * sizeof *done);
	if (!e && contribution_seal(&c, &s->codec, &planes, s->key, out))
		e = err_why(why, ERR_nomem, "no memory for the contribution of shard %u", shard);
	s->sent[shard] = c.planes;
	s->peer = plan->member;
	planes_release(&planes);
	return e;
}

static bool roster_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct roster_member *m = roster_by_number(arg, peer);
	if (m)
		memcpy(out, m->sign.b, SIGN_PUBLIC);
	return m != NULL;
}

/* The ledger lists what we sent: same number, same planes. */
static bool lists_ours(const struct standing *s, const struct ledger_entry *e)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (e->accepted[i].peer == s->peer)
			return hash_equal(&e->accepted[i].planes, &s->sent[e->shard]);
	return false;
}

static enum err apply_one(
	struct standing *s, struct record *r, const struct roster *roster, struct why *why)
{
	const struct ledger_entry *entry = &r->entry;
	if (entry->shard >= s->n_shards)
		return err_why(why, ERR_shape, "ledger entry %llu is for shard %u of %u",
			(unsigned long long)entry->sequence, entry->shard, s->n_shards);
	const uint32_t shard = entry->shard;
	const size_t n = trainer_count(s->trainer, shard);
	/* Steps that were never cut (the round went on without us) are dropped: their data was
	 * given to others. */
	if (feedback_in_flight(s->feedback[shard]))
		trainer_read(s->trainer, shard, PARAMS_value, s->w);
	else
		memcpy(s->w, replica_params(s->replica, shard), n * sizeof *s->w);
	struct update_expect expect = {.run = s->spec->id,
		.parent = ledger_parent(s->ledger),
		.codec = s->codec,
		.n = n,
		.key = roster_key,
		.arg = (void *)(uintptr_t)roster};
	enum err e = update_verify(&r->update, &expect, why);
	if (!e)
		e = ledger_append(s->ledger, entry, why);
	if (!e)
		e = replica_apply(s->replica, entry, &r->update, why);
	if (e)
		return e;
	feedback_join(s->feedback[shard],
		feedback_in_flight(s->feedback[shard]) && lists_ours(s, entry),
		replica_params(s->replica, shard), s->w);
	trainer_write(s->trainer, shard, PARAMS_value, s->w);
	return ERR_OK;
}

enum err standing_apply(struct standing *s, const struct standing_record *records, size_t n,
	const struct ledger_head *head, const struct roster *roster, struct why *why)
{
	struct record *open = alloc_must_zero(n ? n : 1, sizeof *open);
	struct ledger_head at = ledger_at(s->ledger);
	enum err e = ERR_OK;
	for (size_t i = 0; !e && i < n; i++)
		e = record_open(records[i].bytes, records[i].len, &open[i], why);
	if (!e)
		e = record_chain(open, n, &at, head, why);
	for (size_t i = 0; !e && i < n; i++)
		e = apply_one(s, &open[i], roster, why);
	for (size_t i = 0; i < n; i++)
		record_release(&open[i]);
	free(open);
	return e;
}

/* ---- saving: when nothing is in flight, so that W is G and param.N serves for both */

static enum err save_sections(struct standing *s, struct statefile_out *out, struct why *why)
{
	enum err e = trainer_save(s->trainer, out, why);
	for (uint32_t i = 0; !e && i < s->n_shards; i++) {
		const float *momentum = replica_momentum(s->replica, i);
		char name[STATEFILE_NAME_MAX];
		snprintf(name, sizeof name, "momentum.%u", i);
		if (momentum)
			e = statefile_add(out, name, momentum,
				trainer_count(s->trainer, i) * sizeof *momentum, why);
		if (!e)
			e = feedback_save(s->feedback[i], out, why);
	}
	return e;
}

enum err standing_save(struct standing *s, struct why *why)
{
	struct ledger_head at = ledger_at(s->ledger);
	char hex[HASH_HEX];
	hash_hex(&at.hash, hex);
	json_t *meta = json_pack("{s:I, s:I, s:s, s:I, s:I}", "round", (json_int_t)at.round,
		"sequence", (json_int_t)at.sequence, "head", hex, "steps",
		(json_int_t)trainer_steps(s->trainer), "joiner", (json_int_t)s->joiner);
	struct statefile_head head = {.kind = "local", .run = s->spec->id, .meta = meta};
	struct statefile_out *out = NULL;
	char *path = statefile_path(&s->series, at.round);
	enum err e = statefile_create(path, &head, &out, why);
	if (!e)
		e = save_sections(s, out, why);
	if (!e)
		e = statefile_commit(out, why);
	else
		statefile_discard(out);
	free(path);
	json_decref(meta);
	if (!e)
		statefile_prune(&s->series, STATES_KEPT);
	return e;
}
