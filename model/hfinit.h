/* The initial weights of a run: a Hugging Face folder whose hash (weightset_hash) is the spec's
 * `init`. */
#ifndef MODEL_HFINIT_H
#define MODEL_HFINIT_H
#include "base/err.h"
#include "base/hash.h"
#include "model/hfmodel.h"
#include "model/spec.h"

#define HFINIT_SET (HASH_HEX + 8)

/* "init=HASH" for the folder's weights, as spec_load takes it.  Reads them all. */
enum err hfinit_set(const char *dir, char out[static HFINIT_SET], struct why *why) MUST_CHECK;
/* dir must hold the very weights that the spec names (ERR_hash), of the very model (ERR_spec).
 * ERR_missing when dir is NULL.  Only for a spec that names some. */
enum err hfinit_open(
	const char *dir, const struct spec *spec, struct hfmodel **out, struct why *why) MUST_CHECK;

#endif
