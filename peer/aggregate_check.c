#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "peer/aggregate_parts.h"
#include "round/record.h"

/* ---- a bundle, as a witness */

static enum err check_items(
	const struct update *u, const struct aggregate_job *job, struct why *why)
{
	if (u->kind != UPDATE_bundle)
		return err_why(why, ERR_shape,
			"what is to be merged again is merged: it takes a bundle to see of what");
	if (u->count != job->n)
		return err_why(why, ERR_hash,
			"a bundle has %" PRIu32 " contributions, listed are %zu", u->count, job->n);
	for (uint32_t i = 0; i < u->count; i++) {
		struct hash id = contribution_id(&u->views[i]);
		if (u->views[i].says.peer == job->items[i].peer &&
			hash_equal(&id, &job->items[i].id))
			continue;
		return err_why(why, ERR_hash,
			"contribution %" PRIu32 " of a bundle, of peer %" PRIu32
			", is not the one of peer %" PRIu32 " that is listed",
			i + 1, u->views[i].says.peer, job->items[i].peer);
	}
	return ERR_OK;
}

/* What gate_check would refuse and update_verify lets pass: each vector is open already. */
static enum err check_gate(const struct aggregate *a, const struct aggregate_round *round,
	const struct update *u, struct why *why)
{
	enum err err = ERR_OK;
	for (uint32_t i = 0; !err && i < u->count; i++) {
		const struct contribution_view *v = &u->views[i];
		struct gate_expect expect;
		struct gate_passed passed;
		err = aggregate_keep_expect(a, round, &v->says, &expect, why);
		if (!err)
			err = gate_statement(
				&expect, v->bytes, v->signed_len + SIGN_BYTES, &passed, why);
		if (!err)
			err = gate_norm(sqrt(u->vectors[i].norm_squared), expect.norm_limit, why);
	}
	return err;
}

enum err aggregate_check_bundle(
	struct aggregate *a, struct aggregate_job *job, struct aggregate_result *r, struct why *why)
{
	struct aggregate_round *round;
	struct update_made made;
	enum err err = aggregate_keep_find(a, job->round, job->shard, &round, why);
	if (err)
		return err;
	const struct update_make how = aggregate_make_how(a, round, job->shard);
	err = update_make_open(&how, job->bytes, job->len, &made, why);
	job->bytes = NULL;
	if (!err)
		err = check_items(&made.update, job, why);
	if (!err)
		err = check_gate(a, round, &made.update, why);
	if (!err)
		err = update_make_smaller(&how, &made, why);
	if (!err && made.update.kind != UPDATE_merged)
		err = err_why(why, ERR_shape,
			"the update of round %" PRIu64 " shard %" PRIu32
			" is smaller as a bundle: it was not to be merged",
			job->round, job->shard);
	if (!err)
		r->merged = made.update.merged;
	update_make_release(&made);
	return err;
}

/* ---- a record */

static enum err open_entry(
	const struct aggregate_job *job, struct ledger_entry *out, struct why *why)
{
	size_t used = 0;
	enum err err = ledger_entry_decode(job->bytes, job->len, &used, out, why);
	if (!err && used != job->len)
		err = err_why(why, ERR_syntax, "%zu bytes follow a ledger entry", job->len - used);
	return err;
}

static enum err compose(struct aggregate *a, struct aggregate_job *job,
	const struct ledger_entry *e, struct aggregate_result *r, struct why *why)
{
	struct aggregate_round *round;
	struct update_made made;
	struct buf record;
	enum err err = aggregate_keep_find(a, e->round, e->shard, &round, why);
	if (err)
		return err;
	const struct update_make how = aggregate_make_how(a, round, e->shard);
	err = update_make_open(&how, job->update, job->update_len, &made, why);
	job->update = NULL;
	if (!err)
		err = update_matches(&made.update, e, why);
	buf_init(&record, job->len + job->update_len);
	if (!err && (err = record_encode(e, made.bytes.data, made.bytes.len, &record)))
		err_why(why, err, "no memory for the record of shard %" PRIu32, e->shard);
	if (!err)
		r->bytes = buf_steal(&record, &r->len);
	buf_release(&record);
	update_make_release(&made);
	return err;
}

enum err aggregate_check_record(
	struct aggregate *a, struct aggregate_job *job, struct aggregate_result *r, struct why *why)
{
	struct ledger_entry entry = {0};
	enum err err = open_entry(job, &entry, why);
	if (!err) {
		r->round = entry.round;
		r->shard = entry.shard;
		r->sequence = entry.sequence;
		err = compose(a, job, &entry, r, why);
	}
	ledger_entry_release(&entry);
	return err;
}
