#include "sim/coordinator.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/members.h"
#include "coordinator/rounds.h"
#include "round/turns.h"
#include "sim/intake.h"
#include "sim/peers.h"
#include "sim/archive.h"
#include "sim/world.h"

#define NOTHING UINT64_MAX /* sent: what it misses comes with its next hello */

struct member {
	bool linked;
	uint64_t instance;
	uint64_t sent; /* the last entry that is on its way to it */
	uint64_t at;   /* and the last that it has said to have applied */
};

struct coordinator {
	struct world *w;
	struct rounds *rounds;
	struct archive archive;
	struct intake intake;
	struct member *members; /* by number */
	uint32_t n;
	uint32_t validator;
	uint64_t validates; /* the round whose state's loss was asked for */
	bool have_loss;
	uint64_t loss_round;
	uint32_t dropped, listed; /* in the open round; by the last one that was closed */
	uint64_t tick_ns;         /* the earliest that is in the queue; UINT64_MAX: none */
};

enum err coordinator_new(struct world *w, struct coordinator **out, struct why *why)
{
	struct coordinator *c = alloc_must_zero(1, sizeof *c);
	c->w = w;
	c->n = w->scenario->peers + 1;
	c->members = alloc_must_zero(c->n, sizeof *c->members);
	c->validator = MEMBERS_NONE;
	c->tick_ns = UINT64_MAX;
	enum err err = archive_open(&c->archive, w->spec, w->graph, w->dir, why);
	if (err) {
		coordinator_free(c);
		return err;
	}
	const struct rounds_config how = {
		.spec = w->spec, .n_shards = w->graph->n_shards, .first_round = 1, .now = w->now};
	c->rounds = rounds_new(&how);
	c->intake = (struct intake){.spec = w->spec,
		.archive = &c->archive,
		.rounds = c->rounds,
		.roster = w->roster,
		.members = c->n};
	intake_init(&c->intake);
	*out = c;
	return ERR_OK;
}

void coordinator_free(struct coordinator *c)
{
	if (!c)
		return;
	if (c->rounds)
		intake_release(&c->intake);
	rounds_free(c->rounds);
	archive_release(&c->archive);
	free(c->members);
	free(c);
}

/* ---- what members are sent */

/* To the process that said hello last, which may have died since. */
static void send(struct coordinator *c, uint32_t member, struct letter *l)
{
	world_post(c->w, member, c->members[member].instance, l);
}

static void send_records(struct coordinator *c, uint32_t member)
{
	struct member *m = &c->members[member];
	const struct ledger_head head = ledger_at(c->archive.ledger);
	struct letter *l = letter_new(LETTER_records);
	for (uint64_t at = m->sent; at < head.sequence; at++)
		letter_add(l, archive_record(&c->archive, at + 1));
	l->head = head;
	l->count = c->listed;
	m->sent = head.sequence;
	send(c, member, l);
}

static void send_snapshot(struct coordinator *c, uint32_t member)
{
	struct archive_snapshot s;
	struct letter *l = letter_new(LETTER_snapshot);
	l->path = archive_snapshot_path(&c->archive, &s);
	l->head = s.head;
	l->size += s.bytes;
	c->members[member].sent = NOTHING;
	send(c, member, l);
}

static void send_plan(struct coordinator *c, uint32_t member)
{
	const struct rounds_member *m = rounds_ask_member(c->rounds, member);
	struct letter *l = letter_new(LETTER_plan);
	struct plan *p = &l->plan;
	*p = (struct plan){.run = c->w->spec->id,
		.round = rounds_ask_round(c->rounds),
		.parent = ledger_at(c->archive.ledger),
		.member = member,
		.ledger_tokens = ledger_tokens(c->archive.ledger),
		.validate = member == c->validator};
	if (m->assigned) {
		p->steps = m->steps;
		p->seconds = c->w->spec->round.mode == SPEC_timed ? m->seconds : 0;
		p->n_spans = m->n_spans;
		memcpy(p->spans, m->spans, sizeof p->spans);
		memcpy(p->listed, m->listed, sizeof p->listed);
		p->planned_tokens = rounds_ask_planned_tokens(c->rounds);
	}
	send(c, member, l);
}

/* ---- what the round machine wants */

static uint32_t pick_validator(const struct coordinator *c)
{
	uint32_t best = MEMBERS_NONE;
	double speed = -1;
	for (uint32_t i = 0; i < rounds_ask_members(c->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(c->rounds, i);
		if (!m || !m->assigned || m->speed <= speed)
			continue;
		best = i;
		speed = m->speed;
	}
	return best;
}

static void open_round(struct coordinator *c)
{
	const uint32_t every = c->w->spec->round.validate_every;
	const uint64_t before = ledger_at(c->archive.ledger).round;
	const bool due = every && (!c->have_loss || before >= c->loss_round + every);
	intake_clear(&c->intake);
	c->dropped = 0;
	c->validator = due ? pick_validator(c) : MEMBERS_NONE;
	c->validates = before;
	for (uint32_t i = 0; i < rounds_ask_members(c->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(c->rounds, i);
		if (m && m->assigned)
			send_plan(c, i);
	}
}

/* Where rounds overlap nobody waits for who is still busy with the records before: they are sent
 * when it has got those. */
static bool behind(const struct coordinator *c, uint32_t member)
{
	return c->w->spec->round.overlap && c->members[member].at < c->members[member].sent;
}

static enum err close_round(struct coordinator *c, struct why *why)
{
	struct world *w = c->w;
	const struct ledger_head parent = ledger_at(c->archive.ledger);
	const uint64_t tokens = ledger_tokens(c->archive.ledger);
	const struct archive_round round = intake_round(&c->intake);
	struct archive_sum sum;
	enum err err = archive_close(&c->archive, &round, &sum, why);
	if (err)
		return err;
	w->tally.tokens = ledger_tokens(c->archive.ledger);
	const struct tally_round row = {.round = round.round,
		.tokens = w->tally.tokens - tokens,
		.up = c->intake.bytes,
		.down = sum.bytes,
		.members = round.counts[turns_fragment(&w->spec->round, round.round)],
		.dropped = c->dropped,
		.took_s = clock_seconds(w->now - rounds_ask_opened_ns(c->rounds)),
		.at_s = clock_seconds(w->now)};
	tally_round(&w->tally, &row);
	intake_clear(&c->intake);
	c->listed = row.members;
	for (uint32_t i = 0; i < c->n; i++)
		if (c->members[i].linked && c->members[i].sent == parent.sequence && !behind(c, i))
			send_records(c, i);
	rounds_on_committed(c->rounds, w->tally.tokens, w->now);
	if (w->scenario->rounds && w->tally.n_rounds == w->scenario->rounds)
		w->ended = true;
	return ERR_OK;
}

static enum err act(struct coordinator *c, const struct rounds_action *a, struct why *why)
{
	switch (a->kind) {
	case ROUNDS_open_round: open_round(c); break;
	case ROUNDS_add_member: send_plan(c, a->member); break;
	case ROUNDS_drop_member:
		log_at(round, 2, "round %llu goes on without member %u",
			(unsigned long long)a->round, a->member);
		c->dropped++;
		return intake_drop(&c->intake, a->member, why);
	case ROUNDS_close_round: return close_round(c, why);
	case ROUNDS_abandon: break; /* who was in it was dropped, one by one */
	case ROUNDS_last_validation:
		c->validator = a->member;
		c->validates = ledger_at(c->archive.ledger).round;
		send_plan(c, a->member);
		break;
	case ROUNDS_finish: c->w->ended = true; break;
	case ROUNDS_none: break;
	}
	return ERR_OK;
}

/* After every event. */
static enum err settle(struct coordinator *c, struct why *why)
{
	struct rounds_action a;
	while (!c->w->ended && (a = rounds_next(c->rounds)).kind != ROUNDS_none) {
		enum err err = act(c, &a, why);
		if (err)
			return err;
	}
	const uint64_t at = rounds_ask_deadline(c->rounds);
	if (at < c->tick_ns) {
		c->tick_ns = at > c->w->now ? at : c->w->now + 1;
		world_at(c->w, c->tick_ns, EVENT_tick, WORLD_COORDINATOR);
	}
	return ERR_OK;
}

/* ---- what it hears */

static void plan_again(struct coordinator *c, uint32_t member)
{
	const struct rounds_member *m = rounds_ask_member(c->rounds, member);
	if (rounds_ask_state(c->rounds) == ROUNDS_open && m && m->assigned &&
		m->state == MEMBER_working)
		send_plan(c, member);
}

static void near(struct coordinator *c, uint32_t member, uint64_t sequence)
{
	const uint64_t newest = ledger_at(c->archive.ledger).sequence;
	if (sequence < newest && newest - sequence <= 2 * (uint64_t)c->w->graph->n_shards)
		rounds_on_near(c->rounds, member, c->w->now);
}

static void catch_up(struct coordinator *c, uint32_t member)
{
	const uint64_t sent = c->members[member].sent;
	if (!archive_follows(&c->archive, sent))
		send_snapshot(c, member);
	else if (sent < ledger_at(c->archive.ledger).sequence)
		send_records(c, member);
}

/* A process that stands nowhere; the link of the one before is gone. */
static void on_newcomer(struct coordinator *c, uint32_t member)
{
	struct member *m = &c->members[member];
	if (m->linked)
		rounds_on_lost(c->rounds, member, c->w->now);
	m->linked = false;
	m->instance = peers_instance(c->w->peers, member);
	send_snapshot(c, member);
}

static void on_hello(struct coordinator *c, uint32_t member, const struct letter *l)
{
	struct member *m = &c->members[member];
	const uint64_t newest = ledger_at(c->archive.ledger).sequence;
	m->linked = true;
	m->instance = peers_instance(c->w->peers, member);
	m->sent = m->at = l->head.sequence;
	rounds_on_joined(c->rounds, member, c->w->now);
	rounds_on_linked(c->rounds, member, m->sent == newest, c->w->now);
	near(c, member, l->head.sequence);
	plan_again(c, member);
	catch_up(c, member);
}

/* A report of an older head is followed by one of the records that are on their way. */
static enum err on_report(
	struct coordinator *c, uint32_t member, const struct letter *l, struct why *why)
{
	const struct ledger_head head = ledger_at(c->archive.ledger);
	const struct hash ours = archive_state(&c->archive);
	struct member *m = &c->members[member];
	m->at = l->head.sequence;
	if (m->at != head.sequence) {
		near(c, member, m->at);
		if (m->at == m->sent)
			catch_up(c, member);
		return ERR_OK;
	}
	if (!hash_equal(&l->state, &ours))
		return err_why(why, ERR_hash,
			"member %u has come to another state than the ledger's after round %llu",
			member, (unsigned long long)head.round);
	rounds_on_at_head(c->rounds, member, c->w->now);
	plan_again(c, member);
	return ERR_OK;
}

static enum err on_contribution(
	struct coordinator *c, uint32_t member, const struct letter *l, struct why *why)
{
	bool own;
	const enum err err = intake_take(&c->intake, member, l->bytes[0], c->w->now, &own, why);
	if (own)
		return err;
	if (err && err != ERR_duplicate) {
		tally_refuse(&c->w->tally, err);
		log_at(round, 3, "member %u is refused: %s", member, why->text);
		send(c, member, letter_new(LETTER_refusal));
	}
	return ERR_OK;
}

static void on_loss(struct coordinator *c, uint32_t member, const struct letter *l)
{
	if (member != c->validator || l->round != c->validates || !isfinite(l->per_byte) ||
		l->round != ledger_at(c->archive.ledger).round)
		return; /* the round was closed without it */
	tally_loss(&c->w->tally,
		&(struct tally_loss){l->round, c->w->tally.tokens, l->per_token, l->per_byte});
	c->have_loss = true;
	c->loss_round = l->round;
	c->validator = MEMBERS_NONE;
	if (rounds_ask_state(c->rounds) == ROUNDS_finishing)
		rounds_on_last_validation(c->rounds, c->w->now);
}

enum err coordinator_letter(
	struct coordinator *c, uint32_t member, const struct letter *l, struct why *why)
{
	enum err err = ERR_OK;
	switch (l->kind) {
	case LETTER_newcomer: on_newcomer(c, member); break;
	case LETTER_hello: on_hello(c, member, l); break;
	case LETTER_report: err = on_report(c, member, l, why); break;
	case LETTER_progress:
		if (l->round == rounds_ask_round(c->rounds))
			rounds_on_progress(c->rounds, member, l->steps, l->tokens_per_s, c->w->now);
		break;
	case LETTER_contribution: err = on_contribution(c, member, l, why); break;
	case LETTER_loss: on_loss(c, member, l); break;
	default: break; /* the others go the other way */
	}
	return err ? err : settle(c, why);
}

enum err coordinator_lost(
	struct coordinator *c, uint32_t member, uint64_t instance, struct why *why)
{
	struct member *m = &c->members[member];
	if (!m->linked || m->instance != instance)
		return ERR_OK; /* it is back already, or was never here */
	m->linked = false;
	rounds_on_lost(c->rounds, member, c->w->now);
	return settle(c, why);
}

enum err coordinator_tick(struct coordinator *c, struct why *why)
{
	if (c->tick_ns <= c->w->now)
		c->tick_ns = UINT64_MAX;
	rounds_tick(c->rounds, c->w->now);
	return settle(c, why);
}

/* ---- asking */

struct ledger_head coordinator_head(const struct coordinator *c)
{
	return ledger_at(c->archive.ledger);
}

const struct ledger *coordinator_ledger(const struct coordinator *c)
{
	return c->archive.ledger;
}

const struct rounds *coordinator_rounds(const struct coordinator *c)
{
	return c->rounds;
}

const struct archive *coordinator_archive(const struct coordinator *c)
{
	return &c->archive;
}

enum err coordinator_waits(const struct coordinator *c, struct why *why)
{
	return err_why(why, ERR_timeout,
		"nothing has been trained for a day of virtual time: round %llu is %s, with %u "
		"members ready, %u at work, %u in, %u catching up and %u away, and the spec wants "
		"%u for a round",
		(unsigned long long)rounds_ask_round(c->rounds),
		roundstate_text(rounds_ask_state(c->rounds)),
		rounds_ask_count(c->rounds, MEMBER_ready),
		rounds_ask_count(c->rounds, MEMBER_working), rounds_ask_count(c->rounds, MEMBER_in),
		rounds_ask_count(c->rounds, MEMBER_syncing),
		rounds_ask_count(c->rounds, MEMBER_away), c->w->spec->round.peers_min);
}
