#include "model/tokenizer.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define NO_ID UINT32_MAX
#define MERGES_MAX (TOKENIZER_VOCAB_MAX - TOKENIZER_BYTES)

struct tokenizer {
	uint32_t vocab;
	struct tokenizer_merge *merges; /* vocab - TOKENIZER_BYTES */
	uint8_t *bytes;                 /* of all tokens, one after the other */
	uint32_t *at;                   /* vocab + 1 borders in bytes */
	uint32_t *slots;                /* open addressing: a merged id, or 0 */
	uint32_t slot_mask;
	char *text;
	struct hash hash;
};

/* ---- the pair table */

static uint32_t slot_of(const struct tokenizer *t, uint32_t left, uint32_t right)
{
	uint64_t key = (uint64_t)left << 32 | right;
	key *= 0x9e3779b97f4a7c15ull; /* 2^64 / golden ratio: spreads neighbouring keys */
	return (uint32_t)(key >> 32) & t->slot_mask;
}

/* Where the pair is, or the free slot where it would be. */
static uint32_t probe(const struct tokenizer *t, uint32_t left, uint32_t right)
{
	uint32_t s = slot_of(t, left, right);
	while (t->slots[s]) {
		const struct tokenizer_merge *m = &t->merges[t->slots[s] - TOKENIZER_BYTES];
		if (m->left == left && m->right == right)
			break;
		s = (s + 1) & t->slot_mask;
	}
	return s;
}

static uint32_t merged_id(const struct tokenizer *t, uint32_t left, uint32_t right)
{
	uint32_t id = t->slots[probe(t, left, right)];
	return id ? id : NO_ID;
}

/* ---- making */

static uint32_t token_len(const struct tokenizer *t, uint32_t id)
{
	return t->at[id + 1] - t->at[id];
}

/* Sets the borders of every token; refuses what a merge may not be. */
static enum err lay_out(struct tokenizer *t, struct why *why)
{
	for (uint32_t id = 0; id < TOKENIZER_BYTES; id++)
		t->at[id + 1] = id + 1;
	for (uint32_t id = TOKENIZER_BYTES; id < t->vocab; id++) {
		const struct tokenizer_merge *m = &t->merges[id - TOKENIZER_BYTES];
		uint32_t i = id - TOKENIZER_BYTES;
		if (m->left >= id || m->right >= id)
			return err_why(why, ERR_range,
				"merge %u of the tokenizer joins %u and %u, but only ids below %u "
				"exist "
				"there",
				i, m->left, m->right, id);
		uint32_t s = probe(t, m->left, m->right);
		if (t->slots[s])
			return err_why(why, ERR_duplicate,
				"merge %u of the tokenizer joins %u and %u, as merge %u does "
				"already",
				i, m->left, m->right, t->slots[s] - TOKENIZER_BYTES);
		t->slots[s] = id;
		uint32_t len = token_len(t, m->left) + token_len(t, m->right);
		if (len > TOKENIZER_TOKEN_MAX)
			return err_why(why, ERR_toobig,
				"merge %u of the tokenizer makes a token of %u bytes, at most %u "
				"are allowed",
				i, len, TOKENIZER_TOKEN_MAX);
		t->at[id + 1] = t->at[id] + len;
	}
	return ERR_OK;
}

static enum err fill_bytes(struct tokenizer *t)
{
	t->bytes = alloc_try(t->at[t->vocab], 1);
	if (!t->bytes)
		return ERR_nomem;
	for (uint32_t id = 0; id < TOKENIZER_BYTES; id++)
		t->bytes[id] = (uint8_t)id;
	for (uint32_t id = TOKENIZER_BYTES; id < t->vocab; id++) {
		const struct tokenizer_merge *m = &t->merges[id - TOKENIZER_BYTES];
		uint8_t *to = t->bytes + t->at[id];
		uint32_t n = token_len(t, m->left);
		memcpy(to, t->bytes + t->at[m->left], n);
		memcpy(to + n, t->bytes + t->at[m->right], token_len(t, m->right));
	}
	return ERR_OK;
}

/* Members in the order of their names and no spaces, which is what json_canonical gives. */
static enum err write_text(struct tokenizer *t, bool byte)
{
	struct buf b;
	buf_init(&b, TOKENIZER_FILE_MAX);
	buf_printf(&b, "{\"kind\":\"%s\"%s", byte ? "byte" : "bpe", byte ? "" : ",\"merges\":[");
	for (uint32_t i = 0; i < t->vocab - TOKENIZER_BYTES; i++)
		buf_printf(&b, "%s[%u,%u]", i ? "," : "", t->merges[i].left, t->merges[i].right);
	buf_printf(&b, "%s,\"shoal_tokenizer\":%d}", byte ? "" : "]", TOKENIZER_VERSION);
	buf_put_u8(&b, 0);
	if (!buf_ok(&b)) {
		buf_release(&b);
		return ERR_nomem;
	}
	size_t len;
	t->text = (char *)buf_steal(&b, &len);
	t->hash = hash_of(t->text, len - 1);
	return ERR_OK;
}

static enum err make(const struct tokenizer_merge *merges, size_t n, bool byte,
	struct tokenizer **out, struct why *why)
{
	uint32_t slots = 1024;
	while (slots < 2 * n)
		slots *= 2;
	struct tokenizer *t = alloc_must_zero(1, sizeof *t);
	t->vocab = TOKENIZER_BYTES + (uint32_t)n;
	t->slot_mask = slots - 1;
	t->merges = alloc_try(n + 1, sizeof *t->merges);
	t->at = alloc_try(t->vocab + 1u, sizeof *t->at);
	t->slots = alloc_try(slots, sizeof *t->slots);
	enum err e = ERR_nomem;
	if (t->merges && t->at && t->slots) {
		if (n)
			memcpy(t->merges, merges, n * sizeof *merges);
		e = lay_out(t, why);
		if (!e)
			e = fill_bytes(t);
		if (!e)
			e = write_text(t, byte);
	}
	if (e) {
		tokenizer_free(t);
		return e == ERR_nomem
			       ? err_why(why, e, "no memory for a tokenizer of %zu merges", n)
			       : e;
	}
	*out = t;
	return ERR_OK;
}

enum err tokenizer_new_byte(struct tokenizer **out, struct why *why)
{
	return make(NULL, 0, true, out, why);
}

enum err tokenizer_new_bpe(
	const struct tokenizer_merge *merges, size_t n, struct tokenizer **out, struct why *why)
{
	if (n > MERGES_MAX)
		return err_why(why, ERR_toobig, "a tokenizer of %zu merges; at most %u are allowed",
			n, MERGES_MAX);
	return make(merges, n, false, out, why);
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	free(t->merges);
	free(t->bytes);
	free(t->at);
	free(t->slots);
	free(t->text);
	free(t);
}

/* ---- reading a file */

static bool is_id(const json_t *j)
{
	return json_is_integer(j) && json_integer_value(j) >= 0 &&
	       json_integer_value(j) < TOKENIZER_VOCAB_MAX;
}

static enum err read_merges(const json_t *array, struct tokenizer **out, struct why *why)
{
	size_t n = json_array_size(array);
	struct tokenizer_merge *merges = alloc_try(n + 1, sizeof *merges);
	if (!merges)
		return err_why(why, ERR_nomem, "no memory for a tokenizer of %zu merges", n);
	for (size_t i = 0; i < n; i++) {
		const json_t *pair = json_array_get(array, i);
		const json_t *left = json_array_get(pair, 0), *right = json_array_get(pair, 1);
		if (json_array_size(pair) != 2 || !is_id(left) || !is_id(right)) {
			free(merges);
			return err_why(why, ERR_syntax,
				"merge %zu of the tokenizer is not a pair of ids", i);
		}
		merges[i].left = (uint32_t)json_integer_value(left);
		merges[i].right = (uint32_t)json_integer_value(right);
	}
	enum err e = tokenizer_new_bpe(merges, n, out, why);
	free(merges);
	return e;
}

static enum err read_document(
	const json_t *doc, struct buf *mistakes, struct tokenizer **out, struct why *why)
{
	const json_t *version = json_object_get(doc, "shoal_tokenizer");
	if (!json_is_integer(version))
		return err_why(why, ERR_magic,
			"not a tokenizer file: it has no number \"shoal_tokenizer\"");
	if (json_integer_value(version) != TOKENIZER_VERSION)
		return err_why(why, ERR_version,
			"a tokenizer of version %lld, this program reads version %d; prepare the "
			"corpus "
			"again",
			(long long)json_integer_value(version), TOKENIZER_VERSION);
	static const char *const kinds[] = {"byte", "bpe", NULL};
	struct json_in in;
	json_in_init(&in, doc, "", mistakes);
	json_get_int(&in, "shoal_tokenizer", TOKENIZER_VERSION, TOKENIZER_VERSION, NULL);
	bool byte = json_get_choice(&in, "kind", kinds, NULL) == 0;
	const json_t *merges = byte ? NULL : json_get_array(&in, "merges", MERGES_MAX, true);
	json_in_finish(&in);
	enum err e = json_verdict(mistakes, "not a tokenizer file", why);
	if (e)
		return e;
	return byte ? tokenizer_new_byte(out, why) : read_merges(merges, out, why);
}

enum err tokenizer_parse(const void *text, size_t n, struct tokenizer **out, struct why *why)
{
	json_t *doc;
	enum err e = json_parse(text, n, TOKENIZER_FILE_MAX, &doc, why);
	if (e)
		return e;
	struct buf mistakes;
	buf_init(&mistakes, 1u << 16);
	e = read_document(doc, &mistakes, out, why);
	buf_release(&mistakes);
	json_decref(doc);
	return e;
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

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
	return t->vocab;
}

const char *tokenizer_text(const struct tokenizer *t)
{
	return t->text;
}

struct hash tokenizer_hash(const struct tokenizer *t)
{
	return t->hash;
}

/* ---- splitting */

enum byte_class { LETTER, DIGIT, SPACE, OTHER };

static enum byte_class class_of(uint8_t b)
{
	if (b >= 0x80 || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z'))
		return LETTER;
	if (b >= '0' && b <= '9')
		return DIGIT;
	return b == ' ' || (b >= '\t' && b <= '\r') ? SPACE : OTHER;
}

size_t tokenizer_piece(const uint8_t *bytes, size_t n)
{
	assert(n > 0);
	size_t most = n < TOKENIZER_PIECE_MAX ? n : TOKENIZER_PIECE_MAX;
	size_t i = bytes[0] == ' ' && most > 1 && class_of(bytes[1]) != SPACE ? 1 : 0;
	enum byte_class c = class_of(bytes[i]);
	while (i < most && class_of(bytes[i]) == c)
		i++;
	/* The space before a word belongs to the word. */
	bool more = i < n && class_of(bytes[i]) != SPACE;
	return c == SPACE && more && i > 1 && bytes[i - 1] == ' ' ? i - 1 : i;
}

/* ---- encoding and decoding */

/* Joins the pair that was learned first, again and again.  A piece is short, so a scan for it beats
 * a queue. */
static size_t merge_piece(const struct tokenizer *t, uint32_t *id, size_t n)
{
	uint32_t join[TOKENIZER_PIECE_MAX];
	for (size_t i = 0; i + 1 < n; i++)
		join[i] = merged_id(t, id[i], id[i + 1]);
	while (n > 1) {
		size_t best = 0;
		for (size_t i = 1; i + 1 < n; i++)
			if (join[i] < join[best])
				best = i;
		if (join[best] == NO_ID)
			break;
		id[best] = join[best];
		n--;
		memmove(&id[best + 1], &id[best + 2], (n - best - 1) * sizeof *id);
		memmove(&join[best], &join[best + 1], (n - best - 1) * sizeof *join);
		if (best + 1 < n)
			join[best] = merged_id(t, id[best], id[best + 1]);
		if (best > 0)
			join[best - 1] = merged_id(t, id[best - 1], id[best]);
	}
	return n;
}

static enum err reserve(struct tokens *t, size_t more)
{
	if (more <= t->cap - t->len)
		return ERR_OK;
	if (more > SIZE_MAX / 16 - t->len)
		return ERR_nomem;
	size_t cap = t->len + more > 2 * t->cap ? t->len + more : 2 * t->cap;
	uint32_t *id = alloc_try_resize(t->id, cap, sizeof *id);
	if (!id)
		return ERR_nomem;
	t->id = id;
	t->cap = cap;
	return ERR_OK;
}

enum err tokenizer_encode(
	const struct tokenizer *t, const void *bytes, size_t n, struct tokens *out)
{
	if (reserve(out, n))
		return ERR_nomem;
	const uint8_t *from = bytes;
	for (size_t at = 0, piece; at < n; at += piece) {
		piece = tokenizer_piece(from + at, n - at);
		uint32_t *id = out->id + out->len;
		for (size_t i = 0; i < piece; i++)
			id[i] = from[at + i];
		out->len += t->vocab > TOKENIZER_BYTES ? merge_piece(t, id, piece) : piece;
	}
	return ERR_OK;
}

enum err tokenizer_decode(
	const struct tokenizer *t, const uint32_t *ids, size_t n, struct buf *out, struct why *why)
{
	size_t total = 0;
	for (size_t i = 0; i < n; i++) {
		if (ids[i] >= t->vocab)
			return err_why(why, ERR_range,
				"token %zu is %u, but the vocabulary has %u ids", i, ids[i],
				t->vocab);
		total += token_len(t, ids[i]);
		if (total > out->max - out->len)
			return err_why(why, ERR_toobig,
				"the text of %zu tokens is longer than %zu bytes", n, out->max);
	}
	uint8_t *to = total ? buf_grow(out, total) : NULL;
	if (total && !to)
		return err_why(why, ERR_nomem, "no memory for %zu bytes of text", total);
	for (size_t i = 0; i < n; i++) {
		uint32_t len = token_len(t, ids[i]);
		memcpy(to, t->bytes + t->at[ids[i]], len);
		to += len;
	}
	return ERR_OK;
}
