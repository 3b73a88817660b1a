#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "peer/standing_parts.h"
#include "round/record.h"

struct standing_apply {
	struct standing *s;
	const struct standing_record *records;
	size_t n;
	struct ledger_head head;
	const struct roster *roster;
	struct record *open; /* n of them; NULL: not opened yet */
	size_t done, joined; /* of them: in ledger and replica, and in W */
	enum err err;
	struct why why;
};

/* ---- verifying */

static bool roster_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct roster_member *m = roster_by_number(arg, peer);
	if (m)
		memcpy(out, m->sign.b, SIGN_PUBLIC);
	return m != NULL;
}

/* What can be known of entries before anything is changed. */
static enum err check_entry(const struct standing *s, const struct ledger_entry *e,
	const struct roster *roster, struct why *why)
{
	if (e->shard >= s->n_shards)
		return err_why(why, ERR_shape, "ledger entry %llu is for shard %u of %u",
			(unsigned long long)e->sequence, e->shard, s->n_shards);
	for (uint32_t i = 0; i < e->count; i++)
		if (!roster_by_number(roster, e->accepted[i].peer))
			return err_why(why, ERR_unknown_peer,
				"ledger entry %llu lists member %u, who is not on the roster known "
				"here",
				(unsigned long long)e->sequence, e->accepted[i].peer);
	return ERR_OK;
}

static enum err check_records(const struct standing *s, const struct record *open, size_t n,
	const struct ledger_head *head, struct why *why)
{
	struct ledger_head at = ledger_at(s->ledger), to = *head;
	if (n % s->n_shards)
		return err_why(why, ERR_shape,
			"%zu ledger entries are no whole rounds of %u shards", n, s->n_shards);
	if (n && open[n - 1].entry.sequence < head->sequence) { /* a piece of the way */
		to.sequence = open[n - 1].entry.sequence;
		to.round = open[n - 1].entry.round;
		if (ledger_entry_hash(&open[n - 1].entry, &to.hash))
			return err_why(why, ERR_nomem, "no memory for a ledger entry");
	}
	return record_chain(open, n, &at, &to, why);
}

/* ---- ledger and replica: any thread */

static enum err open_all(struct standing_apply *a, struct why *why)
{
	enum err e = ERR_OK;
	a->open = alloc_must_zero(a->n + 1, sizeof *a->open);
	for (size_t i = 0; !e && i < a->n; i++)
		e = record_open(a->records[i].bytes, a->records[i].len, &a->open[i], why);
	if (!e)
		e = check_records(a->s, a->open, a->n, &a->head, why);
	for (size_t i = 0; !e && i < a->n; i++)
		e = check_entry(a->s, &a->open[i].entry, a->roster, why);
	return e;
}

static enum err apply_one(struct standing_apply *a, struct record *r, struct why *why)
{
	struct standing *s = a->s;
	struct update_expect expect = {.run = s->spec->id,
		.parent = ledger_parent(s->ledger),
		.codec = s->exchange.codec,
		.merged = s->exchange.merged,
		.n = trainer_count(s->trainer, r->entry.shard),
		.key = roster_key,
		.arg = (void *)(uintptr_t)a->roster};
	enum err e = update_verify(&r->update, &expect, why);
	if (!e)
		e = ledger_append(s->ledger, &r->entry, why);
	return e ? e : replica_apply(s->replica, &r->entry, &r->update, why);
}

void standing_apply_work(struct standing_apply *a)
{
	if (!a->err && !a->open)
		a->err = open_all(a, &a->why);
	while (!a->err && a->done < a->n) {
		const uint64_t round = a->open[a->done].entry.round;
		a->err = apply_one(a, &a->open[a->done++], &a->why);
		if (a->done < a->n && a->open[a->done].entry.round != round)
			return;
	}
}

/* ---- the working copy: the thread that trains */

static const struct ledger_accepted *own_part(
	const struct standing *s, const struct ledger_entry *e)
{
	for (uint32_t i = 0; i < e->count; i++)
		if (e->accepted[i].peer == s->member)
			return &e->accepted[i];
	return NULL;
}

/* G has moved. */
static enum err join_one(struct standing *s, const struct ledger_entry *entry, struct why *why)
{
	struct standing_flight *f = &s->flights[entry->shard];
	const float *g = replica_params(s->replica, entry->shard);
	const struct ledger_accepted *own = own_part(s, entry);
	const bool flies = feedback_in_flight(f->feedback),
		   known = flies && (!own || hash_equal(&own->planes, &f->says.planes));
	if (!entry->count && !flies)
		return ERR_OK; /* G stays, and W with it */
	if (flies || s->following)
		trainer_read(s->trainer, entry->shard, PARAMS_value, s->w);
	if (own && !known) /* a cut that a damaged state has lost: its rest is not known */
		feedback_reset(f->feedback, g, s->w);
	else if (!flies && !s->following) /* W is G, steps without a cut are dropped */
		feedback_rebase(f->feedback, g, s->w);
	else if (feedback_join(f->feedback, own != NULL, g, s->w))
		return err_why(why, ERR_nomem, "no memory to join shard %u to round %llu",
			entry->shard, (unsigned long long)entry->round);
	if (own) {
		s->listed += own->tokens;
		s->own_listed = known;
	}
	buf_clear(&f->sent);
	trainer_write(s->trainer, entry->shard, PARAMS_value, s->w);
	return ERR_OK;
}

bool standing_apply_join(struct standing_apply *a)
{
	for (; !a->err && a->joined < a->done; a->joined++)
		a->err = join_one(a->s, &a->open[a->joined].entry, &a->why);
	return !a->err && a->done < a->n;
}

/* ---- the whole */

struct standing_apply *standing_apply_new(struct standing *s, const struct standing_record *records,
	size_t n, const struct ledger_head *head, const struct roster *roster)
{
	struct standing_apply *a = alloc_must_zero(1, sizeof *a);
	*a = (struct standing_apply){
		.s = s, .records = records, .n = n, .head = *head, .roster = roster};
	if (!s->ledger)
		a->err = standing_somewhere(s, &a->why);
	return a;
}

enum err standing_apply_end(struct standing_apply *a, struct why *why)
{
	struct standing *s = a->s;
	const enum err e = a->err;
	if (!e) {
		s->moved = false;
		standing_follow_settle(s);
		s->confirmed = ledger_at(s->ledger).sequence == a->head.sequence;
	} else {
		if (a->done)
			standing_forget(s);
		if (why)
			*why = a->why;
	}
	for (size_t i = 0; a->open && i < a->n; i++)
		record_release(&a->open[i]);
	free(a->open);
	free(a);
	return e;
}

enum err standing_apply(struct standing *s, const struct standing_record *records, size_t n,
	const struct ledger_head *head, const struct roster *roster, struct why *why)
{
	struct standing_apply *a = standing_apply_new(s, records, n, head, roster);
	do {
		standing_apply_work(a);
	} while (standing_apply_join(a));
	return standing_apply_end(a, why);
}
