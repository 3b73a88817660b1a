#include "coordinator/hub_gate.h"
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"
#include "coordinator/failpoint.h"
#include "coordinator/hub_gather.h"
#include "round/normlimit.h"
#include "round/turns.h"

/* Answer the sender; what it can be blamed for is counted. */
static void refuse(struct hub *h, const uint8_t *key, uint64_t ref, const struct hub_refused *r,
	const struct why *why)
{
	if (why->code != ERR_nomem && why->code != ERR_full && why->code != ERR_io) {
		link_answer(h->link, key, ref, why->code, why->text);
		hub_refuse(h, r, why);
		return;
	}
	/* No fault of the sender's, who keeps it and sends it again. */
	link_answer(h->link, key, ref, why->code, err_text(why->code));
	if (!h->gate_fails)
		log_warn(coord, "contributions cannot be stored, peers keep them: %s", why->text);
	h->gate_fails = true;
	hub_alarm(h, why);
}

struct gate_expect hub_gate_expect(
	struct hub *h, const struct contribution_view *v, struct span spans[static SPAN_MAX])
{
	const uint32_t number = v->says.peer, shard = v->says.shard;
	const struct rounds_member *m = rounds_ask_member(h->rounds, number);
	const struct hub_arrival *a = &hub_member(h, number)->arrived[shard];
	const struct hash id = contribution_id(v);
	struct gate_expect e = {.run = h->run.spec->id,
		.parent = run_head(&h->run).hash,
		.round = rounds_ask_round(h->rounds),
		.shard = shard,
		.n = h->run.files.n[shard],
		.codec = h->run.exchange.codec,
		.peer = number,
		.sequence_tokens = h->run.spec->train.seq,
		/* one whose bytes are elsewhere may still come itself */
		.have = a->have && (a->via == MEMBERS_NONE || !hash_equal(&a->id, &id)),
		.have_id = a->id};
	memcpy(e.key, members_at(h->run.members, number)->sign, sizeof e.key);
	if (m && m->assigned && h->announced) {
		const uint32_t fragment = turns_fragment(&h->run.spec->round, e.round);
		e.n_assigned = span_tail(m->spans, m->n_spans, m->listed[fragment], spans);
	}
	uint64_t steps = span_count(spans, e.n_assigned) / h->run.spec->train.batch;
	e.norm_limit = normlimit(h->run.spec, h->run.exchange.rule.row, e.n, steps);
	return e;
}

/* Who was dropped while its contribution was on the way is told that, and is not to blame. */
static enum err check_part(struct hub *h, uint32_t number, uint64_t round, struct why *why)
{
	const struct rounds_member *m = rounds_ask_member(h->rounds, number);
	if (m && m->assigned)
		return ERR_OK;
	return err_why(why, ERR_wrong_round,
		"round %llu goes on without this peer, which was away for too long",
		(unsigned long long)round);
}

enum err hub_gate_place(struct hub *h, const struct contribution *says, struct why *why)
{
	if (says->shard >= h->run.files.n_shards)
		return err_why(why, ERR_shape, "there is no shard %u: the model of this run has %u",
			says->shard, h->run.files.n_shards);
	if (!turns_has(&h->run.spec->round, says->round, says->shard))
		return err_why(why, ERR_shape,
			"it is not the turn of shard %u in round %llu, where %u fragments "
			"take turns",
			says->shard, (unsigned long long)says->round, h->run.spec->round.fragments);
	if (h->announced && says->round == h->announced)
		return check_part(h, says->peer, says->round, why);
	return ERR_OK;
}

/* The link says who it is; a statement that names another is nobody's contribution. */
static enum err check_name(uint32_t number, const struct contribution *says, struct why *why)
{
	if (says->peer == number)
		return ERR_OK;
	return err_why(why, ERR_unknown_peer,
		"the contribution is signed as peer %u, it came from peer %u", says->peer, number);
}

void hub_gate_object(struct hub *h, uint32_t number, struct link_event *e)
{
	struct contribution_view v;
	struct why why = {0};
	struct hub_refused r = {.what = "contribution", .member = number};
	enum err err = contribution_parse(e->payload, e->payload_len, &v, &why);
	if (!err) {
		r.round = v.says.round;
		r.shard = v.says.shard;
		err = check_name(number, &v.says, &why);
	}
	if (!err)
		err = hub_gate_place(h, &v.says, &why);
	if (err) {
		refuse(h, e->key, e->ref, &r, &why);
		return;
	}
	struct desk_job *j = desk_job_new(DESK_gate);
	memcpy(j->gate.link, e->key, sizeof j->gate.link);
	j->gate.ref = e->ref;
	j->gate.bytes = e->payload;
	j->gate.len = e->payload_len;
	j->gate.says = v.says;
	j->gate.expect = hub_gate_expect(h, &v, j->gate.spans);
	e->payload = NULL;
	desk_put(h->desk, j);
}

/* The round may have moved on while the desk was looking. */
static enum err still_wanted(struct hub *h, const struct desk_gate *g, struct why *why)
{
	const struct hub_arrival *a = &hub_member(h, g->expect.peer)->arrived[g->says.shard];
	struct ledger_head head = run_head(&h->run);
	if (!h->announced || g->says.round != h->announced ||
		!hash_equal(&g->says.parent, &head.hash))
		return err_why(why, ERR_wrong_round,
			"round %llu was closed while the contribution was checked: it travels with "
			"the next one",
			(unsigned long long)g->says.round);
	enum err err = check_part(h, g->expect.peer, g->says.round, why);
	if (err)
		return err;
	if (a->have && a->via != MEMBERS_NONE && hash_equal(&a->id, &g->id))
		return ERR_OK;
	if (a->have && hash_equal(&a->id, &g->id))
		return err_why(why, ERR_duplicate, "the contribution was received already");
	if (a->have)
		return err_why(why, ERR_exists,
			"peer %u contributed to shard %u already, something else: the first one "
			"counts",
			g->expect.peer, g->says.shard);
	return ERR_OK;
}

enum err hub_gate_keep(
	struct hub *h, const struct store_contribution *row, uint64_t now, struct why *why)
{
	struct hub_arrival *a = &hub_member(h, row->peer)->arrived[row->shard];
	bool known = a->have;
	store_begin(h->run.store);
	if (known)
		store_contribution_move(h->run.store, row);
	else
		store_contribution_add(h->run.store, row);
	if (!known && !rounds_on_contribution(h->rounds, row->peer, row->sequences, now)) {
		store_rollback(h->run.store);
		return err_why(why, ERR_tokens,
			"the shards of one round must be trained on the same data: this one says "
			"%llu sequences",
			(unsigned long long)row->sequences);
	}
	enum err err = store_commit(h->run.store, why);
	if (err) {
		hub_fail(h, why); /* the machine counts it already */
		return err;
	}
	failpoint(FAILPOINT_contribution_stored);
	*a = (struct hub_arrival){.have = true, .id = row->id, .via = row->via};
	h->contributed += known ? 0 : row->bytes;
	if (known)
		hub_gather_moved(h, row, now);
	return ERR_OK;
}

static enum err keep(struct hub *h, const struct desk_gate *g, uint64_t now, struct why *why)
{
	const struct store_contribution row = {.shard = g->says.shard,
		.peer = g->expect.peer,
		.round = g->says.round,
		.sequences = span_count(g->says.spans, g->says.n_spans),
		.bytes = g->len,
		.id = g->id,
		.blob = g->blob,
		.via = STORE_HERE,
		.tokens = g->says.tokens,
		.planes = g->says.planes};
	return hub_gate_keep(h, &row, now, why);
}

void hub_gate_done(struct hub *h, struct desk_job *j, uint64_t now)
{
	struct desk_gate *g = &j->gate;
	const struct hub_refused r = {.what = "contribution",
		.member = g->expect.peer,
		.round = g->says.round,
		.shard = g->says.shard};
	bool stored = !j->why.code;
	enum err err = j->why.code;
	if (!err)
		err = still_wanted(h, g, &j->why);
	if (!err)
		err = keep(h, g, now, &j->why);
	if (!err || err == ERR_duplicate) {
		h->gate_fails = false;
		link_answer(h->link, g->link, g->ref, ERR_OK, NULL);
		return;
	}
	if (stored) {
		struct desk_job *drop = desk_job_new(DESK_drop);
		drop->drop.blobs = alloc_must_zero(1, sizeof *drop->drop.blobs);
		drop->drop.blobs[drop->drop.n++] = g->blob;
		desk_put(h->desk, drop);
	}
	refuse(h, g->link, g->ref, &r, &j->why);
}
