#include "model/hftokenizer.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json.h"
#include "model/bytechar.h"

#define LETTER "A-Za-z\\x{80}-\\x{10FFFF}"
#define SPACE "\\x20\\t\\n\\x0b\\x0c\\r"

const char *const hftokenizer_patterns[SPLIT_RULES] = {
	/* Letters, digits and the rest, each with at most one space in front; white space that
	 * leaves its last space to what follows; other white space. */
	[SPLIT_bpe] = " ?[" LETTER "]+| ?[0-9]+| ?[^" LETTER "0-9" SPACE "]+|[" SPACE
		      "]+(?= [^" SPACE "])|[" SPACE "]+",
	[SPLIT_gpt2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
		       "\\s+(?!\\S)|\\s+",
	[SPLIT_llama3] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
			 " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

/* The word of an id as the files spell it. */
static void spell(const struct vocabulary *v, uint32_t id, struct buf *out)
{
	size_t n;
	const uint8_t *word = vocabulary_word(v, id, &n);
	if (v->special[id])
		buf_put(out, word, n);
	else
		bytechar_put(out, word, n);
}

static enum err no_memory(struct why *why)
{
	return err_why(why, ERR_nomem, "no memory to print the tokenizer");
}

static enum err add_words(const struct vocabulary *v, json_t *words, struct why *why)
{
	struct buf text;
	buf_init(&text, 2 * TOKENIZER_TOKEN_MAX + 1);
	enum err e = ERR_OK;
	for (uint32_t id = 0; id < v->n_words && !e; id++) {
		buf_clear(&text);
		spell(v, id, &text);
		buf_put_u8(&text, 0);
		if (!buf_ok(&text))
			e = no_memory(why);
		else if (json_object_get(words, (char *)text.data))
			e = err_why(why, ERR_unsupported,
				"two tokens stand for the same text (id %u and an earlier one): "
				"other tools cannot tell them apart; export without --data",
				id);
		else if (json_object_set_new(words, (char *)text.data, json_integer(id)))
			e = no_memory(why);
	}
	buf_release(&text);
	return e;
}

static enum err add_merges(const struct vocabulary *v, json_t *merges, struct why *why)
{
	struct buf text;
	buf_init(&text, 4 * TOKENIZER_TOKEN_MAX + 2);
	enum err e = ERR_OK;
	for (uint32_t i = 0; i < v->n_merges && !e; i++) {
		buf_clear(&text);
		spell(v, v->merges[i].left, &text);
		buf_put_u8(&text, ' ');
		spell(v, v->merges[i].right, &text);
		if (!buf_ok(&text) ||
			json_array_append_new(merges, json_stringn((char *)text.data, text.len)))
			e = no_memory(why);
	}
	buf_release(&text);
	return e;
}

static enum err add_marks(const struct vocabulary *v, json_t *marks, struct why *why)
{
	for (uint32_t id = 0; id < v->n_words; id++) {
		size_t n;
		const char *word = (const char *)vocabulary_word(v, id, &n);
		if (!v->special[id])
			continue;
		json_t *mark = json_pack("{s:i, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (int)id,
			"content", word, n, "single_word", 0, "lstrip", 0, "rstrip", 0,
			"normalized", 0, "special", 1);
		if (json_array_append_new(marks, mark))
			return no_memory(why);
	}
	return ERR_OK;
}

static json_t *byte_level(int use_regex)
{
	return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
		"trim_offsets", 1, "use_regex", use_regex);
}

static json_t *pre_tokenizer(enum split rule)
{
	if (rule == SPLIT_gpt2)
		return byte_level(1);
	return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence",
		"pretokenizers", "type", "Split", "pattern", "Regex", hftokenizer_patterns[rule],
		"behavior", "Isolated", "invert", 0, byte_level(0));
}

/* Takes the three. */
static json_t *frame(const struct tokenizer *t, json_t *words, json_t *merges, json_t *marks)
{
	return json_pack(
		"{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o, s:{s:s, s:n, s:n, s:n, s:n, s:b, "
		"s:b, s:b, s:o, s:o}}",
		"version", "1.0", "truncation", "padding", "added_tokens", marks, "normalizer",
		"pre_tokenizer", pre_tokenizer(tokenizer_split(t)), "post_processor", "decoder",
		byte_level(0), "model", "type", "BPE", "dropout", "unk_token",
		"continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback",
		0, "ignore_merges", tokenizer_ignores_merges(t), "vocab", words, "merges", merges);
}

enum err hftokenizer_print(const struct tokenizer *t, char **out, struct why *why)
{
	const struct vocabulary *v = tokenizer_vocabulary(t);
	json_t *words = json_object(), *merges = json_array(), *marks = json_array();
	*out = NULL;
	enum err e = add_words(v, words, why);
	if (!e)
		e = add_merges(v, merges, why);
	if (!e)
		e = add_marks(v, marks, why);
	json_t *doc = e ? NULL : frame(t, words, merges, marks);
	if (e) {
		json_decref(words);
		json_decref(merges);
		json_decref(marks);
	}
	if (doc)
		*out = json_dumps(doc, JSON_INDENT(1));
	json_decref(doc);
	return e || *out ? e : no_memory(why);
}
