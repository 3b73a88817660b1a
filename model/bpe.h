/*
 * Learns the merges of a byte-pair encoding (Gage 1994; Sennrich et al., ACL 2016) from a text:
 * again and again the most frequent pair of neighbouring ids inside the pieces of split.h
 * becomes a new id.  Of pairs that are equally frequent the one with the smaller left, then the
 * smaller right id wins, so the same text always gives the same merges.
 *
 * Memory is bounded: the first BPE_PIECES_MAX different pieces with at most BPE_SYMBOLS_MAX bytes
 * are counted, later new ones are not looked at.  Failure is ERR_nomem only.
 */
#ifndef MODEL_BPE_H
#define MODEL_BPE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/tokenizer.h"

#define BPE_PIECES_MAX (1u << 20)
#define BPE_SYMBOLS_MAX (1u << 23)

struct bpe;

struct bpe *bpe_new(void); /* NULL: out of memory */
void bpe_free(struct bpe *b);

/* Counts the pieces of one stretch of text.  Stretches are split on their own: cut a long text at
 * piece borders (split.h). */
enum err bpe_add(struct bpe *b, const void *bytes, size_t n) MUST_CHECK;

/* done of total merges were made */
typedef void bpe_progress(void *arg, uint64_t done, uint64_t total);

/* Merges until there are vocab ids (TOKENIZER_BYTES <= vocab <= TOKENIZER_BPE_VOCAB_MAX) or no pair
 * occurs twice: the tokenizer then has fewer.  Consumes the counts: call once.  progress may be
 * NULL. */
enum err bpe_train(struct bpe *b, uint32_t vocab, bpe_progress *progress, void *arg,
	struct tokenizer **out) MUST_CHECK;

#endif
