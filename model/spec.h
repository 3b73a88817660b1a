/*
 * The run spec: one JSON document that says everything replicas must agree on.  Its canonical
 * text's SHA-256 is the run id.  Read whole and validated whole: every mistake is named at once, by
 * its path.  configs/demo.json is an example, configs/README.md tells every member, its range and
 * its default.  Defaults are part of the format: they never change within a version, since the text
 * that is hashed is the document as it was given.
 */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "model/graph.h"
#include "model/precision.h"

#define SPEC_MAX_BYTES (1u << 20)
#define SPEC_VERSION 1
#define SPEC_NAME 64
#define SPEC_MISTAKES_MAX (1u << 16) /* room for mistakes that is always enough to be useful */

enum spec_mode { SPEC_fixed /* steps per peer and round */, SPEC_timed /* seconds per round */ };

struct spec_train {
	uint32_t batch;       /* sequences of one inner step of one peer */
	uint32_t micro_batch; /* sequences computed at once; divides batch */
	uint32_t seq;         /* tokens of a sequence, at most model.context; of images 1 */
	double lr, beta1, beta2, eps, weight_decay;
	double clip;                          /* of each shard's gradient norm; 0: none */
	uint64_t warmup_tokens, total_tokens; /* of the whole run, all peers together */
	double final_lr;                      /* as a fraction of lr, reached at total_tokens */
	enum precision precision;
	bool recompute; /* values inside blocks are made again in backward, to save memory */
};

struct spec_round {
	enum spec_mode mode;
	uint32_t steps;     /* fixed: inner steps of each peer; timed: 0 */
	double seconds;     /* timed: length of a round; fixed: 0 */
	uint32_t peers_min; /* the run waits below this number */
	double quorum; /* share of the round's members that must be in before the grace window may
			  close it; 1: all */
	bool overlap;  /* timed: training goes on while what was cut travels */
	uint32_t fragments; /* overlap: shards take turns, every so many rounds; 1: all in each */
	uint32_t validate_every; /* rounds between validation losses; 0: never */
	uint32_t snapshot_every; /* rounds between snapshots */
};

/* What the vector of a merged update has. */
enum spec_merged { SPEC_never /* no update is merged */, SPEC_int8, SPEC_int4 };

#define SPEC_FRAGMENTS_MAX 16u
#define SPEC_PEERS_MAX 16384 /* contributions that one update can have */

struct spec_outer {
	char rule[24];   /* round/rule.h's list: sparseloco mean_R diloco average */
	double lr;       /* alpha of sparseloco and mean_R, eta of diloco; unused by average */
	double momentum; /* diloco */
	enum spec_merged merged;
};

struct spec_codec {
	char select[16], values[16]; /* compress/select.h's and compress/values.h's lists */
	bool dct;
	uint32_t chunk, k; /* k of every chunk values; 0: not said */
	double threshold;  /* 0: not said */
	double decay;      /* beta of the error feedback */
};

struct spec {
	struct hash id; /* of text */
	char *text;     /* canonical JSON */
	char name[SPEC_NAME];
	uint64_t seed;
	struct model_config model; /* its user is the one below */
	char *user;                /* builder "graph": canonical JSON of model.graph */
	/* data: hash of the manifest's canonical text.  Zero in a template that names no data yet:
	 * whoever trains refuses that. */
	struct hash manifest;
	struct hash init; /* initial weights, by their hash (weightset.h); zero: from the seed */
	struct spec_train train;
	struct spec_round round;
	struct spec_outer outer;
	struct spec_codec codec;
};

/* Parse and validate.  Names of rule and codec are checked for their form only: which of them exist
 * and which numbers they take is known above this layer (round/exchange.h).  On failure why carries
 * the first mistake and how many more there are, and mistakes (may be NULL; inited by the caller)
 * all of them, a line each.  The caller frees *out with spec_free. */
enum err spec_parse(const void *text, size_t n, struct spec **out, struct buf *mistakes,
	struct why *why) MUST_CHECK;
/* The same from a file, whose path why then names, as every mistake does the line of the file where
 * it was made; overrides, if any, are "path=value" texts
 * ("round.steps=10"): value is JSON, or else taken as text.  They may add members that are absent;
 * null takes one away.
 */
enum err spec_load(const char *path, const char *const *overrides, size_t n_overrides,
	struct spec **out, struct buf *mistakes, struct why *why) MUST_CHECK;
void spec_free(struct spec *s); /* NULL-safe */
/* What differs between two specs, a line each: "train.lr: 0.002 here, 0.001 there". */
void spec_diff(const struct spec *here, const struct spec *there, struct buf *out);
/* Tokens that one inner step of one peer trains on. */
uint64_t spec_step_tokens(const struct spec *s);

/* The inner learning rate when all peers together have trained on so many tokens: linear warm-up
 * from 0, then half a cosine down to final_lr at total_tokens, constant after.  A step that passes
 * the tokens up to its own end never sees the 0.  Additions, multiplications and divisions of
 * doubles only, no libm: every machine gets the same bits.  Pure. */
double spec_lr(const struct spec_train *t, uint64_t tokens);

#endif
