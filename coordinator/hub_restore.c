#include "coordinator/hub_restore.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"

struct restoring {
	struct hub *hub;
	uint64_t now;
	bool open;
	struct store_contribution *in;
	size_t n_in;
};

static enum err make_machine(struct hub *h, uint64_t now, struct why *why)
{
	struct rounds_config c = {.spec = h->run.spec,
		.n_shards = h->run.files.n_shards,
		.first_round = run_head(&h->run).round + 1,
		.ledger_tokens = ledger_tokens(h->run.ledger),
		.now = now};
	struct span *pool = NULL;
	size_t n = 0;
	enum err err = store_get_number(h->run.store, "cursor", 0, &c.cursor, why);
	if (!err)
		err = store_get_number(h->run.store, "voided", 0, &c.voided, why);
	if (!err)
		err = store_pool_get(h->run.store, &pool, &n, why);
	if (!err)
		h->rounds = rounds_new(&c);
	for (size_t i = 0; !err && i < n; i++)
		rounds_return_span(h->rounds, pool[i]);
	free(pool);
	return err;
}

static void add_members(struct hub *h, uint64_t now)
{
	for (uint32_t i = MEMBERS_FIRST; i < members_end(h->run.members); i++) {
		if (!members_at(h->run.members, i))
			continue;
		rounds_on_joined(h->rounds, i, now);
		hub_member(h, i);
	}
}

/* ---- the open round */

static void open_plan(void *arg, const struct store_plan *p)
{
	struct restoring *r = arg;
	struct rounds_member was = {.n_spans = p->n_spans, .steps = p->steps};
	memcpy(was.spans, p->spans, sizeof was.spans);
	memcpy(was.listed, p->listed, sizeof was.listed);
	if (p->round !=
		rounds_ask_round(r->hub->rounds)) { /* a stream; no round was opened after */
		rounds_return_stream(r->hub->rounds, &was);
		return;
	}
	r->open = true;
	rounds_restore_open(r->hub->rounds, p->member, &was);
}

static void note_contribution(void *arg, const struct store_contribution *c)
{
	struct restoring *r = arg;
	r->in = alloc_must_resize(r->in, r->n_in + 1, sizeof *r->in);
	r->in[r->n_in++] = *c;
}

/* Members whose contribution did not survive on disk are asked for it again. */
static enum err drop_damaged(struct restoring *r, struct why *why)
{
	struct run *run = &r->hub->run;
	store_begin(run->store);
	for (size_t i = 0; i < r->n_in; i++) {
		struct why said;
		if (r->in[i].via != STORE_HERE || !blob_verify(run->blobs, &r->in[i].blob, &said))
			continue;
		uint32_t peer = r->in[i].peer;
		log_warn(store, "the contribution of member %u is asked for again: %s", peer,
			said.text);
		store_contribution_remove(run->store, peer);
		size_t kept = 0;
		for (size_t k = 0; k < r->n_in; k++)
			if (r->in[k].peer != peer)
				r->in[kept++] = r->in[k];
		r->n_in = kept;
		i = (size_t)-1; /* from the start: what is behind us has moved */
	}
	return store_commit(run->store, why);
}

static void count_contribution(struct restoring *r, const struct store_contribution *c)
{
	struct hub *h = r->hub;
	if (c->round != rounds_ask_round(h->rounds) || c->shard >= h->run.files.n_shards ||
		!rounds_on_contribution(h->rounds, c->peer, c->sequences, r->now))
		return;
	hub_member(h, c->peer)->arrived[c->shard] =
		(struct hub_arrival){.have = true, .id = c->id, .via = c->via};
	h->contributed += c->bytes;
}

static enum err open_again(struct restoring *r, struct why *why)
{
	struct hub *h = r->hub;
	struct store *s = h->run.store;
	uint64_t validator = MEMBERS_NONE;
	enum err err = store_plan_list(s, open_plan, r, why);
	if (!err && r->open)
		err = store_contribution_list(s, note_contribution, r, why);
	if (!err && r->open)
		err = drop_damaged(r, why);
	if (!err)
		err = store_get_number(s, "validator", MEMBERS_NONE, &validator, why);
	if (!err)
		err = store_get_number(s, "validates", 0, &h->validates, why);
	if (!err)
		err = store_get_number(s, "validates_tokens", 0, &h->validates_tokens, why);
	if (!err)
		err = store_get_number(s, "opened_s", 0, &h->opened_s, why);
	h->validator = (uint32_t)validator;
	if (err || !r->open)
		return err;
	h->announced = rounds_ask_round(h->rounds);
	/* First, so that those not in are waited for while contributions are counted. */
	rounds_restored(h->rounds, r->now);
	for (size_t i = 0; i < r->n_in; i++)
		count_contribution(r, &r->in[i]);
	return ERR_OK;
}

/* ---- what was measured and counted */

static void note_loss(void *arg, const struct store_loss *l)
{
	struct hub *h = arg;
	if (!h->have_loss)
		h->first_loss = *l;
	h->have_loss = true;
	h->last_loss = *l;
}

static void note_refusals(void *arg, enum err code, uint64_t count)
{
	struct hub *h = arg;
	(void)code;
	h->refusals += count;
}

static void note_snapshot(void *arg, const struct store_snapshot *s)
{
	uint64_t *newest = arg;
	if (s->round > *newest)
		*newest = s->round;
}

enum err hub_restore(struct hub *h, uint64_t now, struct why *why)
{
	struct restoring r = {.hub = h, .now = now};
	uint64_t snapshot = 0, paused = 0;
	h->validator = MEMBERS_NONE;
	enum err err = make_machine(h, now, why);
	if (err)
		return err;
	add_members(h, now);
	err = open_again(&r, why);
	if (!err)
		err = store_loss_list(h->run.store, note_loss, h, why);
	if (!err)
		err = store_refusal_counts(h->run.store, note_refusals, h, why);
	if (!err)
		err = store_round_total(h->run.store, &h->sum, why);
	if (!err)
		err = store_snapshot_list(h->run.store, note_snapshot, &snapshot, why);
	if (!err)
		err = store_get_number(h->run.store, "paused", 0, &paused, why);
	free(r.in);
	if (err)
		return err;
	for (uint32_t i = MEMBERS_FIRST; i < members_end(h->run.members); i++)
		if (members_at(h->run.members, i) && members_at(h->run.members, i)->removed)
			rounds_on_gone(h->rounds, i, now);
	rounds_on_pause(h->rounds, paused, now);
	uint64_t head = run_head(&h->run).round;
	bool finishing = rounds_ask_state(h->rounds) == ROUNDS_finishing;
	h->snapshot_due =
		snapshot < head && (finishing || head % h->run.spec->round.snapshot_every == 0);
	if (finishing && h->have_loss && h->last_loss.round == head)
		rounds_on_last_validation(h->rounds, now);
	return ERR_OK;
}
