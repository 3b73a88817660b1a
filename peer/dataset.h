/* A prepared data folder (DIR/manifest.json and DIR/blobs/) opened for a spec: the manifest must be
 * the one the spec names, the vocabulary the model's, and there must be something to train on. */
#ifndef PEER_DATASET_H
#define PEER_DATASET_H
#include <stdbool.h>
#include "base/err.h"
#include "model/corpus.h"
#include "model/spec.h"

struct dataset {
	struct manifest *manifest;
	struct corpus *corpus;
};

/* With verify the hashes of all shards are (reads everything once).  A spec that names no data (a
 * template) takes the folder's. */
enum err dataset_open(const char *dir, const struct spec *spec, bool verify, struct dataset *out,
	struct why *why) MUST_CHECK;
void dataset_release(struct dataset *d); /* NULL-safe, idempotent */

#endif
