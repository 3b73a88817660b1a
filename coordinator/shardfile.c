#include "coordinator/shardfile.h"
#include <dirent.h>
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "model/gptname.h"
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

void shardfile_sweep(const struct shardfile *f, uint64_t round)
{
	file_sweep(f->dir);
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

/* All shards at once in a file without a name, so that a model larger than the memory can be read
 * in the order of its tensors. */
static enum err room_for_all(const struct shardfile *f, float **out, size_t *bytes, struct why *why)
{
	*bytes = 0;
	for (uint32_t i = 0; i < f->n_shards; i++)
		*bytes += f->n[i] * sizeof(float);
	int fd = open(f->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return file_why(why, "make a file in", f->dir, errno);
	int rc = posix_fallocate(fd, 0, (off_t)*bytes);
	void *at = rc ? MAP_FAILED : mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int said = rc ? rc : errno;
	close(fd);
	if (at == MAP_FAILED)
		return file_why(why, "make room for the model in", f->dir, said);
	*out = at;
	return ERR_OK;
}

static enum err from_weights(const struct shardfile *f, const struct graph *g, const char *weights,
	struct hash *states, struct why *why)
{
	float *all = NULL;
	size_t bytes, at = 0;
	enum err err = room_for_all(f, &all, &bytes, why);
	if (err)
		return err;
	float **shards = alloc_must_zero(f->n_shards, sizeof *shards);
	for (uint32_t i = 0; i < f->n_shards; at += f->n[i++])
		shards[i] = all + at;
	err = gptname_import(weights, g, shards, why);
	for (uint32_t i = 0; !err && i < f->n_shards; i++) {
		struct shardstate s = {0};
		err = shardstate_init(&s, i, f->n[i], f->rule);
		if (!err) {
			memcpy(s.params, shards[i], f->n[i] * sizeof(float));
			err = start_shard(f, &s, &states[i], why);
		}
		shardstate_release(&s);
	}
	free(shards);
	munmap(all, bytes);
	return err;
}

enum err shardfile_start(const struct shardfile *f, const struct graph *g, const struct spec *spec,
	const char *weights, struct hash *states, struct why *why)
{
	return weights ? from_weights(f, g, weights, states, why)
		       : from_seed(f, g, spec->seed, states, why);
}
