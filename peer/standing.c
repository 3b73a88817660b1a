#include "peer/standing.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/saved.h"
#include "peer/standing_parts.h"
#include "round/record.h"

#define RAMP_STEPS 10
#define VECTORS \
	6 /* beside the trainer: replica and its rule's state, error feedback, w; W while G's loss \
	     is looked at */

static enum err take_memory(struct standing *s, struct why *why)
{
	size_t largest = 0;
	s->flights = alloc_must_zero(s->n_shards, sizeof *s->flights);
	for (uint32_t i = 0; i < s->n_shards; i++) {
		size_t n = trainer_count(s->trainer, i);
		buf_init(&s->flights[i].sent, contribution_bound(&s->exchange.codec, n));
		largest = n > largest ? n : largest;
	}
	s->sequences = alloc_must_zero(s->spec->train.batch, sizeof *s->sequences);
	s->w = alloc_try(largest, sizeof *s->w);
	return s->w ? ERR_OK
		    : err_why(why, ERR_nomem, "no memory for a shard of %zu parameters", largest);
}

enum err standing_new(const struct standing_config *config, struct standing **out, struct why *why)
{
	struct standing *s = alloc_must_zero(1, sizeof *s);
	s->spec = config->spec;
	s->key = config->key;
	s->member = config->member;
	s->dir = alloc_must_strdup(config->dir);
	s->series = (struct statefile_series){
		.dir = s->dir, .prefix = "local", .kind = "local", .run = &s->spec->id};
	struct trainer_config how = {.spec = config->spec,
		.corpus = config->corpus,
		.backend = config->backend,
		.threads = config->threads,
		.training = true,
		.memory = config->memory,
		.beside = VECTORS + config->spec->round.overlap,
		.stop = config->stop,
		.arg = config->arg};
	enum err e = exchange_find(s->spec, &s->exchange, why);
	if (!e)
		e = trainer_new(&how, &s->trainer, why);
	if (!e) {
		standing_keep(s, 0);
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

/* From now on it stands nowhere. */
void standing_forget(struct standing *s)
{
	for (uint32_t i = 0; s->flights && i < s->n_shards; i++) {
		feedback_free(s->flights[i].feedback);
		s->flights[i].feedback = NULL;
		buf_clear(&s->flights[i].sent);
	}
	replica_free(s->replica);
	ledger_free(s->ledger);
	s->replica = NULL;
	s->ledger = NULL;
	s->moved = s->following = s->own_listed = false;
	s->at = s->claimed = 0;
}

void standing_free(struct standing *s)
{
	if (!s)
		return;
	standing_forget(s);
	trainer_free(s->trainer);
	for (uint32_t i = 0; s->flights && i < s->n_shards; i++)
		buf_release(&s->flights[i].sent);
	free(s->flights);
	free(s->sequences);
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
	struct replica_shape shape = {.rule = s->exchange.rule, .n_shards = s->n_shards, .n = n};
	enum err e = replica_new(&shape, &s->replica);
	free(n);
	if (e)
		return err_why(why, e, "no memory for the replica of %u shards", s->n_shards);
	return replica_load(s->replica, from, head, why);
}

static enum err make_feedback(struct standing *s, struct why *why)
{
	for (uint32_t i = 0; i < s->n_shards; i++) {
		struct feedback_config how = {.codec = s->exchange.codec,
			.rule = s->exchange.rule.row,
			.decay = s->spec->codec.decay,
			.shard = i,
			.n = trainer_count(s->trainer, i)};
		if (feedback_new(&how, replica_params(s->replica, i), &s->flights[i].feedback))
			return err_why(
				why, ERR_nomem, "no memory for the error feedback of shard %u", i);
	}
	return ERR_OK;
}

/* The chain goes on from head; its beginning must be that of this run's states. */
static enum err make_ledger(struct standing *s, const struct ledger_head *head, struct why *why)
{
	struct hash *states = alloc_must_zero(s->n_shards, sizeof *states);
	for (uint32_t i = 0; i < s->n_shards; i++)
		states[i] = replica_hash(s->replica, i);
	struct hash genesis = ledger_genesis(&s->spec->id, states, s->n_shards);
	enum err e = ERR_OK;
	if (!head->sequence && !hash_equal(&genesis, &head->hash))
		e = err_why(why, ERR_fork,
			"the initial weights are not those that the ledger of this run begins "
			"with");
	else
		s->ledger = ledger_new_at(head, states, s->n_shards);
	free(states);
	return e;
}

/* G, ledger and an empty feedback, as the file has them. */
static enum err stand(struct standing *s, const struct statefile *from,
	const struct ledger_head *at, struct why *why)
{
	struct ledger_head head;
	enum err e = make_replica(s, from, &head, why);
	if (!e && at &&
		(head.sequence != at->sequence || head.round != at->round ||
			!hash_equal(&head.hash, &at->hash)))
		e = err_why(why, ERR_fork,
			"the snapshot stands at ledger entry %llu, not at the %llu that was signed "
			"for it",
			(unsigned long long)head.sequence, (unsigned long long)at->sequence);
	if (!e)
		e = make_feedback(s, why);
	if (!e)
		e = make_ledger(s, &head, why);
	s->confirmed = true;
	return e;
}

enum err standing_begin(
	struct standing *s, const char *snapshot, const struct ledger_head *at, struct why *why)
{
	struct statefile *file;
	standing_forget(s);
	enum err e = statefile_open(snapshot, "snapshot", &s->spec->id, &file, why);
	if (e)
		return e;
	e = stand(s, file, at, why);
	if (!e)
		e = trainer_load(s->trainer, file, false, 0, why);
	statefile_close(file);
	if (!e) {
		trainer_forget_moments(s->trainer);
		s->joiner = at->sequence > 0;
		/* A damaged one with a higher number would outlive those that are saved now. */
		statefile_prune(&s->series, 0);
		e = standing_save(s, why);
	}
	if (e)
		standing_forget(s);
	return e;
}

enum err standing_resume(struct standing *s, struct why *why)
{
	struct statefile *file;
	struct buf passed;
	uint64_t number;
	standing_forget(s);
	buf_init(&passed, 1 << 16);
	statefile_sweep(&s->series);
	enum err e = statefile_open_newest(&s->series, &file, &number, &passed, why);
	if (!e)
		saved_tell_passed(&passed);
	buf_release(&passed);
	if (e)
		return e;
	e = stand(s, file, NULL, why);
	if (!e)
		e = standing_file_read(s, file, why);
	statefile_close(file);
	if (e)
		standing_forget(s);
	return e;
}

struct ledger_head standing_head(const struct standing *s)
{
	return s->ledger ? ledger_at(s->ledger) : (struct ledger_head){0};
}

struct hash standing_state(const struct standing *s)
{
	return s->ledger ? replica_hash_all(s->replica) : (struct hash){0};
}

enum err standing_somewhere(const struct standing *s, struct why *why)
{
	if (!s->ledger)
		return err_why(why, ERR_state,
			"this peer stands nowhere yet: a saved state or a snapshot comes first");
	if (!s->confirmed)
		return err_why(why, ERR_state,
			"ledger entry %llu was applied, but the signed head that it leads to was "
			"not reached yet",
			(unsigned long long)ledger_at(s->ledger).sequence);
	return ERR_OK;
}

/* ---- a round */

bool standing_answers(const struct standing *s, const struct plan *plan)
{
	if (standing_somewhere(s, NULL))
		return false;
	struct span due[SPAN_MAX];
	uint32_t n_due = span_tail(plan->spans, plan->n_spans, standing_from(s, plan), due);
	for (uint32_t i = 0; i < s->n_shards; i++) {
		const struct contribution *c = &s->flights[i].says;
		if (!turns_has(&s->spec->round, plan->round, i))
			continue;
		if (!s->flights[i].sent.len || c->round != plan->round ||
			!hash_equal(&c->parent, &plan->parent.hash) ||
			!span_is_prefix(c->spans, c->n_spans, due, n_due))
			return false;
	}
	return true;
}

enum err standing_place(const struct standing *s, const struct plan *plan, struct why *why)
{
	enum err e = standing_somewhere(s, why);
	if (e)
		return e;
	const struct ledger_head at = ledger_at(s->ledger);
	if (!hash_equal(&at.hash, &plan->parent.hash))
		return err_why(why, ERR_wrong_parent,
			"the plan of round %llu starts from another ledger entry than %llu, where "
			"this peer is",
			(unsigned long long)plan->round, (unsigned long long)at.sequence);
	return ERR_OK;
}

enum err standing_ready(struct standing *s, const struct plan *plan, struct why *why)
{
	enum err e = standing_place(s, plan, why);
	if (e)
		return e;
	s->following = false;
	s->at = s->claimed = 0;
	for (uint32_t i = 0; i < s->n_shards; i++) {
		struct standing_flight *f = &s->flights[i];
		const float *g = replica_params(s->replica, i);
		if (feedback_in_flight(f->feedback)) {
			trainer_read(s->trainer, i, PARAMS_value, s->w);
			if (feedback_join(f->feedback, false, g, s->w))
				return err_why(why, ERR_nomem, "no memory to leave round %llu",
					(unsigned long long)plan->round);
		}
		buf_clear(&f->sent);
		trainer_write(s->trainer, i, PARAMS_value, g);
	}
	s->moved = false;
	return ERR_OK;
}

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

enum err standing_step(
	struct standing *s, const struct plan *plan, uint64_t step, double *loss, struct why *why)
{
	return standing_train(
		s, plan, step * s->spec->train.batch, standing_lr(s, plan, step), loss, why);
}

enum err standing_train(struct standing *s, const struct plan *plan, uint64_t first, double lr,
	double *loss, struct why *why)
{
	const uint32_t batch = s->spec->train.batch;
	enum err e = standing_somewhere(s, why);
	if (e)
		return e;
	if (first + batch > span_count(plan->spans, plan->n_spans))
		return err_why(why, ERR_range,
			"the plan of round %llu has no data for sequence %llu of it",
			(unsigned long long)plan->round, (unsigned long long)(first + batch));
	for (uint32_t i = 0; i < batch; i++)
		s->sequences[i] = span_at(plan->spans, plan->n_spans, first + i);
	e = trainer_step(s->trainer, s->sequences, lr, loss, why);
	if (!e)
		s->moved = true;
	return e;
}

static enum err cut_one(
	struct standing *s, const struct contribution *says, uint32_t shard, struct why *why)
{
	struct standing_flight *f = &s->flights[shard];
	struct planes planes;
	planes_init(&planes, codec_bound(&s->exchange.codec, trainer_count(s->trainer, shard)));
	trainer_read(s->trainer, shard, PARAMS_value, s->w);
	const uint64_t seed = contribution_seed(&says->run, says->round, shard);
	feedback_keep(f->feedback, s->k);
	enum err e = feedback_cut(f->feedback, seed, s->w, &planes, why);
	f->says = *says;
	f->says.shard = shard;
	if (!e) {
		e = contribution_seal(&f->says, &s->exchange.codec, &planes, s->key, &f->sent);
		if (e)
			(void)err_why(why, e, "no memory for the contribution of shard %u", shard);
	}
	planes_release(&planes);
	return e;
}

enum err standing_cut(struct standing *s, const struct plan *plan, uint64_t steps, struct why *why)
{
	enum err e = standing_somewhere(s, why);
	if (e)
		return e;
	const uint64_t from = standing_from(s, plan), to = steps * s->spec->train.batch;
	struct contribution says = {.run = s->spec->id,
		.parent = plan->parent.hash,
		.round = plan->round,
		.peer = s->member,
		.tokens = (to - from) * s->spec->train.seq};
	says.n_spans = span_tail(plan->spans, plan->n_spans, from, says.spans);
	says.n_spans = span_head(says.spans, says.n_spans, to - from, says.spans);
	for (uint32_t i = 0; !e && i < s->n_shards; i++)
		if (turns_has(&s->spec->round, plan->round, i))
			e = cut_one(s, &says, i, why);
	s->moved = false;
	if (e)
		standing_forget(s);
	return e;
}

void standing_keep(struct standing *s, uint32_t k)
{
	s->k = k ? k : s->exchange.codec.k;
}

const uint8_t *standing_sent(const struct standing *s, uint32_t shard, size_t *len)
{
	const struct buf *sent = &s->flights[shard].sent;
	*len = sent->len;
	return sent->len ? sent->data : NULL;
}

bool standing_confirmed(const struct standing *s)
{
	return s->ledger && s->confirmed;
}

uint64_t standing_listed(const struct standing *s)
{
	return s->listed / s->n_shards;
}

enum err standing_save(struct standing *s, struct why *why)
{
	enum err e = standing_somewhere(s, why);
	if (!e && s->moved)
		e = err_why(why, ERR_state, "steps that were not cut yet cannot be saved");
	return e ? e : standing_file_write(s, why);
}
