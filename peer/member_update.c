/* Updates and entries that come from other members: passed on to who follows, and put together
 * when both are here.  None of it counts before it leads to a head that the run key signed. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "peer/member_parts.h"
#include "round/ledger.h"
#include "round/update.h"

bool member_update_meta(
	const struct member *m, const struct link_event *e, uint64_t *round, uint32_t *shard)
{
	uint64_t v[2] = {0, 0};
	if (e->meta_len != MEMBER_META)
		return false;
	for (unsigned i = 0; i < MEMBER_META; i++)
		v[i / 8] |= (uint64_t)e->meta[i] << 8 * (i % 8);
	*round = v[0];
	*shard = (uint32_t)v[1];
	return *shard < m->spec->model.n_shards;
}

void member_update_put_meta(uint64_t round, uint32_t shard, uint8_t out[static MEMBER_META])
{
	const uint64_t v[2] = {round, shard};
	for (unsigned i = 0; i < MEMBER_META; i++)
		out[i] = (uint8_t)(v[i / 8] >> 8 * (i % 8));
}

static void forget(struct member_update *u)
{
	shared_drop(u->update);
	shared_drop(u->entry);
	u->update = u->entry = NULL;
	u->round = 0;
}

void member_update_end(struct member *m)
{
	for (uint32_t i = 0; m->updates && i < m->spec->model.n_shards; i++)
		forget(&m->updates[i]);
}

static uint8_t *copy(const struct shared *s)
{
	uint8_t *bytes = alloc_must(shared_len(s));
	memcpy(bytes, shared_data(s), shared_len(s));
	return bytes;
}

static void pass_on(
	struct member *m, struct shared *bytes, uint32_t kind, uint64_t round, uint32_t shard)
{
	uint8_t meta[MEMBER_META];
	struct member_update *u = &m->updates[shard];
	struct hash *passed = &u->passed[kind == OBJECT_entry];
	const struct link_object o = {
		.kind = kind, .bytes = bytes, .meta = meta, .meta_len = MEMBER_META};
	if (hash_equal(passed, shared_name(bytes)))
		return;
	*passed = *shared_name(bytes);
	member_update_put_meta(round, shard, meta);
	give_spread(m->give, &o, u->made == round);
}

void member_update_take(
	struct member *m, struct shared *bytes, uint32_t kind, uint64_t round, uint32_t shard)
{
	struct member_update *u = &m->updates[shard];
	struct shared **to = kind == OBJECT_update ? &u->update : &u->entry;
	pass_on(m, bytes, kind, round, shard);
	if (u->round != round)
		forget(u);
	u->round = round;
	shared_drop(*to);
	*to = shared_hold(bytes);
	if (!u->update || !u->entry || !m->aggregate)
		return;
	aggregate_compose(m->aggregate, copy(u->entry), shared_len(u->entry), copy(u->update),
		shared_len(u->update));
	forget(u);
}

void member_update_made(struct member *m, struct shared *bytes, uint64_t round, uint32_t shard)
{
	m->updates[shard].made = round;
	member_update_take(m, bytes, OBJECT_update, round, shard);
}

/* Form only, so that nobody is sent what is nothing at all. */
static enum err check(const struct link_event *e, uint64_t round, uint32_t shard, struct why *why)
{
	struct ledger_entry entry = {0};
	struct update update = {0};
	size_t used = 0;
	bool right = false;
	enum err err =
		e->object_kind == OBJECT_update
			? update_open(e->payload, e->payload_len, &update, why)
			: ledger_entry_decode(e->payload, e->payload_len, &used, &entry, why);
	if (!err && e->object_kind == OBJECT_update)
		right = update.head.round == round && update.head.shard == shard;
	else if (!err)
		right = entry.round == round && entry.shard == shard && used == e->payload_len;
	update_release(&update);
	ledger_entry_release(&entry);
	if (err || right)
		return err;
	return err_why(why, ERR_shape, "it is of another round or shard than it is said to be");
}

void member_update_object(struct member *m, struct link_event *e)
{
	uint64_t round = 0;
	uint32_t shard = 0;
	struct why why = {0};
	enum err err = member_update_meta(m, e, &round, &shard)
			       ? check(e, round, shard, &why)
			       : err_why(&why, ERR_syntax, "its meta is no round and shard");
	/* Of the next round when this peer is late, or of one that it is past. */
	if (!err && (round <= m->head.round || round > m->head.round + 2))
		err = err_why(&why, ERR_wrong_round, "this peer is at round %llu",
			(unsigned long long)m->head.round);
	link_answer(m->link, e->key, e->ref, err, err ? why.text : NULL);
	if (err)
		return;
	struct shared *bytes = shared_new(e->payload, e->payload_len);
	e->payload = NULL;
	member_update_take(m, bytes, e->object_kind, round, shard);
	shared_drop(bytes);
}

/* Entry and update are one: from here on it is like a record of the coordinator's, but that its
 * entry may be made up. */
void member_update_record(struct member *m, struct aggregate_result *r)
{
	if (r->why.code) {
		member_log(m, 2, "what other members sent of round %llu is passed over: %s",
			(unsigned long long)r->round, r->why.text);
		return;
	}
	m->from_peers = true;
	(void)!inbox_put(&m->inbox, r->sequence, r->bytes, r->len, m->head.sequence);
	r->bytes = NULL;
}

/* The entry at the front of a record follows on the head, which it moves. */
static bool follows(struct ledger_head *at, const struct inbox_item *item)
{
	struct ledger_entry e = {0};
	struct why why;
	size_t used;
	if (ledger_entry_decode(item->bytes, item->len, &used, &e, &why))
		return false;
	bool right = e.sequence == at->sequence + 1 && hash_equal(&e.previous, &at->hash);
	*at = (struct ledger_head){.sequence = e.sequence, .round = e.round};
	right = right && !ledger_entry_hash(&e, &at->hash);
	ledger_entry_release(&e);
	return right;
}

bool member_update_leads(struct member *m)
{
	struct ledger_head at = m->head;
	bool right = true;
	if (!m->from_peers || inbox_reaches(&m->inbox, m->head.sequence) < m->target.sequence)
		return true;
	for (size_t i = 0; right && i < m->inbox.n; i++) {
		const struct inbox_item *item = &m->inbox.items[i];
		if (item->sequence > m->head.sequence && item->sequence <= m->target.sequence)
			right = follows(&at, item);
	}
	m->from_peers = false;
	if (right && hash_equal(&at.hash, &m->target.hash))
		return true;
	member_warn(m,
		"what other members sent does not lead to ledger entry %llu as it was "
		"signed; it is asked of the coordinator",
		(unsigned long long)m->target.sequence);
	inbox_drop(&m->inbox, UINT64_MAX);
	return false;
}
