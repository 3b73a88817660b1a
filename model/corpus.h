/*
 * The prepared text as training sequences.
 *
 * Order.  Training sequence s counts over the whole run, from 0.  With N sequences in an epoch,
 * epoch e = s / N, and the window is permute(key(seed, e), s % N, N).  Window i of epoch e starts
 * at token i * T + shift, shift = shift(seed, e) in [0, T), and has T tokens and T targets (each
 * the next token), so T + 1 tokens.  N is such that every window exists under every shift.  All of
 * it is a pure function of (manifest, seed, T, s): anyone can recompute who trained on what.
 * Validation windows are fixed: window i starts at i * T.
 *
 * The shards are mapped, not read; a corpus may be used from any thread once it is open.
 */
#ifndef MODEL_CORPUS_H
#define MODEL_CORPUS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/manifest.h"
#include "model/tokenizer.h"

struct corpus;

enum corpus_split { CORPUS_train, CORPUS_validation };

/* Maps the shards and loads the tokenizer from blobs, the folder whose files are named by their
 * hashes.  Lengths are always checked against the manifest; with verify the hashes too (reads
 * everything once).  The manifest is borrowed and must live as long as the corpus. */
enum err corpus_open(const char *blobs, const struct manifest *m, bool verify, struct corpus **out,
	struct why *why) MUST_CHECK;
void corpus_free(struct corpus *c); /* NULL-safe */

const struct manifest *corpus_manifest(const struct corpus *c);
const struct tokenizer *corpus_tokenizer(const struct corpus *c);

/* How many sequences of seq > 0 tokens there are (N above); 0 when the split is too short. */
uint64_t corpus_sequences(const struct corpus *c, enum corpus_split split, uint32_t seq);

struct corpus_order {
	uint64_t seed;
	uint32_t seq; /* T */
};

/* First token of training sequence s; corpus_sequences must not be 0. */
uint64_t corpus_start(const struct corpus *c, const struct corpus_order *o, uint64_t s);
/* Training sequence s: seq ids into each of tokens and targets.  ERR_range when the split is too
 * short, or when a shard holds an id that is not in the vocabulary. */
enum err corpus_sequence(const struct corpus *c, const struct corpus_order *o, uint64_t s,
	int32_t *tokens, int32_t *targets) MUST_CHECK;
/* Validation window i of corpus_sequences(c, CORPUS_validation, seq). */
enum err corpus_validation(const struct corpus *c, uint32_t seq, uint64_t i, int32_t *tokens,
	int32_t *targets) MUST_CHECK;

#endif
