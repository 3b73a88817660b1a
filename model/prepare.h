/*
 * From text files to a corpus: trains or loads the tokenizer, encodes, writes token shards, the
 * tokenizer and the manifest as blobs named by their SHA-256 under DIR/blobs, and the manifest
 * again as DIR/manifest.json, last, so that a folder with a manifest is complete.  The text is read
 * in stretches (twice when a BPE is trained); memory does not grow with it.  Files are taken in the
 * given order as one text: nothing is put between them.  The result is the same for every number of
 * threads.
 */
#ifndef MODEL_PREPARE_H
#define MODEL_PREPARE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"

#define PREPARE_SHARD_BYTES (4u << 20)

/* stage is "reading", "learning" (merges) or "encoding"; done and total are bytes, or merges. */
typedef void prepare_progress(void *arg, const char *stage, uint64_t done, uint64_t total);

struct prepare {
	const char *const *texts; /* paths */
	size_t n_texts;
	const char *dir;
	const char *tokenizer; /* what tokenizer_open takes; NULL: by vocab */
	uint32_t vocab;    /* 256: byte; above, up to 65536: a BPE learned from the training part */
	double validation; /* share of the text, from its end, 0 to 0.5; usual 0.05 */
	uint32_t seq;      /* the text must give a few sequences of this many tokens */
	uint64_t shard_bytes;       /* payload of a shard at most; usual PREPARE_SHARD_BYTES */
	unsigned threads;           /* 0: one for each core */
	prepare_progress *progress; /* may be NULL; called from one thread */
	void *arg;
};

struct prepare_summary {
	struct hash manifest, tokenizer;
	uint32_t vocab; /* smaller than asked when the text has no more pairs that repeat */
	uint64_t text_bytes, train_bytes, validation_bytes;
	uint64_t zero_bytes; /* of the text; plain text has none */
	uint64_t train_tokens, validation_tokens;
	size_t train_shards, validation_shards;
	double entropy[3];  /* nats per byte, in-sample, order 1 to 3 of the training part */
	double held_out[3]; /* what those counts reach on the validation part; 0 without one */
};

/* Refuses a text that is missing, unreadable, empty, no regular file or too short, and settings out
 * of range, each with a sentence.  Running it again over the same folder rewrites nothing that is
 * already there and whole.  The folder is the caller's alone meanwhile. */
enum err prepare(const struct prepare *p, struct prepare_summary *out, struct why *why) MUST_CHECK;

#endif
