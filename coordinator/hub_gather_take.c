#include <string.h>
#include "base/buf.h"
#include "coordinator/hub_gather_parts.h"
#include "round/object.h"

/* ---- updates */

static bool read_meta(const struct link_event *e, uint64_t *round, uint32_t *shard)
{
	struct rd r;
	rd_init(&r, e->meta, e->meta_len);
	*round = rd_u64(&r);
	*shard = rd_u32(&r);
	return rd_ok(&r) && !rd_left(&r);
}

/* The shard that the object answers for; NULL: none. */
static struct gather_shard *answered(
	struct hub *h, uint32_t number, const struct link_event *e, uint32_t *shard)
{
	struct hub_gather *g = h->gather;
	uint64_t round;
	if (!read_meta(e, &round, shard) || !g->closing || round != h->announced ||
		*shard >= g->n_shards || g->shards[*shard].aggregator != number)
		return NULL;
	struct gather_shard *s = &g->shards[*shard];
	const enum gather_state state =
		e->object_kind == OBJECT_update ? GATHER_asked : GATHER_proving;
	return s->state == state ? s : NULL;
}

void hub_gather_take_object(struct hub *h, uint32_t number, struct link_event *e, uint64_t now)
{
	uint32_t shard = 0;
	struct gather_shard *s = answered(h, number, e, &shard);
	(void)now;
	if (!s) { /* of a question that was given up: nobody's fault */
		link_answer(h->link, e->key, e->ref, ERR_wrong_round,
			"no update of this round and shard is waited for");
		return;
	}
	struct desk_job *j = hub_gather_list_job(h, shard, e);
	hub_gather_enter(
		s, s->state == GATHER_asked ? GATHER_checking : GATHER_merging, UINT64_MAX);
	j->update.turn = s->turn;
	desk_put(h->desk, j);
}

static void call_witness(struct hub *h, uint32_t shard, uint64_t now)
{
	struct gather_shard *s = &h->gather->shards[shard];
	s->witness = hub_gather_list_witness(h, shard);
	if (s->witness == MEMBERS_NONE) {
		hub_gather_prove(h, shard, now); /* there is none: the coordinator is it */
		return;
	}
	hub_gather_enter(
		s, GATHER_witnessed, hub_gather_say_patience(h, hub_gather_list_bytes(s), now));
	hub_gather_say_list(h, shard, true);
}

/* The aggregator's own update; a merged one is the word of one member so far. */
static void on_checked(struct hub *h, uint32_t shard, const struct desk_update *u, uint64_t now)
{
	struct gather_shard *s = &h->gather->shards[shard];
	struct why why;
	s->made = (struct desk_made){.have = true, .blob = u->blob, .by = s->aggregator};
	if (u->kind == UPDATE_merged && u->came == UPDATE_merged) {
		s->merged = u->merged;
		call_witness(h, shard, now);
		return;
	}
	if (u->kind != u->came) { /* those who follow it have the other one */
		s->made.by = MEMBERS_NONE;
		err_why(&why, ERR_shape,
			"member %u sent the contributions to shard %u as they are, which has more "
			"bytes than the merged update",
			s->aggregator, shard);
		hub_gather_blame(h, "aggregator", s->aggregator, shard, &why);
	}
	hub_gather_enter(s, GATHER_made, UINT64_MAX);
}

/* The coordinator has made it again from the bundle: who lied? */
static void on_merged(struct hub *h, uint32_t shard, const struct desk_update *u, uint64_t now)
{
	struct gather_shard *s = &h->gather->shards[shard];
	const uint32_t aggregator = s->aggregator;
	const bool same = u->kind == UPDATE_merged && hash_equal(&u->merged, &s->merged);
	struct why why;
	if (!hash_equal(&s->made.blob, &u->blob))
		hub_gather_drop_blob(h, &s->made.blob);
	s->made = (struct desk_made){
		.have = true, .blob = u->blob, .by = same ? aggregator : MEMBERS_NONE};
	hub_gather_enter(s, GATHER_made, UINT64_MAX);
	if (same && s->disputed) {
		err_why(&why, ERR_hash,
			"member %u said that the update of shard %u comes to something else than "
			"it does",
			s->witness, shard);
		hub_gather_blame(h, "witness", s->witness, shard, &why);
	}
	if (same)
		return;
	err_why(&why, ERR_hash,
		"member %u merged the contributions to shard %u to something else than they come "
		"to",
		aggregator, shard);
	hub_gather_blame(h, "aggregator", aggregator, shard, &why);
	hub_gather_ban(h, aggregator, now);
}

void hub_gather_take_done(struct hub *h, struct desk_job *j, uint64_t now)
{
	const struct desk_update *u = &j->update;
	const uint32_t shard = u->what.shard;
	struct gather_shard *s = &h->gather->shards[shard];
	const enum err err = j->why.code;
	const bool ours = err == ERR_nomem || err == ERR_full || err == ERR_io;
	link_answer(h->link, u->link, u->ref, err, err ? j->why.text : NULL);
	if (!h->gather->closing || s->turn != u->turn) {
		if (!err && !(s->made.have && hash_equal(&s->made.blob, &u->blob)))
			hub_gather_drop_blob(h, &u->blob);
		return;
	}
	if (ours) {
		hub_alarm(h, &j->why);
		hub_gather_lose(h, shard, j->why.text, now);
	} else if (err) {
		hub_gather_blame(h, "aggregator", u->number, shard, &j->why);
		hub_gather_ban(h, u->number, now);
	} else if (s->state == GATHER_checking) {
		on_checked(h, shard, u, now);
	} else {
		on_merged(h, shard, u, now);
	}
	hub_gather_settle(h);
}

/* ---- the witness */

void hub_gather_take_verdict(struct hub *h, uint32_t number, const shoal_verdict *v, uint64_t now)
{
	struct hub_gather *g = h->gather;
	struct gather_shard *s = v->shard < g->n_shards ? &g->shards[v->shard] : NULL;
	if (!g->closing || v->round != h->announced || !s || s->state != GATHER_witnessed ||
		s->witness != number)
		return; /* it came too late: the coordinator has asked for the bundle */
	s->disputed = memcmp(v->merged, s->merged.b, sizeof s->merged.b) != 0;
	if (s->disputed)
		hub_gather_prove(h, v->shard, now);
	else
		hub_gather_enter(s, GATHER_made, UINT64_MAX);
	hub_gather_settle(h);
}

/* ---- refusals */

/* A refused question: of a gather the shard is named, of a want every one is meant that waits for
 * a bundle. */
static bool is_refused(const struct hub *h, uint32_t shard, uint32_t number, const shoal_refusal *r)
{
	const struct gather_shard *s = &h->gather->shards[shard];
	if (s->aggregator != number)
		return false;
	if (r->kind == MSG_want)
		return s->state == GATHER_proving;
	return r->kind == MSG_gather && r->round == h->announced && r->shard == shard &&
	       s->state == GATHER_asked;
}

void hub_gather_take_refusal(struct hub *h, uint32_t number, const shoal_refusal *r, uint64_t now)
{
	struct hub_gather *g = h->gather;
	struct why why;
	for (uint32_t i = 0; i < g->n_shards && g->closing; i++) {
		struct gather_shard *s = &g->shards[i];
		if (is_refused(h, i, number, r)) {
			err_why(&why, (enum err)r->code, "%s", r->text);
			hub_gather_blame(h, "aggregator", number, i, &why);
			hub_gather_lose(h, i, why.text, now);
		} else if (r->kind == MSG_witness && r->round == h->announced && r->shard == i &&
			   s->state == GATHER_witnessed && s->witness == number) {
			hub_gather_prove(h, i, now);
		}
	}
	hub_gather_settle(h);
}

void hub_gather_take_delivered(
	struct hub *h, uint32_t number, uint64_t ref, const struct why *why, uint64_t now)
{
	struct hub_gather *g = h->gather;
	for (uint32_t i = 0; i < g->n_shards && g->closing; i++) {
		struct gather_shard *s = &g->shards[i];
		if (s->state != GATHER_moving || s->aggregator != number)
			continue;
		uint32_t at = 0;
		while (at < s->n_moving && s->moving[at] != ref)
			at++;
		if (at == s->n_moving)
			continue;
		s->moving[at] = s->moving[--s->n_moving];
		if (why->code && why->code != ERR_duplicate)
			hub_gather_lose(h, i, why->text, now);
		else if (!s->n_moving)
			hub_gather_ask(h, i, now);
	}
	hub_gather_settle(h);
}
