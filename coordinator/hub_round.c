#include "coordinator/hub_round.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"
#include "coordinator/failpoint.h"
#include "coordinator/hub_gate.h"
#include "coordinator/hub_gather.h"
#include "coordinator/hub_link.h"
#include "coordinator/hub_sweep.h"
#include "coordinator/hub_topology.h"
#include "coordinator/pace.h"
#include "coordinator/progress_line.h"
#include "coordinator/stream.h"
#include "coordinator/view.h"
#include "round/turns.h"

/* Commits what the caller has written; a store that does not take it is the end. */
static bool commit(struct hub *h)
{
	struct why why;
	if (!store_commit(h->run.store, &why))
		return true;
	hub_fail(h, &why);
	return false;
}

/* Where the sequence numbers are: beside the plan and the ledger, so that every one of them is in
 * exactly one place. */
static void put_numbers(struct hub *h)
{
	size_t n;
	const struct span *pool = rounds_ask_pool(h->rounds, &n);
	store_pool_put(h->run.store, pool, n);
	store_put_number(h->run.store, "cursor", rounds_ask_cursor(h->rounds));
	store_put_number(h->run.store, "voided", rounds_ask_voided(h->rounds));
}

static void forget_arrivals(struct hub *h, uint32_t number)
{
	struct hub_member *m = hub_member(h, number);
	memset(m->arrived, 0, h->run.files.n_shards * sizeof *m->arrived);
}

static void end_round(struct hub *h)
{
	hub_gather_end(h);
	for (uint32_t i = 0; i < h->n_members; i++)
		forget_arrivals(h, i);
	h->announced = 0;
	h->dropped = 0;
	h->contributed = h->bytes_up = 0;
}

/* ---- opening */

static bool loss_due(const struct hub *h, uint64_t round)
{
	uint32_t every = h->run.spec->round.validate_every;
	return every && (!h->have_loss || round >= h->last_loss.round + every);
}

/* Who measures the loss: the fastest waits least for the others anyway. */
static uint32_t pick_validator(const struct hub *h)
{
	uint32_t best = MEMBERS_NONE;
	double speed = -1;
	for (uint32_t i = 0; i < rounds_ask_members(h->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (!m || !m->assigned || m->speed <= speed)
			continue;
		best = i;
		speed = m->speed;
	}
	return best;
}

static void ask_for_loss(struct hub *h, uint32_t number, uint64_t round)
{
	h->validator = number;
	h->validates = round;
	h->validates_tokens = ledger_tokens(h->run.ledger);
	store_put_number(h->run.store, "validator", number);
	store_put_number(h->run.store, "validates", round);
	store_put_number(h->run.store, "validates_tokens", h->validates_tokens);
}

/* Measuring may take longer than a round that overlaps the next ones: who was asked is left to it.
 */
static bool is_measured(const struct hub *h, uint64_t round)
{
	return h->validator != MEMBERS_NONE && h->run.spec->round.overlap &&
	       h->validator < h->n_members && h->members[h->validator].linked &&
	       round < h->validates + h->run.spec->round.validate_every;
}

/* What it has in this round, or after it. */
static void store_plan(
	struct hub *h, uint32_t number, const struct rounds_member *m, uint64_t round)
{
	struct store_plan p = {
		.round = round, .member = number, .steps = m->steps, .n_spans = m->n_spans};
	memcpy(p.spans, m->spans, sizeof p.spans);
	memcpy(p.listed, m->listed, sizeof p.listed);
	store_plan_add(h->run.store, &p);
}

static void open_round(struct hub *h, uint64_t now)
{
	uint64_t round = rounds_ask_round(h->rounds), before = run_head(&h->run).round;
	h->opened_s = clock_wall_s();
	end_round(h);
	hub_topology_open(h, now);
	store_begin(h->run.store);
	store_plan_clear(h->run.store);
	store_contribution_clear(h->run.store);
	if (!is_measured(h, before))
		ask_for_loss(h, loss_due(h, before) ? pick_validator(h) : MEMBERS_NONE, before);
	for (uint32_t i = 0; i < rounds_ask_members(h->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (m && m->assigned)
			store_plan(h, i, m, round);
	}
	store_put_number(h->run.store, "opened_s", h->opened_s);
	put_numbers(h);
	if (!commit(h))
		return;
	failpoint(FAILPOINT_plan_stored);
	h->announced = round;
	for (uint32_t i = 0; i < rounds_ask_members(h->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		if (m && m->assigned)
			hub_link_plan(h, i);
	}
	log_at(round, 3, "round %llu is open", (unsigned long long)round);
}

/* It came while the round is open, and not too late for it. */
static void add_member(struct hub *h, uint32_t number)
{
	store_begin(h->run.store);
	store_plan(h, number, rounds_ask_member(h->rounds, number), rounds_ask_round(h->rounds));
	put_numbers(h);
	if (commit(h))
		hub_link_plan(h, number);
}

static void drop_member(struct hub *h, uint32_t number, uint64_t now)
{
	const struct rounds_member *m = rounds_ask_member(h->rounds, number);
	const struct hub_refused r = {
		.what = "round", .member = number, .round = rounds_ask_round(h->rounds)};
	struct why why;
	log_at(round, 2, "round %llu goes on without member %u", (unsigned long long)r.round,
		number);
	if (m && !budget_welcome(&m->patience, r.round)) {
		err_why(&why, ERR_timeout,
			"member %u was there and did not deliver, and round %llu waited for it: it "
			"is left out until round %llu unless too few are left",
			number, (unsigned long long)r.round,
			(unsigned long long)m->patience.left_out);
		hub_refuse(h, &r, &why);
	}
	h->dropped++;
	forget_arrivals(h, number);
	store_begin(h->run.store);
	if (!m || !m->n_spans) /* else it goes on with what it has */
		store_plan_remove(h->run.store, number);
	store_contribution_remove(h->run.store, number);
	put_numbers(h);
	if (commit(h))
		hub_gather_dropped(h, number, now);
}

/* Where rounds overlap members keep what they have from one round to the next; round: the
 * last one that is closed. */
static void put_streams(struct hub *h, uint64_t round)
{
	store_plan_clear(h->run.store);
	for (uint32_t i = 0; i < rounds_ask_members(h->rounds); i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, i);
		struct rounds_member rest;
		if (!m || !h->run.spec->round.overlap)
			continue;
		stream_rest(&h->run.spec->round, rounds_ask_round(h->rounds), m, &rest);
		if (rest.n_spans)
			store_plan(h, i, &rest, round);
	}
}

static void abandon(struct hub *h)
{
	log_at(round, 2, "round %llu is abandoned: nobody is left in it",
		(unsigned long long)rounds_ask_round(h->rounds));
	end_round(h);
	store_begin(h->run.store);
	put_streams(h, run_head(&h->run).round);
	store_contribution_clear(h->run.store);
	put_numbers(h);
	commit(h);
}

/* ---- closing */

static void add_inputs(struct hub *h, struct desk_close *c, uint32_t shard)
{
	uint32_t n;
	const struct store_contribution *rows = hub_gather_rows(h, shard, &n);
	c->made[shard] = hub_gather_made(h, shard);
	c->counts[shard] = n;
	c->inputs[shard] = alloc_must_zero(n + 1u, sizeof *c->inputs[shard]);
	for (uint32_t i = 0; i < n; i++) {
		struct closing_input *in = &c->inputs[shard][i];
		*in = (struct closing_input){.peer = rows[i].peer, .blob = rows[i].blob};
		memcpy(in->key, members_at(h->run.members, in->peer)->sign, SIGN_PUBLIC);
	}
}

void hub_round_apply(struct hub *h)
{
	struct desk_job *j = desk_job_new(DESK_close);
	struct desk_close *c = &j->close;
	c->round = rounds_ask_round(h->rounds);
	c->parent = run_head(&h->run);
	c->n_shards = h->run.files.n_shards;
	c->states = alloc_must_zero(c->n_shards, sizeof *c->states);
	c->counts = alloc_must_zero(c->n_shards, sizeof *c->counts);
	c->inputs = alloc_must_zero(c->n_shards, sizeof *c->inputs);
	c->made = alloc_must_zero(c->n_shards, sizeof *c->made);
	c->out = alloc_must_zero(c->n_shards, sizeof *c->out);
	for (uint32_t i = 0; i < c->n_shards; i++) {
		c->states[i] = ledger_state(h->run.ledger, i);
		add_inputs(h, c, i);
	}
	desk_put(h->desk, j);
}

static void store_shard(struct hub *h, const struct desk_close *c, uint32_t shard)
{
	const struct closing_out *o = &c->out[shard];
	struct buf bytes;
	buf_init(&bytes, LEDGER_ENTRY_MAX);
	struct store_entry row = {.sequence = o->entry.sequence,
		.round = o->entry.round,
		.shard = o->entry.shard,
		.count = o->entry.count,
		.hash = o->hash,
		.state = o->entry.state,
		.record = *shared_name(o->record),
		.bytes = shared_len(o->record)};
	struct why why;
	enum err err = ledger_append(h->run.ledger, &o->entry, &why);
	if (!err && (err = ledger_entry_encode(&o->entry, &bytes)))
		err_why(&why, err, "no memory for a ledger entry");
	if (err)
		hub_fail(h, &why);
	row.entry = bytes.data;
	row.entry_len = bytes.len;
	store_entry_add(h->run.store, &row);
	for (uint32_t i = 0; i < c->counts[shard] && o->entry.kind == UPDATE_merged; i++)
		if (!hash_is_zero(&c->inputs[shard][i].blob)) /* its bytes are with an aggregator */
			store_input_add(h->run.store, row.sequence, &c->inputs[shard][i].blob);
	buf_release(&bytes);
}

/* Mean training loss per token of a round's contributors, by their last words in it; 0: nobody said
 * one, as in rounds shorter than a heartbeat.  It is shown, nothing depends on it. */
static double told_loss(const struct hub *h, const struct ledger_entry *e)
{
	double sum = 0, tokens = 0;
	for (uint32_t i = 0; i < e->count; i++) {
		const struct ledger_accepted *a = &e->accepted[i];
		if (a->peer >= h->n_members || h->members[a->peer].told.round != e->round)
			continue;
		double loss = (double)h->members[a->peer].told.loss;
		if (!isfinite(loss) || loss <= 0)
			continue;
		sum += loss * (double)a->tokens;
		tokens += (double)a->tokens;
	}
	return tokens > 0 ? sum / tokens : 0;
}

static struct store_round sum_up(
	const struct hub *h, const struct desk_close *c, uint64_t tokens, uint64_t now)
{
	const uint32_t first = turns_fragment(&h->run.spec->round, c->round);
	struct store_round r = {.round = c->round,
		.tokens = ledger_tokens(h->run.ledger) - tokens,
		.total_tokens = ledger_tokens(h->run.ledger),
		.members = c->counts[first],
		.dropped = h->dropped,
		.bytes_up = h->contributed,
		.closed_s = clock_wall_s(),
		.took_ns = now - rounds_ask_opened_ns(h->rounds)};
	for (uint32_t i = 0; i < c->n_shards; i++) {
		r.bytes_down += shared_len(c->out[i].record);
		r.merged += c->out[i].entry.kind == UPDATE_merged;
	}
	const struct manifest_split *text = &h->manifest->train;
	r.nats_per_token = told_loss(h, &c->out[first].entry);
	if (text->text_bytes)
		r.nats_per_byte =
			r.nats_per_token * (double)text->tokens / (double)text->text_bytes;
	return r;
}

/* The one transaction that moves the run on. */
static bool commit_round(
	struct hub *h, const struct desk_close *c, uint64_t now, struct store_round *row)
{
	uint64_t tokens = ledger_tokens(h->run.ledger);
	failpoint(FAILPOINT_before_commit);
	store_begin(h->run.store);
	for (uint32_t i = 0; i < c->n_shards && !h->failed.code; i++)
		store_shard(h, c, i);
	failpoint(FAILPOINT_inside_commit);
	*row = sum_up(h, c, tokens, now);
	char *text = run_sign_head(&h->run, &c->head);
	store_put(h->run.store, "head", text, strlen(text));
	put_streams(h, c->round);
	rounds_return_rest(h->rounds);
	store_contribution_clear(h->run.store);
	store_round_add(h->run.store, row);
	put_numbers(h);
	if (h->failed.code) {
		store_rollback(h->run.store);
		free(text);
		return false;
	}
	if (!commit(h)) {
		free(text);
		return false;
	}
	failpoint(FAILPOINT_after_commit);
	free(h->run.head_text);
	h->run.head_text = text;
	return true;
}

static void tell_members(struct hub *h, const struct desk_close *c)
{
	for (uint32_t i = 0; i < c->n_shards; i++)
		if (c->made[i].have && c->made[i].by < h->n_members &&
			h->members[c->made[i].by].linked)
			hub_link_entry(h, c->made[i].by, &c->out[i].entry);
	for (uint32_t i = 0; i < h->n_members; i++) {
		struct hub_member *m = &h->members[i];
		bool overlap = h->run.spec->round.overlap;
		if (!m->linked)
			continue;
		if (overlap &&
			hub_link_sending(h, i)) /* more than a round behind: it fetches them */
			m->following = false;
		if (overlap ? m->following : m->sequence == c->parent.sequence)
			hub_link_records(h, i, c);
		hub_link_head(h, i);
	}
}

void hub_round_snapshot(struct hub *h)
{
	struct desk_job *j = desk_job_new(DESK_snapshot);
	j->snapshot.head = run_head(&h->run);
	h->snapshot_due = true;
	desk_put(h->desk, j);
}

static void on_closed(struct hub *h, struct desk_job *j, uint64_t now)
{
	const struct desk_close *c = &j->close;
	struct store_round row;
	if (j->why.code) {
		hub_fail(h, &j->why);
		return;
	}
	hub_topology_closed(h, c);
	if (!commit_round(h, c, now, &row))
		return;
	trace_event("round", "{s:I, s:I, s:I, s:f}", "round", (json_int_t)row.round, "members",
		(json_int_t)row.members, "tokens", (json_int_t)row.tokens, "seconds",
		clock_seconds(row.took_ns));
	progress_line_round(h, &row);
	end_round(h);
	pace_note(h, &row, now);
	tell_members(h, c);
	rounds_on_committed(h->rounds, ledger_tokens(h->run.ledger), now);
	failpoint(FAILPOINT_before_sweep);
	if (c->round % h->run.spec->round.snapshot_every == 0 ||
		rounds_ask_state(h->rounds) == ROUNDS_finishing)
		hub_round_snapshot(h);
	hub_sweep_round(h, c);
	feed_tell(h->feed, "round", view_round(&row));
}

/* ---- snapshots */

static void on_snapshot(struct hub *h, struct desk_job *j)
{
	const struct store_snapshot row = {.round = j->snapshot.head.round,
		.sequence = j->snapshot.head.sequence,
		.head = j->snapshot.head.hash,
		.blob = j->snapshot.blob,
		.bytes = j->snapshot.bytes};
	struct why why = j->why;
	h->snapshot_due = false;
	if (!j->why.code) {
		store_begin(h->run.store);
		store_snapshot_add(h->run.store, &row);
		if (!store_commit(h->run.store, &why) && !hub_sweep_records(h, &why))
			return;
	}
	/* The run goes on without: the records are still there from the last snapshot on. */
	log_warn(store, "no snapshot of round %llu: %s", (unsigned long long)row.round, why.text);
	hub_alarm(h, &why);
}

/* ---- losses */

static void ask_last(struct hub *h, uint32_t number)
{
	store_begin(h->run.store);
	ask_for_loss(h, number, run_head(&h->run).round);
	if (commit(h))
		hub_link_plan(h, number);
}

void hub_round_loss(struct hub *h, uint32_t number, const shoal_validation *v, uint64_t now)
{
	const struct store_loss row = {.round = v->round,
		.tokens = h->validates_tokens,
		.nats_per_token = v->nats_per_token,
		.nats_per_byte = v->nats_per_byte,
		.measured = v->tokens,
		.member = number,
		.at_s = clock_wall_s()};
	store_begin(h->run.store);
	store_loss_add(h->run.store, &row);
	if (!commit(h))
		return;
	if (!h->have_loss)
		h->first_loss = row;
	h->have_loss = true;
	h->last_loss = row;
	h->validator = MEMBERS_NONE;
	progress_line_loss(h, &row);
	feed_tell(h->feed, "loss", view_loss(&row));
	if (rounds_ask_state(h->rounds) == ROUNDS_finishing && v->round == run_head(&h->run).round)
		rounds_on_last_validation(h->rounds, now);
}

/* ---- dispatch */

static void finish(struct hub *h, uint64_t now)
{
	h->ended = true;
	h->ended_ns = now;
	log_at(coord, 1, "the run has ended: all tokens are trained");
	for (uint32_t i = 0; i < h->n_members; i++)
		if (h->members[i].linked)
			hub_link_end(h, i);
}

void hub_round_act(struct hub *h, const struct rounds_action *a, uint64_t now)
{
	switch (a->kind) {
	case ROUNDS_open_round: open_round(h, now); break;
	case ROUNDS_add_member: add_member(h, a->member); break;
	case ROUNDS_drop_member: drop_member(h, a->member, now); break;
	case ROUNDS_close_round: hub_gather_begin(h, now); break;
	case ROUNDS_abandon: abandon(h); break;
	case ROUNDS_last_validation: ask_last(h, a->member); break;
	case ROUNDS_finish: finish(h, now); break;
	case ROUNDS_none: break;
	}
}

void hub_round_done(struct hub *h, struct desk_job *j, uint64_t now)
{
	switch ((enum desk_kind)j->mail.kind) {
	case DESK_gate: hub_gate_done(h, j, now); break;
	case DESK_update: hub_gather_take_done(h, j, now); break;
	case DESK_close: on_closed(h, j, now); break;
	case DESK_snapshot: on_snapshot(h, j); break;
	case DESK_drop:
		if (j->why.code)
			log_warn(store, "something was not removed: %s", j->why.text);
		break;
	}
}
