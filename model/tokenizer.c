#include "model/tokenizer.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "model/encoder.h"
#include "model/tokenizer_in.h"
#include "model/unicode.h"

#define MERGES_MAX (TOKENIZER_BPE_VOCAB_MAX - TOKENIZER_BYTES)

#define X(name) #name,
const char *const tokenizer_names[] = {TOKENIZER_LIST(X) NULL};
#undef X

static enum err no_memory(struct why *why)
{
	return err_why(why, ERR_nomem, "no memory for a tokenizer");
}

/* ---- making: bytes and bpe */

static enum err add_bytes(struct tokenizer *t)
{
	for (unsigned i = 0; i < TOKENIZER_BYTES; i++) {
		uint8_t byte = (uint8_t)i;
		t->byte_id[i] = i;
		if (vocabulary_add_word(&t->v, &byte, 1, false))
			return ERR_nomem;
	}
	return ERR_OK;
}

/* The next merge of kind bpe; refuses what it may not be. */
static enum err add_merge(struct tokenizer *t, const struct tokenizer_merge *m, struct why *why)
{
	uint32_t id = t->v.n_words, i = t->v.n_merges, earlier;
	if (m->left >= id || m->right >= id)
		return err_why(why, ERR_range,
			"merge %u of the tokenizer joins %u and %u, but only ids below %u exist "
			"there",
			i, m->left, m->right, id);
	struct pair pair = {.left = m->left, .right = m->right, .id = id, .rank = i};
	if (pairs_add(&t->pairs, &pair, &earlier))
		return err_why(why, ERR_duplicate,
			"merge %u of the tokenizer joins %u and %u, as merge %u does already", i,
			m->left, m->right, earlier);
	uint8_t word[2 * SPLIT_BPE_MAX];
	size_t a, b;
	const uint8_t *left = vocabulary_word(&t->v, m->left, &a);
	memcpy(word, left, a);
	const uint8_t *right = vocabulary_word(&t->v, m->right, &b);
	memcpy(word + a, right, b);
	if (a + b > SPLIT_BPE_MAX)
		return err_why(why, ERR_toobig,
			"merge %u of the tokenizer makes a token of %zu bytes, at most %u are "
			"allowed",
			i, a + b, SPLIT_BPE_MAX);
	if (vocabulary_add_word(&t->v, word, a + b, false) ||
		vocabulary_add_merge(&t->v, m->left, m->right))
		return no_memory(why);
	return ERR_OK;
}

/* Gives it out when all went well, else frees it. */
static enum err finish(struct tokenizer *t, enum err e, struct tokenizer **out, struct why *why)
{
	if (!e)
		e = tokenizer_print(t, why);
	if (e)
		tokenizer_free(t);
	else
		*out = t;
	return e;
}

enum err tokenizer_new_byte(struct tokenizer **out, struct why *why)
{
	struct tokenizer *t = alloc_must_zero(1, sizeof *t);
	t->kind = TOKENIZER_byte;
	enum err e = add_bytes(t) || pairs_init(&t->pairs, 0) ? no_memory(why) : ERR_OK;
	return finish(t, e, out, why);
}

enum err tokenizer_new_bpe(
	const struct tokenizer_merge *merges, size_t n, struct tokenizer **out, struct why *why)
{
	if (n > MERGES_MAX)
		return err_why(why, ERR_toobig, "a tokenizer of %zu merges; at most %u are allowed",
			n, MERGES_MAX);
	struct tokenizer *t = alloc_must_zero(1, sizeof *t);
	t->kind = TOKENIZER_bpe;
	enum err e = add_bytes(t) || pairs_init(&t->pairs, n) ? no_memory(why) : ERR_OK;
	for (size_t i = 0; i < n && !e; i++)
		e = add_merge(t, &merges[i], why);
	return finish(t, e, out, why);
}

/* ---- making: words */

/* The word of a mark stands in JSON as it is. */
static bool is_text(const uint8_t *word, size_t n)
{
	size_t len;
	for (size_t i = 0; i < n; i += len)
		if (unicode_decode(word + i, n - i, &len) >= UNICODE_PARTIAL || word[i] < 0x20)
			return false;
	return true;
}

static enum err check_words(struct tokenizer *t, struct why *why)
{
	const struct vocabulary *v = &t->v;
	uint32_t twice;
	if (v->n_words > TOKENIZER_VOCAB_MAX)
		return err_why(why, ERR_toobig, "a vocabulary of %u words; at most %u are allowed",
			v->n_words, TOKENIZER_VOCAB_MAX);
	for (uint32_t id = 0; id < v->n_words; id++) {
		size_t n;
		const uint8_t *word = vocabulary_word(v, id, &n);
		if (n == 0 || n > TOKENIZER_TOKEN_MAX)
			return err_why(why, ERR_toobig,
				"word %u of the vocabulary has %zu bytes; 1 to %u are allowed", id,
				n, TOKENIZER_TOKEN_MAX);
		if (v->special[id] && !is_text(word, n))
			return err_why(
				why, ERR_syntax, "the special word %u is not plain text", id);
	}
	enum err e = vocabulary_index(&t->v, &twice);
	if (e)
		return e == ERR_nomem
			       ? no_memory(why)
			       : err_why(why, e, "word %u of the vocabulary is there twice", twice);
	for (unsigned i = 0; i < TOKENIZER_BYTES; i++) {
		uint8_t byte = (uint8_t)i;
		t->byte_id[i] = vocabulary_find(v, &byte, 1);
		if (t->byte_id[i] == VOCABULARY_NONE)
			return err_why(why, ERR_unsupported,
				"the vocabulary has no word for the byte %u; only byte-level "
				"vocabularies, which have all 256, can be used",
				i);
	}
	return ERR_OK;
}

static enum err join_words(struct tokenizer *t, uint32_t i, struct why *why)
{
	const struct vocabulary *v = &t->v;
	const struct tokenizer_merge *m = &v->merges[i];
	if (m->left >= v->n_words || m->right >= v->n_words || v->special[m->left] ||
		v->special[m->right])
		return err_why(why, ERR_range,
			"merge %u of the tokenizer joins %u and %u, which are not both words", i,
			m->left, m->right);
	uint8_t word[2 * TOKENIZER_TOKEN_MAX];
	size_t a, b;
	const uint8_t *left = vocabulary_word(v, m->left, &a);
	memcpy(word, left, a);
	const uint8_t *right = vocabulary_word(v, m->right, &b);
	memcpy(word + a, right, b);
	struct pair pair = {.left = m->left, .right = m->right, .rank = i};
	pair.id = vocabulary_find(v, word, a + b);
	if (pair.id == VOCABULARY_NONE)
		return err_why(why, ERR_range,
			"merge %u of the tokenizer joins %u and %u to what is no word of the "
			"vocabulary",
			i, m->left, m->right);
	uint32_t earlier;
	if (pairs_add(&t->pairs, &pair, &earlier))
		return err_why(why, ERR_duplicate,
			"merge %u of the tokenizer joins %u and %u, as merge %u does already", i,
			m->left, m->right, earlier);
	return ERR_OK;
}

enum err tokenizer_new_words(enum tokenizer_kind kind, bool ignore_merges, struct vocabulary *v,
	struct tokenizer **out, struct why *why)
{
	assert(kind == TOKENIZER_gpt2 || kind == TOKENIZER_llama3);
	struct tokenizer *t = alloc_must_zero(1, sizeof *t);
	t->kind = kind;
	t->ignore_merges = ignore_merges;
	t->v = *v;
	*v = (struct vocabulary){0};
	enum err e = ERR_OK;
	if (t->v.n_merges > TOKENIZER_MERGES_MAX)
		e = err_why(why, ERR_toobig, "a tokenizer of %u merges; at most %u are allowed",
			t->v.n_merges, TOKENIZER_MERGES_MAX);
	if (!e)
		e = check_words(t, why);
	if (!e && pairs_init(&t->pairs, t->v.n_merges))
		e = no_memory(why);
	for (uint32_t i = 0; i < t->v.n_merges && !e; i++)
		e = join_words(t, i, why);
	return finish(t, e, out, why);
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	vocabulary_release(&t->v);
	pairs_release(&t->pairs);
	free(t->text);
	free(t);
}

enum err tokenizer_load(const char *path, struct tokenizer **out, struct why *why)
{
	uint8_t *text;
	size_t n;
	enum err e = file_read(path, TOKENIZER_FILE_MAX, &text, &n, why);
	if (e)
		return e;
	struct why inner = {0};
	e = tokenizer_parse(text, n, out, &inner);
	free(text);
	return e ? err_why(why, e, "%s: %s", path, inner.text) : ERR_OK;
}

/* ---- asking */

enum tokenizer_kind tokenizer_kind(const struct tokenizer *t)
{
	return t->kind;
}

enum split tokenizer_split(const struct tokenizer *t)
{
	switch (t->kind) {
	case TOKENIZER_gpt2: return SPLIT_gpt2;
	case TOKENIZER_llama3: return SPLIT_llama3;
	default: return SPLIT_bpe;
	}
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
	return t->v.n_words;
}

const struct vocabulary *tokenizer_vocabulary(const struct tokenizer *t)
{
	return &t->v;
}

bool tokenizer_ignores_merges(const struct tokenizer *t)
{
	return t->ignore_merges;
}

const char *tokenizer_text(const struct tokenizer *t)
{
	return t->text;
}

struct hash tokenizer_hash(const struct tokenizer *t)
{
	return t->hash;
}

/* ---- encoding and decoding */

enum err tokenizer_encode(
	const struct tokenizer *t, const void *bytes, size_t n, struct tokens *out)
{
	struct encoder *e = encoder_new(t);
	enum err err = e ? encoder_put(e, bytes, n, out) : ERR_nomem;
	encoder_free(e);
	return err;
}

enum err tokenizer_decode(
	const struct tokenizer *t, const uint32_t *ids, size_t n, struct buf *out, struct why *why)
{
	size_t total = 0, len;
	for (size_t i = 0; i < n; i++) {
		if (ids[i] >= t->v.n_words)
			return err_why(why, ERR_range,
				"token %zu is %u, but the vocabulary has %u ids", i, ids[i],
				t->v.n_words);
		(void)vocabulary_word(&t->v, ids[i], &len);
		total += len;
		if (total > out->max - out->len)
			return err_why(why, ERR_toobig,
				"the text of %zu tokens is longer than %zu bytes", n, out->max);
	}
	uint8_t *to = total ? buf_grow(out, total) : NULL;
	if (total && !to)
		return err_why(why, ERR_nomem, "no memory for %zu bytes of text", total);
	for (size_t i = 0; i < n; i++) {
		const uint8_t *word = vocabulary_word(&t->v, ids[i], &len);
		memcpy(to, word, len);
		to += len;
	}
	return ERR_OK;
}
