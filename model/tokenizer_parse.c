/* Reading a tokenizer's file (tokenizer.h says its form). */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/bytechar.h"
#include "model/tokenizer_in.h"

static enum err no_memory(struct why *why)
{
	return err_why(why, ERR_nomem, "no memory for a tokenizer");
}

static bool is_id(const json_t *j)
{
	return json_is_integer(j) && json_integer_value(j) >= 0 &&
	       json_integer_value(j) < TOKENIZER_VOCAB_MAX;
}

static enum err read_merge(
	const json_t *array, size_t i, struct tokenizer_merge *out, struct why *why)
{
	const json_t *pair = json_array_get(array, i);
	const json_t *left = json_array_get(pair, 0), *right = json_array_get(pair, 1);
	if (json_array_size(pair) != 2 || !is_id(left) || !is_id(right))
		return err_why(
			why, ERR_syntax, "merge %zu of the tokenizer is not a pair of ids", i);
	out->left = (uint32_t)json_integer_value(left);
	out->right = (uint32_t)json_integer_value(right);
	return ERR_OK;
}

static enum err read_bpe(const json_t *array, struct tokenizer **out, struct why *why)
{
	size_t n = json_array_size(array);
	struct tokenizer_merge *merges = alloc_try(n + 1, sizeof *merges);
	enum err e = merges ? ERR_OK : no_memory(why);
	for (size_t i = 0; i < n && !e; i++)
		e = read_merge(array, i, &merges[i], why);
	if (!e)
		e = tokenizer_new_bpe(merges, n, out, why);
	free(merges);
	return e;
}

/* ---- words */

struct parts {
	const json_t *words, *merges, *special;
};

static enum err read_word(
	const json_t *j, uint32_t id, bool special, struct vocabulary *v, struct why *why)
{
	const char *at = json_string_value(j);
	uint8_t word[TOKENIZER_TOKEN_MAX];
	size_t n = 0, len = json_string_length(j);
	if (!at || len > 2 * TOKENIZER_TOKEN_MAX)
		return err_why(why, ERR_syntax,
			"word %u of the tokenizer is not a text of up to %u bytes", id,
			TOKENIZER_TOKEN_MAX);
	const char *end = at + len;
	if (special)
		return vocabulary_add_word(v, at, len, true) ? no_memory(why) : ERR_OK;
	while (at < end && n < sizeof word)
		if (!bytechar_get(&at, end, &word[n++]))
			return err_why(why, ERR_syntax,
				"word %u of the tokenizer, \"%s\", has a character that stands "
				"for no byte",
				id, json_string_value(j));
	if (at < end)
		return err_why(why, ERR_toobig, "word %u of the tokenizer has more than %u bytes",
			id, TOKENIZER_TOKEN_MAX);
	return vocabulary_add_word(v, word, n, false) ? no_memory(why) : ERR_OK;
}

static enum err read_words(const struct parts *p, struct vocabulary *v, struct why *why)
{
	size_t next = 0, n_special = json_array_size(p->special);
	enum err e = ERR_OK;
	for (uint32_t id = 0; id < json_array_size(p->words) && !e; id++) {
		const json_t *mark = json_array_get(p->special, next);
		bool special = json_is_integer(mark) && json_integer_value(mark) == id;
		next += special;
		e = read_word(json_array_get(p->words, id), id, special, v, why);
	}
	if (!e && next < n_special)
		e = err_why(why, ERR_range,
			"the tokenizer's special ids are not ids of its words in rising order");
	return e;
}

static enum err fill(const struct parts *p, struct vocabulary *v, struct why *why)
{
	enum err e = read_words(p, v, why);
	for (size_t i = 0; i < json_array_size(p->merges) && !e; i++) {
		struct tokenizer_merge m;
		e = read_merge(p->merges, i, &m, why);
		if (!e && vocabulary_add_merge(v, m.left, m.right))
			e = no_memory(why);
	}
	return e;
}

/* ---- the document */

static enum err read_kinds(
	const json_t *doc, struct buf *mistakes, struct tokenizer **out, struct why *why)
{
	struct json_in in;
	json_in_init(&in, doc, "", mistakes);
	json_get_int(&in, "shoal_tokenizer", TOKENIZER_VERSION, TOKENIZER_VERSION, NULL);
	size_t kind = json_get_choice(&in, "kind", tokenizer_names, NULL);
	bool words = kind == TOKENIZER_gpt2 || kind == TOKENIZER_llama3, ignore = false;
	struct parts p = {0};
	if (kind != TOKENIZER_byte)
		p.merges = json_get_array(&in, "merges",
			words ? TOKENIZER_MERGES_MAX : TOKENIZER_BPE_VOCAB_MAX - TOKENIZER_BYTES,
			true);
	if (words) {
		p.words = json_get_array(&in, "words", TOKENIZER_VOCAB_MAX, true);
		p.special = json_get_array(&in, "special", TOKENIZER_VOCAB_MAX, true);
		ignore = json_get_flag(&in, "ignore_merges", NULL);
	}
	json_in_finish(&in);
	enum err e = json_verdict(mistakes, "not a tokenizer file", why);
	if (e)
		return e;
	if (!words)
		return kind == TOKENIZER_byte ? tokenizer_new_byte(out, why)
					      : read_bpe(p.merges, out, why);
	struct vocabulary v = {0};
	e = fill(&p, &v, why);
	if (!e)
		e = tokenizer_new_words((enum tokenizer_kind)kind, ignore, &v, out, why);
	vocabulary_release(&v);
	return e;
}

static enum err read_document(const json_t *doc, struct tokenizer **out, struct why *why)
{
	const json_t *version = json_object_get(doc, "shoal_tokenizer");
	if (!json_is_integer(version))
		return err_why(why, ERR_magic,
			"not a tokenizer file: it has no number \"shoal_tokenizer\"");
	if (json_integer_value(version) != TOKENIZER_VERSION)
		return err_why(why, ERR_version,
			"a tokenizer of version %lld, this program reads version %d; prepare the "
			"corpus again",
			(long long)json_integer_value(version), TOKENIZER_VERSION);
	struct buf mistakes;
	buf_init(&mistakes, 1u << 16);
	enum err e = read_kinds(doc, &mistakes, out, why);
	buf_release(&mistakes);
	return e;
}

enum err tokenizer_parse(const void *text, size_t n, struct tokenizer **out, struct why *why)
{
	json_t *doc;
	enum err e = json_parse(text, n, TOKENIZER_FILE_MAX, &doc, why);
	if (e)
		return e;
	e = read_document(doc, out, why);
	json_decref(doc);
	return e;
}
