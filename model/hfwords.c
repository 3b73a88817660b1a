#include "model/hfwords.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/bytechar.h"
#include "model/tokenizer.h"

struct entry {
	const char *text; /* borrowed from the document; NULL: no word has this id */
	bool special;
};

struct table {
	struct entry *entries; /* TOKENIZER_VOCAB_MAX */
	uint32_t n;            /* one more than the highest id */
};

static enum err enter(struct table *t, const json_t *id, struct entry e, struct why *why)
{
	json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
	if (i < 0 || i >= TOKENIZER_VOCAB_MAX)
		return err_why(why, ERR_range,
			"the id of the word \"%s\" is not a whole number below %u", e.text,
			TOKENIZER_VOCAB_MAX);
	struct entry *at = &t->entries[i];
	/* An added token may stand among the words too. */
	if (at->text && (!e.special || strcmp(at->text, e.text)))
		return err_why(why, ERR_duplicate,
			"the words \"%s\" and \"%s\" both have the id %d", at->text, e.text,
			(int)i);
	*at = e;
	if (i >= t->n)
		t->n = (uint32_t)i + 1;
	return ERR_OK;
}

static enum err enter_added(struct table *t, const json_t *added, struct why *why)
{
	enum err e = ERR_OK;
	size_t i;
	const json_t *token;
	json_array_foreach(added, i, token)
	{
		struct entry entry = {json_string_value(json_object_get(token, "content")), true};
		static const char *const off[] = {"single_word", "lstrip", "rstrip"};
		if (!entry.text)
			return err_why(why, ERR_syntax,
				"added_tokens[%zu] of the tokenizer has no text \"content\"", i);
		for (size_t k = 0; k < sizeof off / sizeof *off; k++)
			if (json_is_true(json_object_get(token, off[k])))
				return err_why(why, ERR_unsupported,
					"added_tokens[%zu].%s of the tokenizer is true, which "
					"shoal does not have",
					i, off[k]);
		if (!json_is_true(json_object_get(token, "special")))
			return err_why(why, ERR_unsupported,
				"added_tokens[%zu].special of the tokenizer is not true: \"%s\" "
				"would be found in text, which shoal does not do",
				i, entry.text);
		e = enter(t, json_object_get(token, "id"), entry, why);
		if (e)
			break;
	}
	return e;
}

static enum err spell(const struct entry *e, struct vocabulary *v, struct why *why)
{
	const char *at = e->text, *end = at + strlen(at);
	uint8_t word[TOKENIZER_TOKEN_MAX];
	size_t n = 0;
	if ((size_t)(end - at) > 2 * sizeof word)
		return err_why(why, ERR_toobig, "a word of the vocabulary has more than %u bytes",
			TOKENIZER_TOKEN_MAX);
	if (e->special)
		return vocabulary_add_word(v, at, (size_t)(end - at), true);
	while (at < end && n < sizeof word)
		if (!bytechar_get(&at, end, &word[n++]))
			return err_why(why, ERR_unsupported,
				"the word \"%s\" of the vocabulary is not of the byte-level kind",
				e->text);
	if (at < end)
		return err_why(why, ERR_toobig, "a word of the vocabulary has more than %u bytes",
			TOKENIZER_TOKEN_MAX);
	return vocabulary_add_word(v, word, n, false);
}

static enum err fill(const struct table *t, struct vocabulary *v, struct why *why)
{
	for (uint32_t id = 0; id < t->n; id++) {
		if (!t->entries[id].text)
			return err_why(why, ERR_missing,
				"the vocabulary has no word with the id %u, but higher ones", id);
		enum err e = spell(&t->entries[id], v, why);
		if (e)
			return e;
	}
	uint32_t twice;
	enum err e = vocabulary_index(v, &twice);
	return e == ERR_duplicate
		       ? err_why(why, e, "word %u of the vocabulary is there twice", twice)
		       : e;
}

enum err hfwords_read(
	const json_t *words, const json_t *added, struct vocabulary *v, struct why *why)
{
	struct table t = {.entries = alloc_try(TOKENIZER_VOCAB_MAX, sizeof *t.entries)};
	const char *text;
	json_t *id;
	enum err e = ERR_OK;
	if (!json_is_object(words))
		e = err_why(
			why, ERR_syntax, "the vocabulary is not a JSON object of words and ids");
	else if (!t.entries)
		e = ERR_nomem;
	for (void *it = e ? NULL : json_object_iter((json_t *)(uintptr_t)words); it && !e;
		it = json_object_iter_next((json_t *)(uintptr_t)words, it)) {
		text = json_object_iter_key(it);
		id = json_object_iter_value(it);
		e = enter(&t, id, (struct entry){text, false}, why);
	}
	if (!e)
		e = enter_added(&t, added, why);
	if (!e)
		e = fill(&t, v, why);
	free(t.entries);
	return e == ERR_nomem ? err_why(why, e, "no memory for a vocabulary") : e;
}

/* The id of the word that n bytes of text spell. */
static uint32_t find(const struct vocabulary *v, const char *text, size_t n)
{
	const char *end = text + n;
	uint8_t word[TOKENIZER_TOKEN_MAX];
	size_t len = 0;
	while (text < end)
		if (len == sizeof word || !bytechar_get(&text, end, &word[len++]))
			return VOCABULARY_NONE;
	return vocabulary_find(v, word, len);
}

enum err hfwords_merge(struct vocabulary *v, const char *text, size_t n, struct why *why)
{
	const char *space = memchr(text, ' ', n);
	uint32_t left = VOCABULARY_NONE, right = left;
	if (space) {
		left = find(v, text, (size_t)(space - text));
		right = find(v, space + 1, (size_t)(text + n - space - 1));
	}
	if (left == VOCABULARY_NONE || right == VOCABULARY_NONE)
		return err_why(why, ERR_syntax,
			"merge %u, \"%.*s\", is not two words of the vocabulary with a space "
			"between them",
			v->n_merges, (int)(n < 80 ? n : 80), text);
	return vocabulary_add_merge(v, left, right)
		       ? err_why(why, ERR_nomem, "no memory for the merges")
		       : ERR_OK;
}
