#include "coordinator/closing.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "coordinator/failpoint.h"
#include "round/record.h"
#include "round/update_make.h"

/* ---- the update */

static void parts_free(struct update_part *parts, uint32_t n)
{
	for (uint32_t i = 0; parts && i < n; i++)
		free((void *)(uintptr_t)parts[i].bytes);
	free(parts);
}

static enum err read_parts(const struct closing *c, const struct closing_job *job,
	struct update_part **out, struct why *why)
{
	*out = alloc_must_zero(job->count + 1u, sizeof **out);
	for (uint32_t i = 0; i < job->count; i++) {
		struct why said = {0};
		uint8_t *bytes = NULL;
		enum err err = blob_get(c->blobs, &job->inputs[i].blob, c->contribution_most,
			&bytes, &(*out)[i].len, &said);
		(*out)[i].bytes = bytes;
		if (err)
			return err_why(why, err, "the contribution of member %u to shard %u: %s",
				job->inputs[i].peer, job->shard, said.text);
	}
	return ERR_OK;
}

static bool find_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct closing_job *job = arg;
	for (uint32_t i = 0; i < job->count; i++) {
		if (job->inputs[i].peer != peer)
			continue;
		memcpy(out, job->inputs[i].key, SIGN_PUBLIC);
		return true;
	}
	return false;
}

static enum err read_update(const struct closing *c, const struct closing_job *job,
	const struct update_make *how, struct update_made *out, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t len = 0;
	struct why said = {0};
	enum err err = blob_get(c->blobs, job->update, SIZE_MAX, &bytes, &len, &said);
	if (err)
		return err_why(why, err, "the update of shard %u: %s", job->shard, said.text);
	return update_make_open(how, bytes, len, out, why);
}

static enum err make_update(const struct closing *c, const struct closing_job *job,
	struct update_made *out, struct why *why)
{
	const struct update_make how = {.expect = {.run = c->run,
						.parent = c->parent.hash,
						.codec = c->exchange.codec,
						.merged = c->exchange.merged,
						.n = c->files->n[job->shard],
						.key = find_key,
						.arg = (void *)(uintptr_t)job},
		.rule = c->exchange.rule,
		.round = c->round,
		.shard = job->shard};
	struct update_part *parts = NULL;
	if (job->update)
		return read_update(c, job, &how, out, why);
	enum err err = read_parts(c, job, &parts, why);
	if (!err)
		err = update_make_bundle(&how, parts, job->count, out, why);
	parts_free(parts, job->count);
	return err ? err : update_make_smaller(&how, out, why);
}

/* ---- the next state */

static enum err next_state(const struct closing *c, const struct update *u, uint32_t shard,
	struct shardstate *next, struct why *why)
{
	struct shardstate now;
	enum err err = shardfile_load(c->files, shard, c->round - 1, &now, why);
	if (err)
		return err;
	err = shardstate_init(next, now.shard, now.n, c->exchange.rule.row);
	if (err)
		err_why(why, err, "no memory to apply %u contributions to shard %u", u->count,
			shard);
	else
		err = shardstate_next(&now, &c->exchange.rule, u, next, why);
	shardstate_release(&now);
	return err;
}

static enum err fill_entry(const struct closing *c, const struct update *u,
	const struct shardstate *next, const struct hash *state, const struct ledger_head *at,
	struct ledger_entry *e)
{
	*e = (struct ledger_entry){.sequence = at->sequence + 1,
		.round = c->round,
		.shard = next->shard,
		.state = u->count ? shardstate_hash(next) : *state,
		.previous = at->hash};
	return update_list(u, e);
}

/* Its state is that of the round before, and so is its file. */
static enum err next_nothing(const struct closing *c, const struct closing_job *job,
	struct shardstate *next, struct why *why)
{
	*next = (struct shardstate){.shard = job->shard, .round = c->round};
	return shardfile_carry(c->files, job->shard, c->round, why);
}

static enum err put_record(
	const struct closing *c, const struct buf *update, struct closing_out *out, struct why *why)
{
	struct buf record;
	struct hash name;
	buf_init(&record, LEDGER_ENTRY_MAX + update->len);
	enum err err = record_encode(&out->entry, update->data, update->len, &record);
	if (err) {
		buf_release(&record);
		return err_why(why, err, "no memory for the record of shard %u", out->entry.shard);
	}
	size_t n;
	uint8_t *bytes = buf_steal(&record, &n);
	out->record = shared_new(bytes, n);
	return blob_put(c->blobs, bytes, n, &name, why);
}

enum err closing_shard(const struct closing *c, const struct closing_job *job,
	struct ledger_head *at, struct closing_out *out, struct why *why)
{
	struct update_made made = {0};
	const struct update *u = &made.update;
	struct shardstate next = {0};
	*out = (struct closing_out){0};
	enum err err = make_update(c, job, &made, why);
	if (!err && job->count)
		err = next_state(c, u, job->shard, &next, why);
	else if (!err)
		err = next_nothing(c, job, &next, why);
	if (!err && (err = fill_entry(c, u, &next, &job->state, at, &out->entry)))
		err_why(why, err, "no memory for the entry of shard %u", job->shard);
	if (!err)
		err = ledger_entry_hash(&out->entry, &out->hash);
	if (!err)
		err = put_record(c, &made.bytes, out, why);
	failpoint(FAILPOINT_shard_record);
	if (!err && job->count)
		err = shardfile_save(c->files, &next, why);
	failpoint(FAILPOINT_shard_state);
	if (err)
		closing_release(out);
	else
		*at = (struct ledger_head){out->entry.sequence, c->round, out->hash};
	shardstate_release(&next);
	update_make_release(&made);
	return err;
}

void closing_release(struct closing_out *out)
{
	if (!out)
		return;
	ledger_entry_release(&out->entry);
	shared_drop(out->record);
	out->record = NULL;
}
