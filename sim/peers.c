#include "sim/peers.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "round/contribution.h"
#include "round/turns.h"
#include "sim/pacing.h"
#include "sim/peers_parts.h"
#include "sim/world.h"

#define SILENCE (6 * CLOCK_SECOND) /* until a link counts as lost, as serve's --timeout */
#define STREAM_DEATH 0x64696500u

static uint32_t shards(const struct peers *p)
{
	return p->w->graph->n_shards;
}

struct peers *peers_new(struct world *w)
{
	struct peers *p = alloc_must_zero(1, sizeof *p);
	p->w = w;
	p->n = w->scenario->peers + 1;
	p->at = alloc_must_zero(p->n, sizeof *p->at);
	for (uint32_t i = 1; i < p->n; i++)
		p->at[i].group = scenario_member(w->scenario, i);
	p->honest = alloc_must_zero(shards(p), sizeof *p->honest);
	for (uint32_t i = 0; i < shards(p); i++)
		buf_init(&p->honest[i],
			contribution_bound(&w->exchange.codec, (size_t)w->graph->shard_params[i]));
	return p;
}

void peers_free(struct peers *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->n; i++) {
		standing_free(p->at[i].standing);
		free(p->at[i].dir);
	}
	for (uint32_t i = 0; i < shards(p); i++)
		buf_release(&p->honest[i]);
	free(p->honest);
	free(p->at);
	free(p);
}

uint64_t peers_instance(const struct peers *p, uint32_t member)
{
	return p ? p->at[member].instance : 0;
}

void peers_send(struct peers *p, uint32_t member, struct letter *l)
{
	world_post(p->w, member, p->at[member].instance, l);
}

/* ---- a process begins and ends */

static void plan_death(struct peers *p, uint32_t member)
{
	const struct peer *e = &p->at[member];
	if (e->group->dies_every_s <= 0)
		return;
	const double factor =
		0.5 + rng_unit(p->w->scenario->seed, STREAM_DEATH + member, e->instance);
	world_at(p->w, p->w->now + (uint64_t)(factor * e->group->dies_every_s * 1e9), EVENT_die,
		member);
}

static void say_place(struct peers *p, uint32_t member, enum letter_kind kind)
{
	struct letter *l = letter_new(kind);
	l->head = standing_head(p->at[member].standing);
	l->state = standing_state(p->at[member].standing);
	peers_send(p, member, l);
}

static void begin_rate(struct peers *p, struct peer *e)
{
	e->rate = (struct rate_ask){.most = p->w->exchange.codec,
		.up = e->group->up,
		.down = e->group->down,
		.peers = p->w->spec->round.peers_min};
	turns_rate(&p->w->spec->round, shards(p), p->w->graph->shard_params, &e->rate);
}

enum err peers_start(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	struct world *w = p->w;
	if (!e->dir)
		e->dir = alloc_must_printf("%s/member-%u", w->dir, member);
	const struct standing_config how = {.spec = w->spec,
		.corpus = w->data.corpus,
		.key = w->keys[member],
		.member = member,
		.dir = e->dir,
		.backend = "cpu",
		.threads = 1};
	enum err err = file_mkdirs(e->dir, 0700, why);
	if (!err)
		err = standing_new(&how, &e->standing, why);
	if (err)
		return err;
	e->since_ns = w->now;
	network_reset(&w->network, member, w->now);
	begin_rate(p, e);
	plan_death(p, member);
	err = standing_resume(e->standing, why);
	if (err && err != ERR_missing)
		return err;
	if (err)
		peers_send(p, member, letter_new(LETTER_newcomer));
	else
		say_place(p, member, LETTER_hello);
	return ERR_OK;
}

static void add_up(struct peers *p, const struct peer *e)
{
	p->w->tally.could += e->group->speed * clock_seconds(p->w->now - e->since_ns);
}

void peers_die(struct peers *p, uint32_t member)
{
	struct peer *e = &p->at[member];
	add_up(p, e);
	standing_free(e->standing);
	e->standing = NULL;
	e->plan = (struct plan){0};
	e->training = e->validating = false;
	e->follow = (struct follow){0};
	e->cut_ns = 0;
	p->w->tally.deaths++;
	world_at(p->w, p->w->now + SILENCE, EVENT_lost, member);
	e->instance++;
	if (e->group->back_after_s > 0)
		world_at(p->w, p->w->now + (uint64_t)(e->group->back_after_s * 1e9), EVENT_start,
			member);
}

void peers_stop(struct peers *p)
{
	for (uint32_t i = 1; i < p->n; i++)
		if (p->at[i].standing)
			add_up(p, &p->at[i]);
}

/* ---- handing over */

static enum err lie(
	struct peers *p, uint32_t member, uint32_t shard, struct shared **out, struct why *why)
{
	const struct peer *e = &p->at[member];
	size_t len;
	const uint8_t *sent = standing_sent(e->standing, shard, &len);
	const struct lies_ask ask = {.lie = e->group->lie,
		.codec = p->w->exchange.codec,
		.n = (size_t)p->w->graph->shard_params[shard],
		.key = p->w->keys[member],
		.own = sent,
		.own_len = len,
		.other = p->honest[shard].len ? p->honest[shard].data : NULL,
		.other_len = p->honest[shard].len};
	struct buf bytes;
	buf_init(&bytes, p->honest[shard].max);
	enum err err = lies_tell(&ask, &bytes, why);
	if (!err) {
		size_t n;
		uint8_t *taken = buf_steal(&bytes, &n);
		*out = shared_new(taken, n);
	}
	buf_release(&bytes);
	return err;
}

enum err peers_hand_over(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	for (uint32_t shard = 0; shard < shards(p); shard++) {
		struct letter *l;
		struct shared *bytes = NULL;
		size_t len;
		if (!turns_has(&p->w->spec->round, e->plan.round, shard))
			continue;
		const uint8_t *sent = standing_sent(e->standing, shard, &len);
		if (e->group->lie == LIE_none) {
			bytes = shared_copy(sent, len);
			buf_clear(&p->honest[shard]);
			buf_put(&p->honest[shard], sent, len);
		} else {
			enum err err = lie(p, member, shard, &bytes, why);
			if (err)
				return err;
		}
		l = letter_new(LETTER_contribution);
		letter_add(l, bytes);
		shared_drop(bytes);
		peers_send(p, member, l);
	}
	if (!e->cut_ns) /* of a process before this one, else */
		e->cut_ns = p->w->now;
	e->cut_round = e->plan.round;
	return ERR_OK;
}

/* ---- training */

static void say_progress(struct peers *p, uint32_t member)
{
	const struct peer *e = &p->at[member];
	struct letter *l = letter_new(LETTER_progress);
	l->round = e->plan.round;
	l->steps = e->steps;
	l->tokens_per_s = e->group->speed;
	peers_send(p, member, l);
}

enum err peers_validate(struct peers *p, uint32_t member, struct why *why)
{
	const struct peer *e = &p->at[member];
	struct trainer_validation v;
	enum err err = standing_follow_validate(e->standing, 0, &v, why);
	if (err)
		return err;
	struct letter *l = letter_new(LETTER_loss);
	l->round = e->plan.parent.round;
	l->per_token = v.per_token;
	l->per_byte = v.per_byte;
	l->steps = v.tokens;
	peers_send(p, member, l);
	return ERR_OK;
}

/* Fewer values where the link is slow, as member_rate.c has it. */
void peers_pick_rate(struct peer *e)
{
	char text[RATE_TEXT];
	if (e->plan.seconds <= 0)
		return;
	e->rate.round_s = e->plan.seconds;
	e->rate.before = rate_pick(&e->rate, text);
	standing_keep(e->standing, e->rate.before.k);
}

enum err peers_cut(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	if (e->group->dies_every_s > 0) {
		enum err err = standing_save(e->standing, why);
		if (err)
			return err;
	}
	e->cut_ns = p->w->now;
	say_progress(p, member);
	return peers_hand_over(p, member, why);
}

static enum err train(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	double loss;
	enum err err = ERR_OK;
	for (uint64_t i = 0; !err && i < e->steps; i++)
		err = standing_step(e->standing, &e->plan, i, &loss, why);
	if (err)
		return err;
	peers_pick_rate(e);
	err = standing_cut(e->standing, &e->plan, e->steps, why);
	return err ? err : peers_cut(p, member, why);
}

void peers_compute(struct peers *p, uint32_t member, uint64_t takes_ns)
{
	p->at[member].training = true;
	p->at[member].done_ns = p->w->now + takes_ns;
	world_at(p->w, p->at[member].done_ns, EVENT_trained, member);
}

uint64_t peers_validation_ns(const struct peers *p, uint32_t member)
{
	const uint32_t seq = p->w->spec->train.seq;
	const uint64_t n = corpus_sequences(p->w->data.corpus, CORPUS_validation, seq);
	return pacing_validation(n * seq, p->at[member].group->speed);
}

static void begin_training(struct peers *p, uint32_t member)
{
	struct peer *e = &p->at[member];
	uint64_t takes = 0;
	e->steps = pacing_steps(&e->plan, p->w->spec, e->group->speed, &takes);
	if (e->steps)
		peers_compute(p, member, takes);
}

/* All is computed at the moment at which it is done: who dies before has cost nothing. */
enum err peers_trained(struct peers *p, uint32_t member, struct why *why)
{
	struct peer *e = &p->at[member];
	if (e->follow.on)
		return follow_go(p, member, why);
	if (!e->training || e->done_ns != p->w->now)
		return ERR_OK; /* given up meanwhile */
	e->training = false;
	enum err err = standing_ready(e->standing, &e->plan, why);
	if (err || !e->validating)
		return err ? err : train(p, member, why);
	e->validating = false;
	err = peers_validate(p, member, why);
	if (!err)
		begin_training(p, member);
	return err;
}

/* ---- letters */

static enum err on_plan(struct peers *p, uint32_t member, const struct plan *plan, struct why *why)
{
	struct peer *e = &p->at[member];
	const struct ledger_head at = standing_head(e->standing);
	if (p->w->spec->round.overlap && plan->steps) {
		e->follow.next = *plan;
		e->follow.waits = true;
		return follow_plan(p, member, why);
	}
	if (!hash_equal(&at.hash, &plan->parent.hash))
		return ERR_OK; /* of a round that is past */
	e->follow = (struct follow){0};
	if (e->training && e->plan.round == plan->round && e->plan.steps == plan->steps)
		return ERR_OK; /* told again */
	e->plan = *plan;
	if (plan->steps && standing_answers(e->standing, plan))
		return peers_hand_over(p, member, why);
	e->validating = plan->validate;
	if (plan->validate)
		peers_compute(p, member, peers_validation_ns(p, member));
	else
		begin_training(p, member);
	return ERR_OK;
}

static enum err on_snapshot(
	struct peers *p, uint32_t member, const struct letter *l, struct why *why)
{
	struct peer *e = &p->at[member];
	e->follow = (struct follow){0};
	enum err err = standing_begin(e->standing, l->path, &l->head, why);
	if (err == ERR_missing) { /* it was on its way for so long that two newer ones came */
		peers_send(p, member, letter_new(LETTER_newcomer));
		return ERR_OK;
	}
	if (!err)
		say_place(p, member, LETTER_hello);
	return err;
}

static enum err on_records(
	struct peers *p, uint32_t member, const struct letter *l, struct why *why)
{
	struct peer *e = &p->at[member];
	struct standing_record *list = alloc_must_zero(l->n, sizeof *list);
	for (uint32_t i = 0; i < l->n; i++)
		list[i] =
			(struct standing_record){shared_data(l->bytes[i]), shared_len(l->bytes[i])};
	if (!e->follow.on)
		e->training = false; /* what was not cut is of no use any more */
	enum err err = standing_apply(e->standing, list, l->n, &l->head, p->w->roster, why);
	free(list);
	if (err)
		return err;
	if (e->cut_ns) {
		tally_delay(&p->w->tally, e->cut_round, clock_seconds(p->w->now - e->cut_ns));
		e->cut_ns = 0;
	}
	e->rate.peers = l->count;
	say_place(p, member, LETTER_report);
	return follow_plan(p, member, why);
}

bool peers_busy(const struct peers *p, uint32_t member, uint64_t *until_ns)
{
	const struct peer *e = &p->at[member];
	*until_ns = e->done_ns;
	return e->follow.on && e->training;
}

enum err peers_letter(struct peers *p, uint32_t member, const struct letter *l, struct why *why)
{
	switch (l->kind) {
	case LETTER_snapshot: return on_snapshot(p, member, l, why);
	case LETTER_plan: return on_plan(p, member, &l->plan, why);
	case LETTER_records: return on_records(p, member, l, why);
	case LETTER_refusal: /* it says why; nothing can be done about it */
	default: return ERR_OK;
	}
}
