#include "coordinator/rounds.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "coordinator/rounds_parts.h"
#include "coordinator/stream.h"
#include "round/turns.h"

#define SPEED_KEEP 0.7  /* of the old figure when a new speed is heard */
#define LATE_MOST 3     /* overlap: rounds in a row that go on without a member which is there */
#define JOIN_LEAST 0.25 /* of a round, that must be left for who comes while it is open */
#define BACK_LEAST 0.05 /* the same for who had a part in it and was away */
#define LAST_ASKED 5    /* members that are asked for the final loss, one after another */

/* The one setter.  A move that is not in the table is a mistake of this file. */
static void enter(struct rounds *r, enum rounds_state to)
{
	assert(roundstate_may(r->state, to));
	log_at(round, 3, "round %llu: %s, was %s", (unsigned long long)r->round,
		roundstate_text(to), roundstate_text(r->state));
	r->state = to;
}

static void move(struct rounds *r, uint32_t member, enum member_state to, uint64_t now)
{
	memberlist_move(&r->members, member, to, now);
}

static struct rounds_member *find(const struct rounds *r, uint32_t member)
{
	return memberlist_find(&r->members, member);
}

static void push(struct rounds *r, enum rounds_action_kind kind, uint32_t member)
{
	actions_push(&r->actions,
		(struct rounds_action){.kind = kind, .round = r->round, .member = member});
}

struct rounds *rounds_new(const struct rounds_config *config)
{
	struct rounds *r = alloc_must_zero(1, sizeof *r);
	r->spec = config->spec;
	r->n_shards = config->n_shards;
	r->round = config->first_round;
	r->ledger_tokens = config->ledger_tokens;
	r->pool.cursor = config->cursor;
	r->voided = config->voided;
	r->asked = UINT32_MAX; /* so that the first one comes next */
	r->waits.spec = &config->spec->round;
	r->waits.closed_ns = config->now;
	if (r->ledger_tokens >= r->spec->train.total_tokens)
		enter(r, ROUNDS_finishing);
	return r;
}

void rounds_free(struct rounds *r)
{
	if (!r)
		return;
	memberlist_release(&r->members);
	spanpool_release(&r->pool);
	actions_release(&r->actions);
	free(r);
}

/* ---- sequence numbers */

void rounds_return_span(struct rounds *r, struct span s)
{
	spanpool_return(&r->pool, s);
}

static void give_back(struct rounds *r, struct rounds_member *m)
{
	stream_return(&r->pool, m, 0);
	r->voided += turns_missing(&r->spec->round, r->n_shards, m->listed);
	m->n_spans = 0;
	memset(m->listed, 0, sizeof m->listed);
}

void rounds_return_stream(struct rounds *r, const struct rounds_member *was)
{
	struct rounds_member m = *was;
	give_back(r, &m);
}

/* ---- opening */

/* Who held rounds up is left out, but only while the others are enough without it. */
static bool leaves_out(const struct rounds *r)
{
	uint32_t welcome = memberlist_welcome(&r->members, r->round);
	return welcome && welcome >= r->spec->round.peers_min;
}

/* share: of the round that is left. */
static void assign(struct rounds *r, uint32_t member, double share, uint64_t now)
{
	struct rounds_member *m = &r->members.at[member];
	m->assigned = true;
	m->seconds = share * r->spec->round.seconds;
	m->steps = budget_steps(r->spec, share * m->speed);
	m->steps_done = m->shards_in = 0;
	m->tokens_in = m->sequences_in = 0;
	if (!m->n_spans)
		m->counted_ns = now;
	stream_fill(r->spec, &r->pool, m);
	r->planned_tokens += m->steps * spec_step_tokens(r->spec);
	move(r, member, MEMBER_working, now);
}

static void open_round(struct rounds *r, uint64_t now)
{
	bool leave_out = leaves_out(r);
	r->planned_tokens = 0;
	for (uint32_t i = 0; i < r->members.n; i++) {
		struct rounds_member *m = &r->members.at[i];
		/* the round waited for it, in vain */
		if (m->was_in && m->state == MEMBER_syncing && r->spec->round.quorum >= 1)
			budget_held_up(&m->patience, r->round);
		m->assigned = m->was_in = m->near = false;
		if (m->state == MEMBER_ready &&
			(!leave_out || budget_welcome(&m->patience, r->round)))
			assign(r, i, 1, now);
		else
			give_back(r, m);
	}
	enter(r, ROUNDS_open);
	r->waits.opened_ns = now;
	r->waits.quorum_ns = 0;
	push(r, ROUNDS_open_round, 0);
}

static void check_open(struct rounds *r, uint64_t now)
{
	if (r->state != ROUNDS_waiting || r->paused ||
		r->members.counts[MEMBER_ready] < r->spec->round.peers_min)
		return;
	if (memberlist_applying(&r->members) && now < waits_settle(&r->waits))
		return;
	if (memberlist_near(&r->members) && now < waits_welcome(&r->waits))
		return;
	open_round(r, now);
}

/* ---- closing */

bool rounds_is_in(const struct rounds *r, const struct rounds_member *m)
{
	return m->assigned && m->shards_in == turns_shards(&r->spec->round, r->round, r->n_shards);
}

uint64_t rounds_patience(const struct rounds *r, const struct rounds_member *m, uint64_t length)
{
	return waits_member(&r->waits, m->state, m->since_ns, length);
}

static void drop(struct rounds *r, uint32_t member, uint64_t now)
{
	struct rounds_member *m = &r->members.at[member];
	m->assigned = false;
	push(r, ROUNDS_drop_member, member);
	/* It trains on, and what it cut travels with the next round. */
	if (r->spec->round.overlap && m->state == MEMBER_working && ++m->late < LATE_MOST)
		return;
	give_back(r, m);
	if (m->state == MEMBER_working && (!r->waits.quorum_ns || m->late))
		budget_held_up(&m->patience, r->round);
	m->late = 0;
	/* It trains on for nothing until it hears of the close; then it syncs like everybody. */
	if (m->state == MEMBER_working)
		move(r, member, MEMBER_syncing, now);
}

/* Where rounds overlap: what the ledger says now is on its way to it; it need not stop for that. */
static void go_on(struct rounds *r, uint32_t member, uint64_t closed, uint64_t now)
{
	struct rounds_member *m = &r->members.at[member];
	stream_rest(&r->spec->round, closed, m, m);
	m->assigned = m->was_in = m->near = false;
	if (m->state == MEMBER_in || m->state == MEMBER_working) {
		move(r, member, MEMBER_syncing, now);
		move(r, member, MEMBER_ready, now);
	}
}

static void abandon(struct rounds *r, uint64_t now)
{
	enter(r, ROUNDS_waiting);
	for (uint32_t i = 0; i < r->members.n && r->spec->round.overlap; i++)
		go_on(r, i, r->round, now); /* who is late is asked again */
	push(r, ROUNDS_abandon, 0);
}

static void finish_round(struct rounds *r, uint32_t n_in, uint64_t now)
{
	if (!n_in) {
		abandon(r, now);
		return;
	}
	enter(r, ROUNDS_closing);
	push(r, ROUNDS_close_round, 0);
}

static void check_close(struct rounds *r, uint64_t now)
{
	if (r->state != ROUNDS_open)
		return;
	uint32_t assigned = 0, in = 0;
	for (uint32_t i = 0; i < r->members.n; i++) {
		assigned += r->members.at[i].assigned;
		in += rounds_is_in(r, &r->members.at[i]);
	}
	double quorum = r->spec->round.quorum;
	if (!r->waits.quorum_ns && quorum < 1 && in && (double)in >= quorum * (double)assigned)
		r->waits.quorum_ns = now;
	uint32_t left = assigned - in;
	uint64_t length = left ? waits_length(&r->waits) : 0;
	for (uint32_t i = 0; left && i < r->members.n; i++) {
		struct rounds_member *m = &r->members.at[i];
		if (!m->assigned || rounds_is_in(r, m) || now < rounds_patience(r, m, length))
			continue;
		drop(r, i, now);
		left--;
	}
	if (!left)
		finish_round(r, in, now);
}

uint64_t rounds_overdue(const struct rounds *r)
{
	return r->waits.quorum_ns ? UINT64_MAX : r->waits.opened_ns + waits_length(&r->waits);
}

/* Where rounds overlap nobody waits for the next one if enough is left of this one; nor while it is
 * held up by others, which a part of it more may bring to its quorum. */
static void join_open(struct rounds *r, uint32_t member, uint64_t now)
{
	const struct rounds_member *m = &r->members.at[member];
	if (!r->spec->round.overlap || r->state != ROUNDS_open || m->assigned || r->paused ||
		!budget_welcome(&m->patience, r->round))
		return;
	double left = waits_left(&r->waits, now);
	if (left < JOIN_LEAST && now < rounds_overdue(r))
		return;
	assign(r, member, left < JOIN_LEAST ? JOIN_LEAST : left, now);
	push(r, ROUNDS_add_member, member);
}

/* A process that has begun anew counts the round's time from when it hears of it. */
static void shorten(const struct rounds *r, struct rounds_member *m, uint64_t now)
{
	if (!r->spec->round.overlap)
		return;
	double left = waits_left(&r->waits, now), most = left > BACK_LEAST ? left : BACK_LEAST;
	if (most * r->spec->round.seconds < m->seconds)
		m->seconds = most * r->spec->round.seconds;
}

static void check_overdue(struct rounds *r, uint64_t now)
{
	if (r->state != ROUNDS_open || !r->spec->round.overlap || now < rounds_overdue(r))
		return;
	for (uint32_t i = 0; i < r->members.n; i++)
		if (r->members.at[i].state == MEMBER_ready)
			join_open(r, i, now);
}

static void check_finish(struct rounds *r, uint64_t now)
{
	if (r->state != ROUNDS_finishing || (r->asked_last && now < waits_answer(&r->waits)))
		return;
	if (r->asked_times == LAST_ASKED) {
		enter(r, ROUNDS_finished); /* without: the model is there all the same */
		push(r, ROUNDS_finish, 0);
		return;
	}
	/* After who was asked last, so that a member which never answers is asked once. */
	uint32_t member = memberlist_next_ready(&r->members, r->asked);
	r->asked_last = member != UINT32_MAX;
	if (!r->asked_last)
		return;
	r->asked = member;
	r->waits.asked_ns = now;
	r->asked_times++;
	push(r, ROUNDS_last_validation, member);
}

static void check(struct rounds *r, uint64_t now)
{
	check_close(r, now);
	check_overdue(r, now);
	check_open(r, now);
	check_finish(r, now);
}

/* ---- events */

void rounds_on_joined(struct rounds *r, uint32_t member, uint64_t now)
{
	memberlist_add(&r->members, member, now);
}

void rounds_restore_open(struct rounds *r, uint32_t member, const struct rounds_member *was)
{
	struct rounds_member *m = find(r, member);
	if (!m || was->n_spans > SPAN_MAX ||
		(r->state != ROUNDS_waiting && r->state != ROUNDS_open))
		return;
	m->assigned = true;
	m->steps = was->steps;
	m->seconds = r->spec->round.seconds;
	m->n_spans = was->n_spans;
	memcpy(m->spans, was->spans, sizeof m->spans);
	memcpy(m->listed, was->listed, sizeof m->listed);
	r->planned_tokens += m->steps * spec_step_tokens(r->spec);
	if (r->state == ROUNDS_waiting)
		enter(r, ROUNDS_open);
}

void rounds_restored(struct rounds *r, uint64_t now)
{
	r->waits.opened_ns = now;
	r->waits.restarted_ns = now;
	check(r, now);
}

void rounds_on_linked(struct rounds *r, uint32_t member, bool at_head, uint64_t now)
{
	if (!find(r, member))
		return;
	move(r, member, MEMBER_away, now); /* an old link, if any, is gone */
	move(r, member, MEMBER_syncing, now);
	if (at_head)
		rounds_on_at_head(r, member, now);
	check(r, now);
}

void rounds_on_at_head(struct rounds *r, uint32_t member, uint64_t now)
{
	struct rounds_member *m = find(r, member);
	if (!m || m->state != MEMBER_syncing)
		return;
	if (m->was_in)
		arrivals_add(&r->waits.applied, now - r->waits.closed_ns);
	move(r, member, MEMBER_ready, now);
	join_open(r, member, now);
	if (m->assigned && r->state == ROUNDS_open && m->state == MEMBER_ready) {
		move(r, member, MEMBER_working, now);
		shorten(r, m, now);
		if (rounds_is_in(r, m))
			move(r, member, MEMBER_in, now);
	}
	check(r, now);
}

void rounds_on_near(struct rounds *r, uint32_t member, uint64_t now)
{
	struct rounds_member *m = find(r, member);
	/* where rounds overlap it comes in while one is open */
	if (m && m->state == MEMBER_syncing && !r->spec->round.overlap)
		m->near = true;
	check(r, now);
}

static void leave(struct rounds *r, uint32_t member, enum member_state to, uint64_t now)
{
	if (!find(r, member))
		return;
	move(r, member, to, now);
	if (r->asked_last && member == r->asked) {
		r->asked_last = false; /* the next one, which may be itself when it is back */
		r->asked_times--;
	}
	check(r, now);
}

void rounds_on_lost(struct rounds *r, uint32_t member, uint64_t now)
{
	leave(r, member, MEMBER_away, now);
}

void rounds_on_gone(struct rounds *r, uint32_t member, uint64_t now)
{
	leave(r, member, MEMBER_gone, now);
}

void rounds_on_progress(
	struct rounds *r, uint32_t member, uint64_t steps_done, double tokens_per_s, uint64_t now)
{
	struct rounds_member *m = find(r, member);
	if (!m)
		return;
	m->steps_done = steps_done;
	if (tokens_per_s > 0 && tokens_per_s < 1e12)
		m->speed = m->speed > 0 ? SPEED_KEEP * m->speed + (1 - SPEED_KEEP) * tokens_per_s
					: tokens_per_s;
	(void)now; /* neither speed nor steps open or close a round */
}

bool rounds_on_contribution(struct rounds *r, uint32_t member, uint64_t sequences, uint64_t now)
{
	struct rounds_member *m = find(r, member);
	if (!m || r->state != ROUNDS_open || !m->assigned || rounds_is_in(r, m))
		return false;
	const uint64_t before = m->listed[turns_fragment(&r->spec->round, r->round)],
		       most = turns_most(m->listed);
	if (!sequences || sequences > span_count(m->spans, m->n_spans) - before ||
		(m->shards_in && sequences != m->sequences_in))
		return false;
	m->sequences_in = sequences;
	m->tokens_in = sequences * r->spec->train.seq;
	m->shards_in++;
	if (rounds_is_in(r, m)) {
		arrivals_add(&r->waits.finished, now - r->waits.opened_ns);
		/* It ran out of sequences before the time was up: it can do at least this much. */
		double seconds = clock_seconds(
			now - (r->spec->round.overlap ? m->counted_ns : r->waits.opened_ns));
		double tokens = before + sequences > most
					? (double)((before + sequences - most) * r->spec->train.seq)
					: 0;
		if (seconds > 0 && tokens / seconds > m->speed)
			m->speed = tokens / seconds;
		budget_delivered(&m->patience);
		m->late = 0;
		m->counted_ns = now;
		move(r, member, MEMBER_in, now);
		check(r, now);
	}
	return true;
}

void rounds_on_withdrawn(struct rounds *r, uint32_t member, uint64_t now)
{
	struct rounds_member *m = find(r, member);
	if (!m || !m->assigned || (r->state != ROUNDS_open && r->state != ROUNDS_closing))
		return;
	bool stays =
		r->spec->round.overlap && (m->state == MEMBER_in || m->state == MEMBER_working);
	m->assigned = false;
	push(r, ROUNDS_drop_member, member);
	if (!stays) {
		give_back(r, m);
		if (m->state == MEMBER_in || m->state == MEMBER_working)
			move(r, member, MEMBER_syncing, now);
	}
	uint32_t left = 0;
	for (uint32_t i = 0; i < r->members.n; i++)
		left += r->members.at[i].assigned;
	if (r->state == ROUNDS_closing && !left)
		abandon(r, now);
	check(r, now);
}

void rounds_return_rest(struct rounds *r)
{
	if (r->state != ROUNDS_closing || r->spec->round.overlap)
		return;
	for (uint32_t i = 0; i < r->members.n; i++) {
		struct rounds_member *m = &r->members.at[i];
		if (!rounds_is_in(r, m))
			continue;
		stream_return(&r->pool, m, m->sequences_in);
		m->n_spans = span_head(m->spans, m->n_spans, m->sequences_in, m->spans);
	}
}

void rounds_on_committed(struct rounds *r, uint64_t ledger_tokens, uint64_t now)
{
	if (r->state != ROUNDS_closing)
		return;
	rounds_return_rest(r);
	r->ledger_tokens = ledger_tokens;
	r->waits.closed_ns = now;
	r->round++;
	enter(r, ledger_tokens >= r->spec->train.total_tokens ? ROUNDS_finishing : ROUNDS_waiting);
	for (uint32_t i = 0; i < r->members.n; i++) {
		struct rounds_member *m = &r->members.at[i];
		if (r->spec->round.overlap) {
			go_on(r, i, r->round - 1, now);
			continue;
		}
		m->was_in = m->assigned;
		/* It came while the round was open; if the next one did not wait while it applies
		 * this one, a slower machine would be left out for ever. */
		m->near = m->state == MEMBER_ready;
		m->assigned = false;
		m->n_spans = 0;
		/* whoever is linked now has an older head than the ledger */
		if (m->state == MEMBER_in || m->state == MEMBER_working || m->state == MEMBER_ready)
			move(r, i, MEMBER_syncing, now);
	}
	check(r, now);
}

void rounds_on_last_validation(struct rounds *r, uint64_t now)
{
	(void)now;
	if (r->state != ROUNDS_finishing)
		return;
	enter(r, ROUNDS_finished);
	push(r, ROUNDS_finish, 0);
}

void rounds_on_pause(struct rounds *r, bool paused, uint64_t now)
{
	r->paused = paused;
	check(r, now);
}

void rounds_tick(struct rounds *r, uint64_t now)
{
	check(r, now);
}

struct rounds_action rounds_next(struct rounds *r)
{
	return actions_next(&r->actions);
}
