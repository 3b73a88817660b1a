/*
 * Text to token ids and back.  Every single byte has an id, so that any input can be encoded and
 * nothing is ever refused for its character set.  The file is JSON:
 *
 *   {"kind":"byte","shoal_tokenizer":1}
 *   {"kind":"bpe","merges":[[116,104],[256,101]],"shoal_tokenizer":1}
 *   {"ignore_merges":false,"kind":"gpt2","merges":[[64,65],...],"shoal_tokenizer":1,
 *    "special":[50256],"words":["!","\"",...,"<|endoftext|>"]}
 *
 * In kind "byte" an id is a byte.  In kind "bpe", which bpe.h learns, ids 0 to 255 are the bytes
 * and merge i makes id 256 + i of two ids below its own.  Kind "gpt2" is what GPT-2's and other
 * byte-level vocabularies say: words lists every id in its order, in GPT-2's printable names for
 * bytes (bytechar.h); every byte is a word; merge i joins two ids to the word that has the bytes of
 * both, and the earlier merges go first; special lists the ids that are marks, whose word is meant
 * literally.  With ignore_merges a piece that is a word as a whole is that word.  Kind "llama3"
 * differs in the split rule only (split.h).
 *
 * Text is always ordinary: "<|endoftext|>" in it is encoded as the letters that it is, and no mark
 * ever comes from text.  A mark that is decoded gives its word.
 *
 * A file is hostile input: sizes are bounded, and every refusal is a sentence.  A tokenizer is
 * immutable after it was made and may be used from any thread.
 */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "model/split.h"
#include "model/vocabulary.h"

#define TOKENIZER_VERSION 1
#define TOKENIZER_BYTES 256u
#define TOKENIZER_VOCAB_MAX (1u << 18)
#define TOKENIZER_MERGES_MAX (1u << 20) /* several may make the same word */
#define TOKENIZER_BPE_VOCAB_MAX 65536u  /* of kind bpe */
#define TOKENIZER_TOKEN_MAX 512u        /* bytes that one token may stand for; bpe: SPLIT_BPE_MAX */
#define TOKENIZER_FILE_MAX (8u << 20)

struct tokenizer;

#define TOKENIZER_LIST(X) X(byte) X(bpe) X(gpt2) X(llama3)

enum tokenizer_kind {
#define X(name) TOKENIZER_##name,
	TOKENIZER_LIST(X)
#undef X
};

/* A growing array of ids; all zero is empty.  Free with free(t->id). */
struct tokens {
	uint32_t *id;
	size_t len, cap;
};

enum err tokenizer_new_byte(struct tokenizer **out, struct why *why) MUST_CHECK;
/* Checks the merges as tokenizer_parse does; n may be 0. */
enum err tokenizer_new_bpe(const struct tokenizer_merge *merges, size_t n, struct tokenizer **out,
	struct why *why) MUST_CHECK;
/* Kind gpt2 or llama3.  Checks v and takes it over, also when it refuses; v is empty then. */
enum err tokenizer_new_words(enum tokenizer_kind kind, bool ignore_merges, struct vocabulary *v,
	struct tokenizer **out, struct why *why) MUST_CHECK;
enum err tokenizer_parse(
	const void *text, size_t n, struct tokenizer **out, struct why *why) MUST_CHECK;
enum err tokenizer_load(const char *path, struct tokenizer **out, struct why *why) MUST_CHECK;
void tokenizer_free(struct tokenizer *t); /* NULL-safe */

enum tokenizer_kind tokenizer_kind(const struct tokenizer *t);
enum split tokenizer_split(const struct tokenizer *t); /* its rule; kind byte has the one of bpe */
uint32_t tokenizer_vocab(const struct tokenizer *t);   /* ids are below it */
const struct vocabulary *tokenizer_vocabulary(const struct tokenizer *t); /* lives as long as t */
bool tokenizer_ignores_merges(const struct tokenizer *t);
const char *tokenizer_text(const struct tokenizer *t); /* canonical JSON, lives as long as t */
struct hash tokenizer_hash(const struct tokenizer *t); /* of that text: the tokenizer's name */

/* Appends the ids of the bytes, at most one for each byte.  ERR_nomem leaves out as it was.  Much
 * text is faster through an encoder (encoder.h). */
enum err tokenizer_encode(
	const struct tokenizer *t, const void *bytes, size_t n, struct tokens *out) MUST_CHECK;
/* Appends the bytes of the ids to out.  ERR_range names the id that does not exist, ERR_toobig says
 * that out is full; in both cases nothing is appended. */
enum err tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t n, struct buf *out,
	struct why *why) MUST_CHECK;

#endif
