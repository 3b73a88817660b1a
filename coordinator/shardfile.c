#include "coordinator/shardfile.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/scratch.h"
#include "model/statefile.h"

static char *path_of(const struct shardfile *f, uint32_t shard, uint64_t round)
{
	return alloc_must_printf(
		"%s/shard-%u-round-%llu.state", f->dir, shard, (unsigned long long)round);
}

enum err shardfile_load(const struct shardfile *f, uint32_t shard, uint64_t round,
	struct shardstate *out, struct why *why)
{
	char *path = path_of(f, shard, round);
	struct statefile *file = NULL;
	*out = (struct shardstate){0};
	enum err err = statefile_open(path, "shard", &f->run, &file, why);
	if (!err)
		err = shardstate_init(out, shard, f->n[shard], f->rule);
	if (err == ERR_nomem)
		err_why(why, err, "no memory for shard %u of %llu parameters", shard,
			(unsigned long long)f->n[shard]);
	if (!err)
		err = shardstate_load(out, round, file, why);
	if (err)
		shardstate_release(out);
	statefile_close(file);
	free(path);
	return err;
}

enum err shardfile_save(const struct shardfile *f, const struct shardstate *s, struct why *why)
{
	char *path = path_of(f, s->shard, s->round);
	json_t *meta = json_pack(
		"{s:I, s:I}", "round", (json_int_t)s->round, "shard", (json_int_t)s->shard);
	const struct statefile_head head = {.kind = "shard", .run = f->run, .meta = meta};
	struct statefile_out *out = NULL;
	enum err err = statefile_create(path, &head, &out, why);
	if (!err) {
		err = shardstate_save(s, out, why);
		if (err)
			statefile_discard(out);
		else
			err = statefile_commit(out, why);
	}
	json_decref(meta);
	free(path);
	return err;
}

enum err shardfile_carry(const struct shardfile *f, uint32_t shard, uint64_t round, struct why *why)
{
	char *from = path_of(f, shard, round - 1), *to = path_of(f, shard, round);
	enum err err = ERR_OK;
	unlink(to); /* of an attempt that was not committed, and had something in it */
	int failed = link(from, to) ? errno : file_sync_folder(f->dir);
	if (failed)
		err = file_why(why, "write", to, failed);
	free(from);
	free(to);
	return err;
}

void shardfile_sweep(const struct shardfile *f, uint64_t round)
{
	file_sweep(f->dir, "");
	DIR *d = opendir(f->dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		uint32_t shard;
		unsigned long long r;
		int end = 0;
		if (sscanf(e->d_name, "shard-%u-round-%llu.state%n", &shard, &r, &end) != 2 ||
			!end || e->d_name[end] || r == round)
			continue;
		char *path = alloc_must_printf("%s/%s", f->dir, e->d_name);
		unlink(path);
		free(path);
	}
	if (d)
		closedir(d);
}

/* ---- the start */

static enum err start_shard(
	const struct shardfile *f, struct shardstate *s, struct hash *state, struct why *why)
{
	*state = shardstate_hash(s);
	return shardfile_save(f, s, why);
}

static enum err from_seed(const struct shardfile *f, const struct graph *g, uint64_t seed,
	struct hash *states, struct why *why)
{
	enum err err = ERR_OK;
	for (uint32_t i = 0; !err && i < f->n_shards; i++) {
		struct shardstate s = {0};
		err = shardstate_init(&s, i, f->n[i], f->rule);
		if (err) {
			err_why(why, err, "no memory for shard %u of %llu parameters", i,
				(unsigned long long)f->n[i]);
			break;
		}
		graph_init_shard(g, i, seed, s.params);
		err = start_shard(f, &s, &states[i], why);
		shardstate_release(&s);
	}
	return err;
}

static enum err save_all(
	const struct shardfile *f, float *const *shards, struct hash *states, struct why *why)
{
	enum err err = ERR_OK;
	for (uint32_t i = 0; !err && i < f->n_shards; i++) {
		struct shardstate s = {0};
		err = shardstate_init(&s, i, f->n[i], f->rule);
		if (!err) {
			memcpy(s.params, shards[i], f->n[i] * sizeof(float));
			err = start_shard(f, &s, &states[i], why);
		}
		shardstate_release(&s);
	}
	return err;
}

/* All shards at once on disk, so that a model larger than the memory can be read in the order of
 * its tensors. */
static enum err from_folder(const struct shardfile *f, const struct graph *g,
	const struct hfmodel *init, struct hash *states, struct why *why)
{
	size_t n = 0;
	void *all = NULL;
	for (uint32_t i = 0; i < f->n_shards; i++)
		n += f->n[i];
	enum err err = scratch_take(f->dir, n * sizeof(float), &all, why);
	if (err)
		return err;
	float **shards = alloc_must_zero(f->n_shards, sizeof *shards), *at = all;
	for (uint32_t i = 0; i < f->n_shards; at += f->n[i++])
		shards[i] = at;
	err = hfmodel_read(init, g, shards, why);
	if (!err)
		err = save_all(f, shards, states, why);
	free(shards);
	scratch_release(all, n * sizeof(float));
	return err;
}

enum err shardfile_start(const struct shardfile *f, const struct graph *g, const struct spec *spec,
	const struct hfmodel *init, struct hash *states, struct why *why)
{
	return init ? from_folder(f, g, init, states, why)
		    : from_seed(f, g, spec->seed, states, why);
}
