/*
 * Text to token ids and back, byte-level: ids 0 to 255 are the bytes, so that any input can be
 * encoded and nothing is ever refused for its character set.  Kind "byte" stops there; kind "bpe"
 * adds one id for each merge of two earlier ids.  The file is JSON:
 *
 *   {"kind":"byte","shoal_tokenizer":1}
 *   {"kind":"bpe","merges":[[116,104],[256,101]],"shoal_tokenizer":1}
 *
 * Merge i makes id 256 + i; a merge may only name ids below its own.  A file is hostile input:
 * sizes are bounded, and every refusal is a sentence.  A tokenizer is immutable after it was made
 * and may be used from any thread.
 *
 * Splitting.  Merges never cross the border of a piece.  Bytes fall in four classes: letters (A-Z,
 * a-z and every byte from 0x80 up, so that UTF-8 letters stay together), digits, white space
 * (space, \t \n \v \f \r) and the rest.  A piece is a run of one class, optionally with one space
 * in front; a run of white space leaves its last byte, if that is a space, to what follows it.  A
 * piece ends after TOKENIZER_PIECE_MAX bytes at the latest, so that the cost of a text is linear in
 * its size. The rule is part of version 1 of the file.
 */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

#define TOKENIZER_VERSION 1
#define TOKENIZER_BYTES 256u
#define TOKENIZER_VOCAB_MAX 65536u
#define TOKENIZER_TOKEN_MAX 128u /* bytes that one token may stand for */
#define TOKENIZER_PIECE_MAX 128u
#define TOKENIZER_FILE_MAX (4u << 20)

struct tokenizer;

struct tokenizer_merge {
	uint32_t left, right;
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
enum err tokenizer_parse(
	const void *text, size_t n, struct tokenizer **out, struct why *why) MUST_CHECK;
enum err tokenizer_load(const char *path, struct tokenizer **out, struct why *why) MUST_CHECK;
void tokenizer_free(struct tokenizer *t); /* NULL-safe */

uint32_t tokenizer_vocab(const struct tokenizer *t);   /* ids are below it */
const char *tokenizer_text(const struct tokenizer *t); /* canonical JSON, lives as long as t */
struct hash tokenizer_hash(const struct tokenizer *t); /* of that text: the tokenizer's name */

/* Appends the ids of the bytes, at most one for each byte.  ERR_nomem leaves out as it was. */
enum err tokenizer_encode(
	const struct tokenizer *t, const void *bytes, size_t n, struct tokens *out) MUST_CHECK;
/* Appends the bytes of the ids to out.  ERR_range names the id that does not exist, ERR_toobig says
 * that out is full; in both cases nothing is appended. */
enum err tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t n, struct buf *out,
	struct why *why) MUST_CHECK;

/* Length of the first piece of the n > 0 bytes by the rule above.  Looks at no more than
 * TOKENIZER_PIECE_MAX + 1 bytes, so a text may be split in a sliding window. */
size_t tokenizer_piece(const uint8_t *bytes, size_t n);

#endif
