#include "model/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"

static const char *const kinds[] = {"local", "snapshot"};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static enum err open_file(struct checkpoint *c, struct why *why)
{
	enum err err = ERR_magic;
	/* Another kind of state is ERR_magic too: the last try's sentence tells. */
	for (size_t i = 0; i < N_KINDS && err == ERR_magic; i++)
		err = statefile_open(c->path, kinds[i], NULL, &c->file, why);
	return err;
}

static enum err open_folder(
	struct checkpoint *c, const char *dir, struct buf *passed, struct why *why)
{
	enum err err = ERR_missing;
	struct buf own;
	buf_init(&own, 1 << 16);
	for (size_t i = 0; i < N_KINDS && err == ERR_missing; i++) {
		const struct statefile_series series = {
			.dir = dir, .prefix = kinds[i], .kind = kinds[i]};
		uint64_t number = 0;
		err = statefile_open_newest(
			&series, &c->file, &number, passed ? passed : &own, why);
		if (!err)
			c->path = statefile_path(&series, number);
	}
	buf_release(&own);
	return err;
}

/* The run that the file says it belongs to must be the spec that it holds. */
static enum err read_spec(struct checkpoint *c, struct why *why)
{
	const struct statefile_section *spec = NULL;
	for (size_t i = 0; i < statefile_count(c->file); i++)
		if (!strcmp(statefile_at(c->file, i)->name, "spec"))
			spec = statefile_at(c->file, i);
	if (!spec)
		return err_why(why, ERR_missing,
			"%s has no spec inside: it was not written by shoal-peer or a run",
			c->path);
	struct why inner = {0};
	enum err err = spec_parse(spec->bytes, spec->len, &c->spec, NULL, &inner);
	if (err)
		return err_why(why, err, "%s: the spec inside: %s", c->path, inner.text);
	struct hash run = statefile_run(c->file);
	if (!hash_equal(&run, &c->spec->id))
		return err_why(why, ERR_wrong_run,
			"%s says that it is of one run and holds the spec of another; it was put "
			"together wrongly",
			c->path);
	return ERR_OK;
}

static enum err find_shards(struct checkpoint *c, struct why *why)
{
	struct why inner = {0};
	enum err err = graph_build(&c->spec->model, 1, 1, &c->graph, &inner);
	if (err)
		return err_why(why, err, "%s: its model: %s", c->path, inner.text);
	c->shards = alloc_must_zero(c->graph->n_shards, sizeof *c->shards);
	for (uint32_t i = 0; i < c->graph->n_shards && !err; i++) {
		char name[STATEFILE_NAME_MAX];
		snprintf(name, sizeof name, "param.%u", i);
		const uint8_t *bytes = NULL;
		err = statefile_find(
			c->file, name, c->graph->shard_params[i] * sizeof(float), &bytes, &inner);
		c->shards[i] = (const float *)(const void *)bytes; /* aligned, statefile.h says */
	}
	return err ? err_why(why, err, "%s: %s", c->path, inner.text) : ERR_OK;
}

enum err checkpoint_open(
	const char *path, struct checkpoint *out, struct buf *passed, struct why *why)
{
	*out = (struct checkpoint){0};
	struct stat st;
	enum err err;
	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		err = open_folder(out, path, passed, why);
	} else {
		out->path = alloc_must_strdup(path);
		err = open_file(out, why);
	}
	if (!err)
		err = read_spec(out, why);
	if (!err)
		err = find_shards(out, why);
	return err;
}

void checkpoint_close(struct checkpoint *c)
{
	if (!c)
		return;
	free(c->shards);
	graph_free(c->graph);
	spec_free(c->spec);
	statefile_close(c->file);
	free(c->path);
	*c = (struct checkpoint){0};
}
