/*
 * A model in a Hugging Face folder (config.json and weights) as the parameters of a graph.  Opening
 * checks everything but the values: every tensor that the model needs is there with its shape and a
 * type that is read (F32, F16, BF16), and there is no other.  Names may have the prefix of a model
 * saved with its head or not; masks that old files carry are passed over, as is a head that is
 * tied.  The weights stay in mapped files and are read in pieces, so that memory never holds the
 * model twice.  A refusal names the tensor, member or file.
 */
#ifndef MODEL_HFMODEL_H
#define MODEL_HFMODEL_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "model/graph.h"
#include "model/safetensors.h"

struct hfmodel;

/* Is path a folder with a config.json? */
bool hfmodel_is(const char *path);
/* ERR_missing (file, tensor), ERR_shape, ERR_spec (a tensor that the model has not),
 * ERR_unsupported (architecture, type), and those of the readers. */
enum err hfmodel_open(const char *dir, struct hfmodel **out, struct why *why) MUST_CHECK;
void hfmodel_close(struct hfmodel *m); /* NULL-safe */

/* One shard; as long as m lives. */
const struct model_config *hfmodel_config(const struct hfmodel *m);
/* The name of its weights (weightset_hash); reads them all. */
struct hash hfmodel_hash(const struct hfmodel *m);
const char *hfmodel_config_text(const struct hfmodel *m, size_t *n);
/* Of all parameters; F32 when they have not one. */
enum safetensors_type hfmodel_type(const struct hfmodel *m);
/* "shoal_run" in __metadata__, when we wrote the file from a run; or NULL. */
const char *hfmodel_run(const struct hfmodel *m);

/* Is it the model that a spec describes, shards aside?  ERR_spec names the first member that
 * differs. */
enum err hfmodel_suits(
	const struct hfmodel *m, const struct model_config *spec, struct why *why) MUST_CHECK;

/* All values of g, a graph of a config that suits, in any cut into shards; each put is n elements
 * of a shard's flat vector from offset on.  ERR_not_finite names tensor and element; what was put
 * before is then of no use. */
struct hfmodel_sink {
	void (*put)(void *arg, uint32_t shard, uint64_t offset, const float *values, size_t n);
	void *arg;
};
enum err hfmodel_load(const struct hfmodel *m, const struct graph *g,
	const struct hfmodel_sink *sink, struct why *why) MUST_CHECK;
/* The same into a vector for each shard. */
enum err hfmodel_read(const struct hfmodel *m, const struct graph *g, float *const *shards,
	struct why *why) MUST_CHECK;

#endif
