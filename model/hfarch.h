/*
 * The architectures that are exchanged with Hugging Face's transformers: a row here and a file
 * model/hfarch_TYPE.c each.  A row says how config.json and a spec's model tell the same thing, and
 * what the files call a parameter of the builder's graph.
 */
#ifndef MODEL_HFARCH_H
#define MODEL_HFARCH_H
#include <stdbool.h>
#include "base/json.h"
#include "model/graph.h"

/* X(model_type) */
#define HFARCH_LIST(X) \
	X(gpt2) \
	X(llama)

/* The longest name in a file. */
#define HFARCH_NAME (GRAPH_NAME + 16)

struct hfarch {
	const char *model_type; /* in config.json */
	const char *class_name; /* "architectures" */
	const char *builder;
	/* Before every name but the head's in a model that was saved with its head. */
	const char *prefix;
	/* Reads what is honoured; notes as a mistake what would change the computation and is not
	 * possible here.  Members that do not concern it (dropout, ids, caches) are passed over.
	 * out is all zero but for builder and shards. */
	void (*read)(struct json_in *in, struct model_config *out);
	/* The members for m, without those that all architectures have; NULL: no memory. */
	json_t *(*write)(const struct model_config *m);
	bool (*is_turned)(const char *bare); /* a matrix that the files have as [in, out] */
	/* Not a parameter: a mask or table that old versions saved. */
	bool (*is_surplus)(const char *bare);
};

/* NULL: there is none. */
const struct hfarch *hfarch_of_type(const char *model_type);
const struct hfarch *hfarch_of_builder(const char *builder);
/* The model types, for sentences: "gpt2, llama". */
const char *hfarch_types(void);

#define HFARCH_HEAD "lm_head.weight"
/* The name without the prefix, whether it has one or not. */
const char *hfarch_bare(const struct hfarch *a, const char *name);
/* The name of a graph's parameter as it is written. */
void hfarch_full(const struct hfarch *a, const char *name, char out[static HFARCH_NAME]);

/* ---- for the rows: readers of single members.  A null is as good as none. */
bool hfarch_given(const struct json_in *in, const char *name);
/* A mistake when the member is there and is anything but absent, null or false. */
void hfarch_refuse(struct json_in *in, const char *name, const char *reason);
/* A mistake when it is there and is not this text. */
void hfarch_must_be(struct json_in *in, const char *name, const char *const *texts);
/* A number from 1 to most; fallback 0: required. */
uint32_t hfarch_number(struct json_in *in, const char *name, uint32_t most, uint32_t fallback);
double hfarch_real(struct json_in *in, const char *name, double fallback);
bool hfarch_flag(struct json_in *in, const char *name, bool fallback);

#define X(type) extern const struct hfarch hfarch_##type;
HFARCH_LIST(X)
#undef X

#endif
