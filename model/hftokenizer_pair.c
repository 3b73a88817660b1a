/* GPT-2's two files. */
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/hftokenizer.h"
#include "model/hfwords.h"

/* The first line may say the version. */
static enum err read_merges(
	const struct hftokenizer_files *f, struct vocabulary *v, struct why *why)
{
	const char *at = f->merges, *end = f->n_merges ? at + f->n_merges : at;
	bool first = true;
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at)), *next;
		stop = stop ? stop : end;
		next = stop < end ? stop + 1 : end;
		if (stop > at && stop[-1] == '\r')
			stop--;
		size_t n = (size_t)(stop - at);
		bool version = first && n >= 8 && !memcmp(at, "#version", 8);
		if (v->n_merges == TOKENIZER_MERGES_MAX)
			return err_why(
				why, ERR_toobig, "more than %u merges", TOKENIZER_MERGES_MAX);
		enum err e = n && !version ? hfwords_merge(v, at, n, why) : ERR_OK;
		if (e)
			return e;
		at = next;
		first = false;
	}
	return ERR_OK;
}

/* What no text can give is a mark. */
static enum err find_marks(struct vocabulary *v, struct why *why)
{
	bool *made = alloc_try(v->n_words + 1u, sizeof *made);
	if (!made)
		return err_why(why, ERR_nomem, "no memory for a vocabulary");
	for (uint32_t i = 0; i < v->n_merges; i++) {
		uint8_t word[2 * TOKENIZER_TOKEN_MAX];
		size_t a, b;
		const uint8_t *left = vocabulary_word(v, v->merges[i].left, &a);
		memcpy(word, left, a);
		const uint8_t *right = vocabulary_word(v, v->merges[i].right, &b);
		memcpy(word + a, right, b);
		uint32_t id = vocabulary_find(v, word, a + b);
		if (id != VOCABULARY_NONE)
			made[id] = true;
	}
	for (uint32_t id = 0; id < v->n_words; id++)
		v->special[id] = !made[id] && v->at[id + 1] - v->at[id] > 1;
	free(made);
	return ERR_OK;
}

enum err hftokenizer_pair(
	const struct hftokenizer_files *f, struct tokenizer **out, struct why *why)
{
	json_t *doc;
	struct vocabulary v = {0};
	enum err e = json_parse(f->words, f->n_words, HFTOKENIZER_FILE_MAX, &doc, why);
	if (e)
		return e;
	e = hfwords_read(doc, NULL, &v, why);
	if (!e)
		e = read_merges(f, &v, why);
	if (!e)
		e = find_marks(&v, why);
	if (!e)
		e = tokenizer_new_words(TOKENIZER_gpt2, false, &v, out, why);
	vocabulary_release(&v);
	json_decref(doc);
	return e;
}
