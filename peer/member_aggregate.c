/* Between the links and the aggregator's thread (peer/aggregate.h): what comes in from other
 * members and from the coordinator goes there, and its results go back to who waits for them. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/member_parts.h"
#include "round/contribution.h"
#include "round/exchange.h"

#define KEEP_LEAST (256ull << 20) /* bytes of contributions at least */

size_t member_aggregate_most(const struct member *m)
{
	struct exchange exchange;
	struct why why;
	if (exchange_find(m->spec, &exchange, &why))
		return 0; /* the worker has said it */
	return contribution_bound(&exchange.codec, worker_params(m->worker));
}

/* NULL where it cannot be made: then this peer aggregates nothing, and is no witness. */
static struct aggregate *aggregator(struct member *m)
{
	const struct aggregate_config how = {
		.spec = m->spec, .results = m->mail, .memory = KEEP_LEAST};
	struct why why;
	if (m->aggregate)
		return m->aggregate;
	if (aggregate_new(&how, &m->aggregate, &why)) {
		member_warn(m, "this peer cannot aggregate: %s", why.text);
		m->aggregate = NULL;
		return NULL;
	}
	aggregate_roster(m->aggregate, m->next_roster ? m->next_roster : m->roster);
	return m->aggregate;
}

void member_aggregate_roster(struct member *m)
{
	if (m->aggregate)
		aggregate_roster(m->aggregate, m->next_roster ? m->next_roster : m->roster);
}

void member_aggregate_plan(struct member *m)
{
	const uint32_t n = m->spec->model.n_shards;
	if (!m->aggregate && !m->plan.n_aggregators)
		return;
	bool *takes = alloc_must_zero(n, sizeof *takes);
	for (uint32_t i = 0; i < n; i++) {
		const struct plan_peer *to = plan_aggregator(&m->plan, i);
		takes[i] = to && to->member == m->number;
	}
	if (aggregator(m))
		aggregate_open(m->aggregate, m->plan.round, &m->plan.parent.hash, takes);
	free(takes);
}

/* ---- jobs */

void member_aggregate_contribution(
	void *member, const uint8_t *key, uint64_t ref, uint8_t *bytes, size_t len)
{
	struct member *m = member;
	struct aggregate_from from = {.ref = ref};
	struct why why;
	memcpy(from.key, key, sizeof from.key);
	if (m->aggregate) {
		aggregate_put(m->aggregate, &from, bytes, len);
		return;
	}
	free(bytes);
	(void)err_why(&why, ERR_refused, "this peer aggregates nothing");
	give_answer(m->give, key, ref, &why);
}

void member_aggregate_bundle(void *member, const uint8_t *key, uint64_t round, uint32_t shard)
{
	struct member *m = member;
	struct aggregate_from from = {0};
	struct why why;
	memcpy(from.key, key, sizeof from.key);
	if (m->aggregate) {
		aggregate_bundle(m->aggregate, &from, round, shard);
		return;
	}
	(void)err_why(&why, ERR_missing, "this peer has aggregated nothing");
	give_refuse(m->give, key, MSG_want, &why);
}

static void refuse(
	struct member *m, uint32_t kind, uint64_t round, uint32_t shard, const struct why *why)
{
	shoal_header h = msg_refusal(kind, why->code, why->text);
	h.body.refusal.round = round;
	h.body.refusal.shard = shard;
	link_send(m->link, m->curve, &h, NULL);
}

void member_aggregate_gather(struct member *m, const struct link_event *e)
{
	const shoal_gather *g = &e->header.body.gather;
	struct aggregate_item *items = NULL;
	size_t n = 0;
	struct why why;
	enum err err = aggregate_list(e->payload, e->payload_len, &items, &n, &why);
	if (!err && !aggregator(m))
		err = err_why(&why, ERR_nomem, "this peer cannot aggregate");
	if (!err) {
		aggregate_gather(m->aggregate, g->round, g->shard, items, n);
		return;
	}
	free(items);
	refuse(m, MSG_gather, g->round, g->shard, &why);
}

/* ---- being a witness */

static void forget(struct member_witness *w)
{
	free(w->items);
	*w = (struct member_witness){0};
}

static enum err ask(struct member *m, const shoal_witness *w, struct why *why)
{
	const struct member_mesh *p = member_mesh_number(m, w->aggregator);
	shoal_header h = {.which_body = MSG_want};
	if (!p || !p->open)
		return err_why(why, ERR_network, "there is no link to member %u", w->aggregator);
	h.body.want.kind = OBJECT_bundle;
	h.body.want.offset = w->round;
	for (unsigned i = 0; i < 4; i++)
		h.body.want.name[i] = (uint8_t)(w->shard >> 8 * i);
	link_send(m->link, p->key, &h, NULL);
	return ERR_OK;
}

void member_aggregate_witness(struct member *m, const struct link_event *e)
{
	const shoal_witness *w = &e->header.body.witness;
	struct aggregate_item *items = NULL;
	size_t n = 0;
	struct why why = {0};
	enum err err = w->shard < m->spec->model.n_shards
			       ? aggregate_list(e->payload, e->payload_len, &items, &n, &why)
			       : err_why(&why, ERR_shape, "there is no shard %u", w->shard);
	if (!err && !aggregator(m))
		err = err_why(&why, ERR_nomem, "this peer cannot merge anything");
	if (!err)
		err = ask(m, w, &why);
	if (err) {
		free(items);
		refuse(m, MSG_witness, w->round, w->shard, &why);
		return;
	}
	forget(&m->witness[w->shard]);
	m->witness[w->shard] = (struct member_witness){
		.round = w->round, .aggregator = w->aggregator, .items = items, .n = n};
}

void member_aggregate_check(struct member *m, const struct member_mesh *from, struct link_event *e)
{
	uint64_t round = 0;
	uint32_t shard = 0;
	struct member_witness *w = NULL;
	if (member_update_meta(m, e, &round, &shard))
		w = &m->witness[shard];
	if (!w || !w->round || w->round != round || w->aggregator != from->number) {
		link_answer(m->link, e->key, e->ref, ERR_refused, "this was not asked for");
		return;
	}
	link_answer(m->link, e->key, e->ref, ERR_OK, NULL);
	aggregate_witness(m->aggregate, round, shard, w->items, w->n, e->payload, e->payload_len);
	e->payload = NULL;
	*w = (struct member_witness){0};
}

void member_aggregate_refused(struct member *m, uint32_t aggregator, const shoal_refusal *r)
{
	for (uint32_t i = 0; r->kind == MSG_want && i < m->spec->model.n_shards; i++) {
		struct member_witness *w = &m->witness[i];
		struct why why;
		if (!w->round || w->aggregator != aggregator)
			continue;
		(void)err_why(&why, (enum err)r->code, "the aggregator says: %s", r->text);
		refuse(m, MSG_witness, w->round, i, &why);
		forget(w);
	}
}

/* ---- results */

static void send_receipt(struct member *m, const struct aggregate_result *r)
{
	shoal_header h = {.which_body = MSG_receipt};
	h.body.receipt.round = r->round;
	h.body.receipt.shard = r->shard;
	h.body.receipt.bytes = r->size;
	struct shared *payload = shared_copy(r->bytes, r->len);
	link_send(m->link, m->curve, &h, payload);
	shared_drop(payload);
}

static void on_taken(struct member *m, const struct aggregate_result *r, uint64_t now)
{
	const bool coordinator = !memcmp(r->from.key, m->curve, LINK_KEY);
	if (r->from.own)
		member_send_here(m, (uint32_t)r->from.ref, &r->why, now);
	else if (coordinator)
		link_answer(m->link, m->curve, r->from.ref, r->why.code,
			r->why.code ? r->why.text : NULL);
	else
		give_answer(m->give, r->from.key, r->from.ref, &r->why);
	if (!r->why.code && !coordinator)
		send_receipt(m, r);
}

static struct link_object object(
	const struct aggregate_result *r, uint32_t kind, uint8_t meta[static MEMBER_META])
{
	member_update_put_meta(r->round, r->shard, meta);
	return (struct link_object){
		.kind = kind, .bytes = r->shared, .meta = meta, .meta_len = MEMBER_META};
}

static void on_update(struct member *m, const struct aggregate_result *r)
{
	uint8_t meta[MEMBER_META];
	if (r->why.code) {
		refuse(m, MSG_gather, r->round, r->shard, &r->why);
		return;
	}
	const struct link_object o = object(r, OBJECT_update, meta);
	(void)link_push(m->link, m->curve, &o);
	member_update_made(m, r->shared, r->round, r->shard);
}

static void on_bundle(struct member *m, const struct aggregate_result *r)
{
	uint8_t meta[MEMBER_META];
	const bool coordinator = !memcmp(r->from.key, m->curve, LINK_KEY);
	if (r->why.code) {
		if (coordinator)
			refuse(m, MSG_want, r->round, r->shard, &r->why);
		else
			give_refuse(m->give, r->from.key, MSG_want, &r->why);
		return;
	}
	const struct link_object o = object(r, OBJECT_bundle, meta);
	if (coordinator)
		(void)link_push(m->link, m->curve, &o);
	else
		give_send(m->give, r->from.key, &o);
}

static void on_verdict(struct member *m, const struct aggregate_result *r)
{
	shoal_header h = {.which_body = MSG_verdict};
	if (r->why.code) {
		refuse(m, MSG_witness, r->round, r->shard, &r->why);
		return;
	}
	h.body.verdict.round = r->round;
	h.body.verdict.shard = r->shard;
	memcpy(h.body.verdict.merged, r->merged.b, sizeof h.body.verdict.merged);
	link_send(m->link, m->curve, &h, NULL);
}

void member_aggregate_result(struct member *m, struct aggregate_result *r, uint64_t now)
{
	switch ((enum aggregate_result_kind)r->mail.kind) {
	case AGGREGATE_taken: on_taken(m, r, now); break;
	case AGGREGATE_update: on_update(m, r); break;
	case AGGREGATE_bundle: on_bundle(m, r); break;
	case AGGREGATE_verdict: on_verdict(m, r); break;
	case AGGREGATE_record: member_update_record(m, r); break;
	}
}

void member_aggregate_end(struct member *m)
{
	for (uint32_t i = 0; m->witness && i < m->spec->model.n_shards; i++)
		forget(&m->witness[i]);
	aggregate_free(m->aggregate);
	m->aggregate = NULL;
}
