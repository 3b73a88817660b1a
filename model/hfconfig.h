/*
 * config.json of a Hugging Face folder and the model of a spec.  The file is hostile input.  What
 * changes the computation is honoured or refused by name (model/hfarch_TYPE.c); dropout, token ids
 * and settings of generation are passed over.
 */
#ifndef MODEL_HFCONFIG_H
#define MODEL_HFCONFIG_H
#include <stddef.h>
#include "base/err.h"
#include "model/graph.h"
#include "model/safetensors.h"

#define HFCONFIG_MAX (1u << 20) /* bytes of the file */

/* out is one shard; whether its sizes fit together is for graph_build to say.  name is what the
 * sentences call the file.  ERR_unsupported for another model_type, ERR_syntax for the rest. */
enum err hfconfig_parse(const char *name, const void *text, size_t n, struct model_config *out,
	struct why *why) MUST_CHECK;
/* The file for a model whose weights are of this type (F32, F16 or BF16).  Caller frees; NULL: no
 * memory.  m's builder must be one that hfarch.h lists. */
char *hfconfig_print(const struct model_config *m, enum safetensors_type type);
/* A sound file's text for weights of another type; what else is in it stays.  As it is when it
 * says that type already. */
char *hfconfig_retype(const void *text, size_t n, enum safetensors_type type);

#endif
