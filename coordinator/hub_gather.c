#include "coordinator/hub_gather.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "coordinator/hub_gather_parts.h"
#include "coordinator/hub_link.h"
#include "coordinator/hub_round.h"
#include "coordinator/hub_topology.h"
#include "round/object.h"

struct hub_gather *hub_gather_new(uint32_t n_shards)
{
	struct hub_gather *g = alloc_must_zero(1, sizeof *g);
	g->n_shards = n_shards;
	g->shards = alloc_must_zero(n_shards, sizeof *g->shards);
	for (uint32_t i = 0; i < n_shards; i++)
		g->shards[i] = (struct gather_shard){.aggregator = MEMBERS_NONE,
			.witness = MEMBERS_NONE,
			.deadline_ns = UINT64_MAX};
	return g;
}

static void forget(struct gather_shard *s)
{
	const uint64_t turn = s->turn + 1; /* what the desk has now is of no use any more */
	free(s->rows);
	free(s->moving);
	*s = (struct gather_shard){.turn = turn,
		.aggregator = MEMBERS_NONE,
		.witness = MEMBERS_NONE,
		.deadline_ns = UINT64_MAX};
}

void hub_gather_free(struct hub_gather *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->n_shards; i++)
		forget(&g->shards[i]);
	free(g->shards);
	free(g);
}

void hub_gather_drop_blob(struct hub *h, const struct hash *blob)
{
	struct desk_job *j = desk_job_new(DESK_drop);
	j->drop.blobs = alloc_must_zero(1, sizeof *j->drop.blobs);
	j->drop.blobs[j->drop.n++] = *blob;
	desk_put(h->desk, j);
}

/* ---- states */

void hub_gather_enter(struct gather_shard *s, enum gather_state to, uint64_t deadline_ns)
{
	s->state = to;
	s->deadline_ns = deadline_ns;
	s->turn++;
}

static bool is_ready(const struct gather_shard *s)
{
	return s->state == GATHER_here || s->state == GATHER_made;
}

/* Its aggregator has, or is to give, what the closing round waits for. */
static bool is_pending(const struct gather_shard *s)
{
	return !is_ready(s) && s->state != GATHER_bytes;
}

/* An update that was made here already counts no more. */
static void unmake(struct hub *h, struct gather_shard *s)
{
	if (s->made.have)
		hub_gather_drop_blob(h, &s->made.blob);
	s->made = (struct desk_made){.by = MEMBERS_NONE};
	s->witness = MEMBERS_NONE;
	s->disputed = false;
}

static void cancel_moving(struct hub *h, struct gather_shard *s)
{
	for (uint32_t i = 0; i < s->n_moving; i++)
		link_cancel(
			h->link, members_at(h->run.members, s->aggregator)->curve, s->moving[i]);
	s->n_moving = 0;
}

void hub_gather_lose(struct hub *h, uint32_t shard, const char *why, uint64_t now)
{
	struct hub_gather *g = h->gather;
	struct gather_shard *s = &g->shards[shard];
	log_at(round, 2, "round %llu: shard %u is made here: %s", (unsigned long long)h->announced,
		shard, why);
	hub_topology_lost(h, shard, why);
	s->lost = true;
	g->replan = true;
	if (!g->closing)
		return;
	cancel_moving(h, s);
	unmake(h, s);
	s->aggregator = MEMBERS_NONE;
	if (hub_gather_list_here(s) == s->n)
		hub_gather_enter(s, GATHER_here, UINT64_MAX);
	else
		hub_gather_enter(
			s, GATHER_bytes, hub_gather_say_patience(h, hub_gather_list_bytes(s), now));
}

void hub_gather_blame(
	struct hub *h, const char *what, uint32_t number, uint32_t shard, const struct why *why)
{
	const struct hub_refused r = {
		.what = what, .member = number, .round = h->announced, .shard = shard};
	hub_refuse(h, &r, why);
	if (hub_member(h, number)->linked)
		hub_link_refusal(h, number, &r, why->code, why->text);
}

void hub_gather_ban(struct hub *h, uint32_t number, uint64_t now)
{
	struct hub_gather *g = h->gather;
	hub_topology_ban(h, number);
	for (uint32_t i = 0; i < g->n_shards; i++) {
		struct gather_shard *s = &g->shards[i];
		if (s->aggregator != number)
			continue;
		s->lost = g->replan = true; /* what was made and checked stays */
		if (is_pending(s))
			hub_gather_lose(h, i, "its aggregator is not trusted any more", now);
	}
}

void hub_gather_ask(struct hub *h, uint32_t shard, uint64_t now)
{
	struct gather_shard *s = &h->gather->shards[shard];
	hub_gather_enter(
		s, GATHER_asked, hub_gather_say_patience(h, hub_gather_list_bytes(s), now));
	hub_gather_say_list(h, shard, false);
}

/* Brings the rest to the aggregator where it has the most of it. */
static void start(struct hub *h, uint32_t shard, uint64_t now)
{
	struct gather_shard *s = &h->gather->shards[shard];
	const uint32_t here = hub_gather_list_here(s);
	struct why why;
	unmake(h, s);
	s->aggregator = MEMBERS_NONE;
	if (here == s->n) {
		hub_gather_enter(s, GATHER_here, UINT64_MAX);
		return;
	}
	const uint32_t holder = hub_gather_list_holder(h, shard);
	if (holder == MEMBERS_NONE || 2 * here >= s->n) {
		hub_gather_lose(h, shard,
			holder == MEMBERS_NONE ? "nobody has what was contributed"
					       : "most of what was contributed is here",
			now);
		return;
	}
	s->aggregator = holder;
	if (!here) {
		hub_gather_ask(h, shard, now);
		return;
	}
	hub_gather_enter(
		s, GATHER_moving, hub_gather_say_patience(h, hub_gather_list_bytes(s), now));
	if (hub_gather_say_rest(h, shard, &why))
		hub_gather_lose(h, shard, why.text, now);
}

void hub_gather_prove(struct hub *h, uint32_t shard, uint64_t now)
{
	struct gather_shard *s = &h->gather->shards[shard];
	hub_gather_enter(
		s, GATHER_proving, hub_gather_say_patience(h, hub_gather_list_bytes(s), now));
	hub_gather_say_want(h, shard);
}

void hub_gather_settle(struct hub *h)
{
	struct hub_gather *g = h->gather;
	if (g->replan)
		hub_gather_say_plans(h);
	g->replan = false;
	if (!g->closing || rounds_ask_state(h->rounds) != ROUNDS_closing)
		return;
	for (uint32_t i = 0; i < g->n_shards; i++)
		if (!is_ready(&g->shards[i]))
			return;
	g->closing = false;
	hub_round_apply(h);
}

/* ---- the round's life */

void hub_gather_end(struct hub *h)
{
	struct hub_gather *g = h->gather;
	for (uint32_t i = 0; i < g->n_shards; i++) {
		if (g->closing)
			unmake(h, &g->shards[i]);
		forget(&g->shards[i]);
	}
	g->closing = g->replan = false;
}

void hub_gather_begin(struct hub *h, uint64_t now)
{
	struct hub_gather *g = h->gather;
	struct why why;
	if (hub_gather_list_load(h, &why)) {
		hub_fail(h, &why);
		return;
	}
	g->closing = true;
	for (uint32_t i = 0; i < g->n_shards; i++)
		start(h, i, now);
	hub_gather_settle(h);
}

static bool remove_row(struct gather_shard *s, uint32_t number)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->rows[i].peer != number)
			s->rows[kept++] = s->rows[i];
	bool removed = kept < s->n;
	s->n = kept;
	return removed;
}

void hub_gather_dropped(struct hub *h, uint32_t number, uint64_t now)
{
	struct hub_gather *g = h->gather;
	if (rounds_ask_state(h->rounds) != ROUNDS_closing)
		return;
	for (uint32_t i = 0; i < g->n_shards && g->closing; i++) {
		struct gather_shard *s = &g->shards[i];
		if (!remove_row(s, number) || s->state == GATHER_here)
			continue;
		if (s->state == GATHER_bytes && hub_gather_list_here(s) < s->n)
			continue;
		cancel_moving(h, s);
		start(h, i, now); /* what was made has it in it */
	}
	hub_gather_settle(h);
}

void hub_gather_moved(struct hub *h, const struct store_contribution *row, uint64_t now)
{
	struct hub_gather *g = h->gather;
	struct gather_shard *s = &g->shards[row->shard];
	(void)now;
	if (!g->closing)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->rows[i].peer == row->peer)
			s->rows[i] = *row;
	if (s->state == GATHER_bytes && hub_gather_list_here(s) == s->n)
		hub_gather_enter(s, GATHER_here, UINT64_MAX);
	hub_gather_settle(h);
}

/* ---- failures */

void hub_gather_gone(struct hub *h, uint32_t number, uint64_t now)
{
	struct hub_gather *g = h->gather;
	for (uint32_t i = 0; i < g->n_shards; i++) {
		struct gather_shard *s = &g->shards[i];
		if (g->closing ? is_pending(s) && s->aggregator == number
			       : h->announced && hub_topology_aggregator(h, i) == number &&
					 rounds_ask_state(h->rounds) == ROUNDS_open)
			hub_gather_lose(h, i, "the link to its aggregator is down", now);
		else if (g->closing && s->state == GATHER_witnessed && s->witness == number)
			hub_gather_prove(h, i, now);
	}
	hub_gather_settle(h);
}

/* ---- time */

/* Whose bytes have not come is out of the round; the round machine says so to hub_gather_dropped.
 */
static void withdraw(struct hub *h, const struct gather_shard *s, uint32_t shard, uint64_t now)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct rounds_member *m = rounds_ask_member(h->rounds, s->rows[i].peer);
		if (s->rows[i].via == STORE_HERE || !m || !m->assigned)
			continue;
		log_warn(round,
			"round %llu: the contribution of member %u to shard %u is withdrawn: who "
			"had it is gone, and it did not come again",
			(unsigned long long)h->announced, s->rows[i].peer, shard);
		h->withdrawn++;
		rounds_on_withdrawn(h->rounds, s->rows[i].peer, now);
	}
}

void hub_gather_tick(struct hub *h, uint64_t now)
{
	struct hub_gather *g = h->gather;
	for (uint32_t i = 0; i < g->n_shards && g->closing; i++) {
		struct gather_shard *s = &g->shards[i];
		struct why why;
		if (now < s->deadline_ns)
			continue;
		s->deadline_ns = UINT64_MAX;
		if (s->state == GATHER_bytes) {
			withdraw(h, s, i, now);
		} else if (s->state == GATHER_witnessed) {
			hub_gather_prove(h, i, now);
		} else {
			err_why(&why, ERR_timeout, "member %u is silent about shard %u",
				s->aggregator, i);
			hub_gather_blame(h, "aggregator", s->aggregator, i, &why);
			hub_gather_lose(h, i, why.text, now);
		}
	}
	hub_gather_settle(h);
}

uint64_t hub_gather_deadline(const struct hub *h)
{
	const struct hub_gather *g = h->gather;
	uint64_t at = UINT64_MAX;
	for (uint32_t i = 0; i < g->n_shards && g->closing; i++)
		if (g->shards[i].deadline_ns < at)
			at = g->shards[i].deadline_ns;
	return at;
}

/* ---- asking */

enum gather_state hub_gather_state(const struct hub *h, uint32_t shard)
{
	return h->gather->shards[shard].state;
}

bool hub_gather_wants(const struct hub *h, uint32_t number)
{
	const struct hub_gather *g = h->gather;
	for (uint32_t i = 0; i < g->n_shards && g->closing; i++) {
		const struct gather_shard *s = &g->shards[i];
		for (uint32_t k = 0; k < s->n && s->state == GATHER_bytes; k++)
			if (s->rows[k].peer == number && s->rows[k].via != STORE_HERE)
				return true;
	}
	return false;
}

const struct store_contribution *hub_gather_rows(const struct hub *h, uint32_t shard, uint32_t *n)
{
	*n = h->gather->shards[shard].n;
	return h->gather->shards[shard].rows;
}

struct desk_made hub_gather_made(const struct hub *h, uint32_t shard)
{
	return h->gather->shards[shard].made;
}
