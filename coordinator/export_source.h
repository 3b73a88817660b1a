/* What `export` takes: a saved state, or a Hugging Face folder (to change its type, its files, or
 * what a run began with). */
#ifndef COORDINATOR_EXPORT_SOURCE_H
#define COORDINATOR_EXPORT_SOURCE_H
#include "base/err.h"
#include "base/hash.h"
#include "model/checkpoint.h"
#include "model/hfmodel.h"

struct export_source {
	struct checkpoint state; /* of a state; else all zero */
	struct hfmodel *folder;  /* or NULL */
	const struct model_config *config;
	const struct graph *graph;
	const float *const *shards; /* one vector for each shard, on disk */
	char run[HASH_HEX];         /* that it is of; "": none */
	struct graph *own_graph;    /* of a folder, as the rest */
	float **own_shards;
	void *room;
	size_t room_bytes;
};

/* room: a folder in whose file system a Hugging Face folder's values may lie meanwhile.  Release in
 * any case. */
enum err export_source_open(
	const char *path, const char *room, struct export_source *out, struct why *why) MUST_CHECK;
void export_source_release(struct export_source *s);

#endif
