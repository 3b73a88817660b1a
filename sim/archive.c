#include "sim/archive.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "coordinator/snapshot.h"

/* ---- snapshots */

/* Members that are behind the older of two begin from the newer one. */
static void forget_records(struct archive *s, uint64_t upto)
{
	const size_t n = (size_t)(upto - s->base);
	for (size_t i = 0; i < n; i++)
		shared_drop(s->records[i]);
	if (!n)
		return;
	memmove(s->records, s->records + n, (s->n_records - n) * sizeof *s->records);
	s->n_records -= n;
	s->base = upto;
}

static enum err take_snapshot(struct archive *s, struct why *why)
{
	struct archive_snapshot next = {.head = ledger_at(s->ledger)};
	const struct snapshot how = {.files = &s->files,
		.blobs = s->blobs,
		.spec = s->spec->text,
		.head = next.head,
		.link_dir = s->dir};
	enum err err = snapshot_make(&how, &next.blob, &next.bytes, why);
	if (!err && s->n_snapshots == 2) {
		snapshot_unlink(s->dir, s->snapshots[1].head.round);
		err = blob_remove(s->blobs, &s->snapshots[1].blob, why);
	}
	if (err)
		return err;
	s->snapshots[1] = s->snapshots[0];
	s->snapshots[0] = next;
	s->n_snapshots += s->n_snapshots < 2;
	forget_records(s, s->snapshots[s->n_snapshots - 1].head.sequence);
	return ERR_OK;
}

char *archive_snapshot_path(const struct archive *s, struct archive_snapshot *out)
{
	*out = s->snapshots[0];
	return blob_path(s->blobs, &out->blob);
}

/* ---- the start */

static enum err begin(struct archive *s, const struct graph *g, struct why *why)
{
	struct hash *states = alloc_must_zero(g->n_shards, sizeof *states);
	enum err err = shardfile_start(&s->files, g, s->spec, NULL, states, why);
	if (!err) {
		s->ledger = ledger_new(&s->spec->id, states, g->n_shards);
		err = take_snapshot(s, why);
	}
	free(states);
	return err;
}

enum err archive_open(struct archive *s, const struct spec *spec, const struct graph *g,
	const char *dir, struct why *why)
{
	*s = (struct archive){.spec = spec, .dir = alloc_must_strdup(dir)};
	s->state_dir = alloc_must_printf("%s/state", dir);
	char *blobs = alloc_must_printf("%s/blobs", dir);
	enum err err = exchange_find(spec, &s->exchange, why);
	if (!err)
		err = file_mkdirs(s->state_dir, 0700, why);
	if (!err)
		err = blob_open(blobs, 0, &s->blobs, why);
	free(blobs);
	s->files = (struct shardfile){.dir = s->state_dir,
		.run = spec->id,
		.rule = s->exchange.rule.row,
		.n_shards = g->n_shards,
		.n = g->shard_params};
	return err ? err : begin(s, g, why);
}

void archive_release(struct archive *s)
{
	for (size_t i = 0; i < s->n_records; i++)
		shared_drop(s->records[i]);
	free(s->records);
	ledger_free(s->ledger);
	blob_close(s->blobs);
	free(s->state_dir);
	free(s->dir);
	*s = (struct archive){0};
}

/* ---- a round */

/* The record stays in memory; what lies on disk for it and of the contributions is not needed any
 * more. */
static enum err keep(struct archive *s, const struct archive_round *round, uint32_t shard,
	struct closing_out *out, struct why *why)
{
	enum err err = ledger_append(s->ledger, &out->entry, why);
	if (!err)
		err = blob_remove(s->blobs, shared_name(out->record), why);
	for (uint32_t i = 0; !err && i < round->counts[shard]; i++)
		err = blob_remove(s->blobs, &round->inputs[shard][i].blob, why);
	if (err)
		return err;
	s->records = alloc_must_resize(s->records, s->n_records + 1, sizeof *s->records);
	s->records[s->n_records++] = shared_hold(out->record);
	return ERR_OK;
}

enum err archive_close(struct archive *s, const struct archive_round *round,
	struct archive_sum *sum, struct why *why)
{
	struct closing closing = {.files = &s->files,
		.blobs = s->blobs,
		.exchange = s->exchange,
		.run = s->spec->id,
		.parent = ledger_at(s->ledger),
		.round = round->round};
	struct ledger_head at = closing.parent;
	enum err err = ERR_OK;
	*sum = (struct archive_sum){0};
	for (uint32_t i = 0; !err && i < s->files.n_shards; i++) {
		const struct closing_job job = {
			i, round->counts[i], ledger_state(s->ledger, i), round->inputs[i], NULL};
		struct closing_out out = {0};
		closing.contribution_most = contribution_bound(&s->exchange.codec, s->files.n[i]);
		err = closing_shard(&closing, &job, &at, &out, why);
		if (err)
			return err;
		sum->bytes += shared_len(out.record);
		sum->merged += out.entry.kind == UPDATE_merged;
		err = keep(s, round, i, &out, why);
		closing_release(&out);
	}
	if (!err)
		shardfile_sweep(&s->files, round->round);
	if (!err && round->round % s->spec->round.snapshot_every == 0)
		err = take_snapshot(s, why);
	return err;
}

bool archive_follows(const struct archive *s, uint64_t sequence)
{
	return sequence >= s->base && sequence <= s->base + s->n_records;
}

struct shared *archive_record(const struct archive *s, uint64_t sequence)
{
	return s->records[sequence - s->base - 1];
}

struct hash archive_state(const struct archive *s)
{
	const uint32_t n = s->files.n_shards;
	struct hash *states = alloc_must_zero(n, sizeof *states);
	for (uint32_t i = 0; i < n; i++)
		states[i] = ledger_state(s->ledger, i);
	const struct hash all = shardstate_hash_all(states, n);
	free(states);
	return all;
}

enum err archive_validate(const struct archive *s, const struct corpus *corpus,
	struct trainer_validation *out, struct why *why)
{
	const struct trainer_config how = {
		.spec = s->spec, .corpus = corpus, .backend = "cpu", .threads = 1};
	const uint64_t round = ledger_at(s->ledger).round;
	struct trainer *t = NULL;
	enum err err = trainer_new(&how, &t, why);
	for (uint32_t i = 0; !err && i < s->files.n_shards; i++) {
		struct shardstate state;
		err = shardfile_load(&s->files, i, round, &state, why);
		if (err)
			break;
		trainer_write(t, i, PARAMS_value, state.params);
		shardstate_release(&state);
	}
	if (!err)
		err = trainer_validate(t, 0, out, why);
	trainer_free(t);
	return err;
}
