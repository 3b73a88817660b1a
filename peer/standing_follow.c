#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/standing_parts.h"

/* The data of what was made here and is not listed yet is this peer's in the new plan too. */
static bool goes_on(const struct standing *s, const struct plan *plan)
{
	return s->following && !memcmp(s->plan.listed, plan->listed, sizeof plan->listed) &&
	       span_is_prefix(s->plan.spans, s->plan.n_spans, plan->spans, plan->n_spans);
}

enum err standing_follow(struct standing *s, const struct plan *plan, bool *cut, struct why *why)
{
	enum err e = standing_place(s, plan, why);
	if (e)
		return e;
	*cut = standing_answers(s, plan);
	if (*cut && !s->following) { /* after a restart: W is where it was when that was cut */
		const struct contribution *c =
			&s->flights[turns_fragment(&s->spec->round, plan->round)].says;
		s->at = s->claimed = standing_from(s, plan) + span_count(c->spans, c->n_spans);
	} else if (!*cut && !goes_on(s, plan)) {
		if ((e = standing_ready(s, plan, why)))
			return e;
	}
	s->plan = *plan;
	s->following = true;
	return ERR_OK;
}

bool standing_follow_left(const struct standing *s)
{
	return s->following &&
	       s->at + s->spec->train.batch <= span_count(s->plan.spans, s->plan.n_spans);
}

bool standing_follow_uncut(const struct standing *s)
{
	const uint64_t from = standing_from(s, &s->plan);
	return s->following && s->at > (s->claimed > from ? s->claimed : from) &&
	       !standing_place(s, &s->plan, NULL);
}

enum err standing_follow_step(struct standing *s, uint64_t step, double *loss, struct why *why)
{
	const double lr = standing_lr(s, &s->plan, step);
	enum err e = standing_train(s, &s->plan, s->at, lr, loss, why);
	if (!e)
		s->at += s->spec->train.batch;
	return e;
}

enum err standing_follow_cut(struct standing *s, struct why *why)
{
	enum err e = standing_cut(s, &s->plan, s->at / s->spec->train.batch, why);
	if (!e)
		s->claimed = s->at;
	return e;
}

/* Records were applied: what they list is done with, what they do not travels with the next cut. */
void standing_follow_settle(struct standing *s)
{
	if (s->following && s->own_listed) {
		const struct spec_round *r = &s->spec->round;
		const uint64_t before = span_count(s->plan.spans, s->plan.n_spans);
		s->plan.listed[turns_fragment(r, s->plan.round)] = s->claimed;
		s->plan.n_spans = turns_settle(r, s->plan.spans, s->plan.n_spans, s->plan.listed);
		s->at -= before - span_count(s->plan.spans, s->plan.n_spans);
	}
	s->own_listed = false;
	s->claimed = 0;
	s->moved = s->at > 0; /* at is 0 where rounds do not overlap */
}

enum err standing_follow_validate(
	struct standing *s, uint64_t max_windows, struct trainer_validation *out, struct why *why)
{
	if (!s->following) /* W is G */
		return trainer_validate(s->trainer, max_windows, out, why);
	float **w = alloc_must_zero(s->n_shards, sizeof *w);
	enum err e = ERR_OK;
	for (uint32_t i = 0; !e && i < s->n_shards; i++) {
		w[i] = alloc_try(trainer_count(s->trainer, i), sizeof **w);
		if (!w[i])
			e = err_why(why, ERR_nomem, "no memory to look at the loss of shard %u", i);
	}
	for (uint32_t i = 0; !e && i < s->n_shards; i++) {
		trainer_read(s->trainer, i, PARAMS_value, w[i]);
		trainer_write(s->trainer, i, PARAMS_value, replica_params(s->replica, i));
	}
	if (!e) {
		e = trainer_validate(s->trainer, max_windows, out, why);
		for (uint32_t i = 0; i < s->n_shards; i++)
			trainer_write(s->trainer, i, PARAMS_value, w[i]);
	}
	for (uint32_t i = 0; i < s->n_shards; i++)
		free(w[i]);
	free(w);
	return e;
}
