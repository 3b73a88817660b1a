/* A run in miniature for the tests of round/: keys, contributions, bundles, a scratch folder.  One
 * thread only. */
#ifndef TESTS_HELP_ROUND_H
#define TESTS_HELP_ROUND_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "net/sign.h"
#include "round/contribution.h"
#include "round/rule.h"
#include "round/update.h"

#define HELP_ROUND_PEERS 32u

/* For cmocka: a scratch folder, removed with all that it holds. */
int help_round_setup(void **state);
int help_round_teardown(void **state);
const char *help_round_path(const char *name); /* valid until the teardown */

/* The refusal has this code, and its sentence this part. */
void help_round_told(const struct why *why, enum err code, const char *part);

/* The key of peer 1 to HELP_ROUND_PEERS, always the same; owned here. */
const struct sign_key *help_round_key(uint32_t peer);
/* For struct update_expect. */
bool help_round_lookup(void *arg, uint32_t peer, uint8_t out[static SIGN_PUBLIC]);

struct hash help_round_hash(uint32_t number); /* some hash, another for another number */
/* Random values from -1 to 1; caller frees. */
float *help_round_vector(uint64_t seed, size_t n);
/* v as it comes out of a codec; codec_release it. */
struct codec_vector help_round_encode(const struct codec_params *codec, const float *v, size_t n);

/* What peer says about data [100 peer, 100 peer + 10) and 10 tokens a sequence, as a valid
 * contribution to round, shard of run help_round_hash(1) on parent help_round_hash(2). */
struct contribution help_round_says(uint32_t peer, uint64_t round, uint32_t shard);
/* Seals v under it, appending to out. */
void help_round_seal(struct contribution *c, const struct codec_params *codec, const float *v,
	size_t n, struct buf *out);

/* A bundle of peers 1 to count with random vectors, opened and verified.  bytes own it. */
struct help_round_bundle {
	struct buf bytes;
	struct update update;
};
struct help_round_want {
	struct hash parent;
	uint64_t round;
	uint32_t shard, count;
	struct codec_params codec;
	size_t n;
	uint64_t seed;
	float alike; /* so many times a vector that all share is added to each one's own */
};
void help_round_make(const struct help_round_want *want, struct help_round_bundle *out);
void help_round_drop(struct help_round_bundle *b);

#endif
