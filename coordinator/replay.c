#include "coordinator/replay.h"
#include <stdlib.h>
#include <string.h>
#include "coordinator/audit.h"
#include "model/statefile.h"
#include "round/record.h"

static bool find_key(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC])
{
	const struct roster_member *m = roster_by_number(arg, peer);
	if (m)
		memcpy(out, m->sign.b, SIGN_PUBLIC);
	return m;
}

/* The head that round started from. */
static enum err parent_of(const struct replay *r, uint64_t round, struct hash *out, struct why *why)
{
	struct store_entry e;
	*out = r->genesis;
	if (round == 1)
		return ERR_OK;
	uint64_t sequence = replay_sequence(r->n_shards, round, 0) - 1;
	enum err err = store_entry_find(r->store, sequence, &e, why);
	if (err == ERR_missing)
		return err_why(why, err, "ledger entry %llu is missing in the database",
			(unsigned long long)sequence);
	*out = e.hash;
	return err;
}

static enum err merge_again(const struct replay *r, const struct record *rec,
	const struct update_expect *expect, struct why *why)
{
	const struct audit audit = {r->blobs, &r->exchange, expect};
	uint64_t here;
	enum err err = store_input_count(r->store, rec->entry.sequence, &here, why);
	if (err)
		return err;
	if (here == rec->update.count)
		return audit_merged(&audit, &rec->update, why);
	++*r->elsewhere;
	return ERR_OK;
}

static enum err check_truth(
	const struct replay *r, struct record *rec, const struct shardstate *state, struct why *why)
{
	struct update_expect expect = {.run = r->run,
		.codec = r->exchange.codec,
		.merged = r->exchange.merged,
		.n = state->n,
		.key = find_key,
		.arg = (void *)(uintptr_t)r->roster};
	enum err err = parent_of(r, rec->entry.round, &expect.parent, why);
	if (!err)
		err = update_verify(&rec->update, &expect, why);
	if (!err)
		err = update_matches(&rec->update, &rec->entry, why);
	if (!err && r->elsewhere && rec->update.kind == UPDATE_merged)
		err = merge_again(r, rec, &expect, why);
	return err;
}

static enum err next_state(
	const struct replay *r, const struct record *rec, struct shardstate *state, struct why *why)
{
	struct shardstate next = {0};
	enum err err = shardstate_init(&next, state->shard, state->n, r->exchange.rule.row);
	if (err)
		err_why(why, err, "no memory for shard %u", state->shard);
	else
		err = shardstate_next(state, &r->exchange.rule, &rec->update, &next, why);
	struct hash hash = err ? (struct hash){{0}} : shardstate_hash(&next);
	if (!err && !hash_equal(&hash, &rec->entry.state)) {
		char ours[HASH_HEX], theirs[HASH_HEX];
		hash_hex(&hash, ours);
		hash_hex(&rec->entry.state, theirs);
		err = err_why(why, ERR_hash, "the state comes out as %.16s, the ledger says %.16s",
			ours, theirs);
	}
	if (err) {
		shardstate_release(&next);
		return err;
	}
	shardstate_release(state);
	*state = next;
	return ERR_OK;
}

static enum err apply_record(const struct replay *r, const struct store_entry *row,
	struct shardstate *state, struct why *why)
{
	uint8_t *bytes = NULL;
	size_t len = 0;
	struct record rec = {0};
	struct hash hash = {{0}};
	enum err err = blob_get(r->blobs, &row->record, RECORD_MAX, &bytes, &len, why);
	if (!err)
		err = record_open(bytes, len, &rec, why);
	if (!err)
		err = ledger_entry_hash(&rec.entry, &hash);
	if (!err && (!hash_equal(&hash, &row->hash) || rec.entry.sequence != row->sequence))
		err = err_why(why, ERR_hash, "the record holds another entry than the ledger");
	if (!err)
		err = check_truth(r, &rec, state, why);
	if (!err)
		err = next_state(r, &rec, state, why);
	record_release(&rec);
	free(bytes);
	return err;
}

enum err replay_shard(
	const struct replay *r, struct shardstate *state, uint64_t to, struct why *why)
{
	while (state->round < to) {
		uint64_t round = state->round + 1,
			 sequence = replay_sequence(r->n_shards, round, state->shard);
		struct store_entry row;
		struct why said = {0};
		enum err err = store_entry_find(r->store, sequence, &row, &said);
		if (err == ERR_missing)
			err_why(&said, err, "it is missing in the database");
		if (!err)
			err = apply_record(r, &row, state, &said);
		if (err)
			return err_why(why, err, "ledger entry %llu (round %llu, shard %u): %s",
				(unsigned long long)sequence, (unsigned long long)round,
				state->shard, said.text);
	}
	return ERR_OK;
}

enum err replay_begin(const struct replay *r, const struct store_snapshot *from,
	struct shardstate *state, struct why *why)
{
	char *path = blob_path(r->blobs, &from->blob);
	struct statefile *file = NULL;
	enum err err = statefile_open(path, "snapshot", &r->run, &file, why);
	if (!err)
		err = shardstate_load(state, from->round, file, why);
	statefile_close(file);
	free(path);
	return err;
}
