#include "coordinator/export_source.h"
#include <stdio.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/scratch.h"

static enum err open_state(const char *path, struct export_source *s, struct why *why)
{
	enum err err = checkpoint_open(path, &s->state, NULL, why);
	if (err)
		return err;
	hash_hex(&s->state.spec->id, s->run);
	s->config = &s->state.spec->model;
	s->graph = s->state.graph;
	s->shards = s->state.shards;
	return ERR_OK;
}

static enum err read_values(struct export_source *s, const char *room, struct why *why)
{
	const struct graph *g = s->graph;
	s->room_bytes = graph_params(g) * sizeof(float);
	enum err err = file_mkdirs(room, 0755, why);
	if (!err)
		err = scratch_take(room, s->room_bytes, &s->room, why);
	if (err)
		return err;
	s->own_shards = alloc_must_zero(g->n_shards, sizeof *s->own_shards);
	float *at = s->room;
	for (uint32_t i = 0; i < g->n_shards; at += g->shard_params[i++])
		s->own_shards[i] = at;
	s->shards = (const float *const *)s->own_shards;
	return hfmodel_read(s->folder, g, s->own_shards, why);
}

static enum err open_folder(
	const char *path, const char *room, struct export_source *s, struct why *why)
{
	enum err err = hfmodel_open(path, &s->folder, why);
	if (!err) {
		s->config = hfmodel_config(s->folder);
		err = graph_build(s->config, 1, 1, &s->own_graph, why);
	}
	if (err)
		return err;
	s->graph = s->own_graph;
	const char *run = hfmodel_run(s->folder);
	if (run)
		snprintf(s->run, sizeof s->run, "%s", run);
	return read_values(s, room, why);
}

enum err export_source_open(
	const char *path, const char *room, struct export_source *out, struct why *why)
{
	*out = (struct export_source){0};
	return hfmodel_is(path) ? open_folder(path, room, out, why) : open_state(path, out, why);
}

void export_source_release(struct export_source *s)
{
	checkpoint_close(&s->state);
	hfmodel_close(s->folder);
	graph_free(s->own_graph);
	free(s->own_shards);
	scratch_release(s->room, s->room_bytes);
	*s = (struct export_source){0};
}
