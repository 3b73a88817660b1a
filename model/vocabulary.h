/*
 * What a tokenizer is made of: the bytes of every id, and the merges in the order of their rank.
 * Readers of files fill one in, tokenizer_new_words checks it and takes it over.  All zero is an
 * empty one.
 */
#ifndef MODEL_VOCABULARY_H
#define MODEL_VOCABULARY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define VOCABULARY_NONE UINT32_MAX

/* Two neighbouring ids that become one. */
struct tokenizer_merge {
	uint32_t left, right;
};

struct vocabulary {
	uint8_t *bytes; /* of all words, one after the other */
	uint32_t *at;   /* n_words + 1 borders in bytes */
	bool *special;  /* n_words: the word is a mark (<|endoftext|>) and never comes from text */
	uint32_t n_words;
	struct tokenizer_merge *merges;
	uint32_t n_merges;
	uint32_t *slots; /* open addressing over the words that are no marks: id + 1, or 0 */
	size_t n_slots;
	uint64_t secret; /* of the slots: no file can aim its words at one place */
	size_t cap_bytes, cap_words, cap_merges;
};

void vocabulary_release(struct vocabulary *v); /* NULL-safe, idempotent */

/* Appends the word of the next id, or a merge.  The caller bounds n and their numbers; the only
 * failure is ERR_nomem. */
enum err vocabulary_add_word(
	struct vocabulary *v, const void *bytes, size_t n, bool special) MUST_CHECK;
enum err vocabulary_add_merge(struct vocabulary *v, uint32_t left, uint32_t right) MUST_CHECK;

/* Makes the words findable, once all are there.  ERR_duplicate: *twice has the bytes of an earlier
 * one (marks apart); ERR_nomem. */
enum err vocabulary_index(struct vocabulary *v, uint32_t *twice) MUST_CHECK;
/* The id of the word with these bytes that is no mark, or VOCABULARY_NONE; after vocabulary_index.
 */
uint32_t vocabulary_find(const struct vocabulary *v, const void *bytes, size_t n);
/* The word of an id below n_words. */
const uint8_t *vocabulary_word(const struct vocabulary *v, uint32_t id, size_t *n);

#endif
