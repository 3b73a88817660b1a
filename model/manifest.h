/*
 * The list of a corpus: which tokenizer, which token shards, how much text they stand for.
 * Canonical JSON; the SHA-256 of the text is the manifest's name and stands in the run spec.  A
 * manifest is hostile input.
 *
 *   {"shoal_manifest":1,"tokenizer":HASH,"vocab":256,"micronats":[3010000,2260000,1730000],
 *    "train":{"shards":[{"bytes":4194328,"hash":HASH,"tokens":4194304}],"text_bytes":N,"tokens":N},
 *    "validation":{...}}
 *
 * micronats are the training text's entropies of order 1, 2 and 3 (ngram.h) in millionths of a nat
 * per byte, yardsticks to show beside a loss.  bytes is the size of the shard's file, text_bytes
 * what the split's text had: a loss per token times tokens / text_bytes is a loss per byte.
 */
#ifndef MODEL_MANIFEST_H
#define MODEL_MANIFEST_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

#define MANIFEST_VERSION 1
#define MANIFEST_FILE_MAX (8u << 20)
#define MANIFEST_SHARDS_MAX 16384u           /* of one split */
#define MANIFEST_SHARD_TOKENS_MAX (1u << 28) /* of one shard */

struct manifest_shard {
	struct hash hash;
	uint64_t tokens, bytes;
};

struct manifest_split {
	struct manifest_shard *shards;
	size_t n_shards;
	uint64_t tokens;     /* the shards' sum */
	uint64_t text_bytes; /* of the text that they encode; at least tokens */
};

struct manifest {
	struct hash id; /* of text */
	char *text;     /* canonical JSON */
	struct hash tokenizer;
	uint32_t vocab, micronats[3];
	struct manifest_split train, validation; /* validation may be empty */
};

enum err manifest_parse(
	const void *text, size_t n, struct manifest **out, struct why *why) MUST_CHECK;
enum err manifest_load(const char *path, struct manifest **out, struct why *why) MUST_CHECK;
void manifest_free(struct manifest *m); /* NULL-safe */

/* Sets text and id from the other fields. */
enum err manifest_print(struct manifest *m, struct why *why) MUST_CHECK;

#endif
