#include "coordinator/snapshot.h"
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/log.h"
#include "coordinator/piecelist.h"
#include "model/statefile.h"

static enum err add_shards(const struct snapshot *s, struct statefile_out *out, struct why *why)
{
	enum err err = ERR_OK;
	for (uint32_t i = 0; !err && i < s->files->n_shards; i++) {
		struct shardstate state;
		err = shardfile_load(s->files, i, s->head.round, &state, why);
		if (err)
			break;
		err = shardstate_save(&state, out, why);
		shardstate_release(&state);
	}
	return err;
}

static enum err write_file(const struct snapshot *s, const char *path, struct why *why)
{
	char hex[HASH_HEX];
	hash_hex(&s->head.hash, hex);
	json_t *meta = json_pack("{s:I, s:I, s:s}", "round", (json_int_t)s->head.round, "sequence",
		(json_int_t)s->head.sequence, "head", hex);
	const struct statefile_head head = {.kind = "snapshot", .run = s->files->run, .meta = meta};
	struct statefile_out *out = NULL;
	enum err err = statefile_create(path, &head, &out, why);
	json_decref(meta);
	if (err)
		return err;
	err = statefile_add(out, "spec", s->spec, strlen(s->spec), why);
	if (!err)
		err = add_shards(s, out, why);
	if (err) {
		statefile_discard(out);
		return err;
	}
	return statefile_commit(out, why);
}

enum err snapshot_make(
	const struct snapshot *s, struct hash *blob, uint64_t *bytes, struct why *why)
{
	/* ".tmp", so that the sweep finds it when we die before it is adopted */
	char *path = alloc_must_printf("%s/snapshot.tmp", s->files->dir);
	enum err err = write_file(s, path, why);
	if (!err)
		err = blob_adopt(s->blobs, path, blob, why);
	if (!err && (err = blob_size(s->blobs, blob, bytes)))
		err_why(why, err, "the snapshot of round %llu is gone from the blobs",
			(unsigned long long)s->head.round);
	unlink(path);
	free(path);
	if (!err)
		snapshot_link(s->blobs, s->link_dir, blob, s->head.round);
	if (!err)
		piecelist_write(s->blobs, s->link_dir, blob, s->head.round);
	return err;
}

/* ---- the second name */

char *snapshot_path(const char *dir, uint64_t round)
{
	const struct statefile_series series = {.dir = dir, .prefix = "snapshot"};
	return statefile_path(&series, round);
}

void snapshot_link(
	const struct blob_store *blobs, const char *dir, const struct hash *blob, uint64_t round)
{
	char *to = snapshot_path(dir, round), *from = blob_path(blobs, blob);
	if (link(from, to) && errno != EEXIST)
		log_at(store, 1, "%s has no second name for %s: %s", dir, from, strerror(errno));
	free(to);
	free(from);
}

void snapshot_unlink(const char *dir, uint64_t round)
{
	char *path = snapshot_path(dir, round);
	unlink(path);
	free(path);
	piecelist_remove(dir, round);
}

void snapshot_sweep(const char *dir, const uint64_t *rounds, size_t n)
{
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		unsigned long long round;
		int end = 0;
		bool kept = false;
		if (sscanf(e->d_name, "snapshot-%llu.state%n", &round, &end) != 1 || !end ||
			e->d_name[end])
			continue;
		for (size_t i = 0; i < n; i++)
			kept |= rounds[i] == round;
		if (!kept)
			snapshot_unlink(dir, round);
	}
	if (d)
		closedir(d);
}
