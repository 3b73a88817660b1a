#include "coordinator/run_mend.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/log.h"
#include "coordinator/snapshot.h"

struct snapshots {
	struct store_snapshot *at;
	size_t n;
};

static void add_snapshot(void *arg, const struct store_snapshot *p)
{
	struct snapshots *s = arg;
	s->at = alloc_must_resize(s->at, s->n + 1, sizeof *s->at);
	s->at[s->n++] = *p;
}

/* ---- shards */

static enum err check_shard(const struct run *r, uint32_t shard, struct why *why)
{
	struct shardstate s;
	enum err err = shardfile_load(&r->files, shard, run_head(r).round, &s, why);
	if (err)
		return err;
	struct hash have = shardstate_hash(&s), want = ledger_state(r->ledger, shard);
	if (!hash_equal(&have, &want))
		err = err_why(why, ERR_hash,
			"the file of shard %u does not have the hash that the ledger lists", shard);
	shardstate_release(&s);
	return err;
}

static enum err make_shard(
	const struct run *r, uint32_t shard, const struct store_snapshot *from, struct why *why)
{
	const struct replay replay = run_replay(r);
	struct shardstate s = {0};
	enum err err = shardstate_init(&s, shard, r->files.n[shard], r->exchange.rule.row);
	if (err)
		return err_why(why, err, "no memory for shard %u", shard);
	err = replay_begin(&replay, from, &s, why);
	if (!err)
		err = replay_shard(&replay, &s, run_head(r).round, why);
	struct hash have = err ? (struct hash){{0}} : shardstate_hash(&s),
		    want = ledger_state(r->ledger, shard);
	if (!err && !hash_equal(&have, &want))
		err = err_why(why, ERR_hash, "shard %u comes out differently", shard);
	if (!err)
		err = shardfile_save(&r->files, &s, why);
	shardstate_release(&s);
	return err;
}

static enum err mend_shard(
	const struct run *r, uint32_t shard, const struct snapshots *from, struct why *why)
{
	struct why said = {0};
	if (!check_shard(r, shard, &said))
		return ERR_OK;
	log_warn(store, "%s; making it again from a snapshot and the ledger", said.text);
	for (size_t i = 0; i < from->n; i++) {
		if (!make_shard(r, shard, &from->at[i], &said))
			return ERR_OK;
		log_warn(store, "the snapshot of round %llu does not help: %s",
			(unsigned long long)from->at[i].round, said.text);
	}
	return err_why(why, ERR_hash, "shard %u cannot be made again: %s; put back a backup of %s",
		shard, said.text, r->dir);
}

/* ---- blobs */

struct names {
	struct hash *at;
	size_t n, cap;
};

static void keep(struct names *k, const struct hash *h)
{
	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : 64;
		k->at = alloc_must_resize(k->at, k->cap, sizeof *k->at);
	}
	k->at[k->n++] = *h;
}

static void keep_record(void *arg, const struct store_entry *e)
{
	keep(arg, &e->record);
}

static void keep_contribution(void *arg, const struct store_contribution *c)
{
	keep(arg, &c->blob);
}

static void keep_input(void *arg, const struct hash *blob)
{
	keep(arg, blob);
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct hash));
}

static enum err remove_strays(struct run *r, struct names *kept, struct why *why)
{
	struct hash *names = NULL;
	size_t n = 0;
	qsort(kept->at, kept->n, sizeof *kept->at, by_bytes);
	enum err err = blob_list(r->blobs, &names, &n, why);
	for (size_t i = 0; !err && i < n; i++) {
		if (kept->n && bsearch(&names[i], kept->at, kept->n, sizeof *kept->at, by_bytes))
			continue;
		char hex[HASH_HEX];
		hash_hex(&names[i], hex);
		log_at(store, 2, "blob %.16s belongs to nothing, removed", hex);
		err = blob_remove(r->blobs, &names[i], why);
	}
	free(names);
	return err;
}

static enum err mend_blobs(struct run *r, const struct snapshots *snapshots, struct why *why)
{
	struct names kept = {0};
	struct store_range records = {.limit = UINT32_MAX};
	for (size_t i = 0; i < snapshots->n; i++)
		keep(&kept, &snapshots->at[i].blob);
	enum err err = run_kept_from(r, &records.after, why);
	if (!err)
		err = store_entry_list(r->store, &records, keep_record, &kept, why);
	if (!err)
		err = store_contribution_list(r->store, keep_contribution, &kept, why);
	if (!err)
		err = store_input_list(r->store, INT64_MAX, keep_input, &kept, why);
	if (!err)
		err = remove_strays(r, &kept, why);
	free(kept.at);
	return err;
}

static void mend_links(const struct run *r, const struct snapshots *s)
{
	uint64_t *rounds = alloc_must_zero(s->n + 1, sizeof *rounds);
	for (size_t i = 0; i < s->n; i++) {
		rounds[i] = s->at[i].round;
		snapshot_link(r->blobs, r->dir, &s->at[i].blob, rounds[i]);
	}
	snapshot_sweep(r->dir, rounds, s->n);
	free(rounds);
}

enum err run_mend(struct run *r, struct why *why)
{
	struct snapshots s = {0};
	enum err err = store_snapshot_list(r->store, add_snapshot, &s, why);
	for (uint32_t i = 0; !err && i < r->files.n_shards; i++)
		err = mend_shard(r, i, &s, why);
	if (!err) {
		shardfile_sweep(&r->files, run_head(r).round);
		err = mend_blobs(r, &s, why);
	}
	if (!err)
		mend_links(r, &s);
	free(s.at);
	return err;
}
