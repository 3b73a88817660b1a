#include "model/hftokenizer.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json.h"

#define CHAR_ROOM 3 /* a code point below 0x800 in UTF-8, and its end */
#define LETTER "A-Za-z\\x{80}-\\x{10FFFF}"
#define SPACE "\\x20\\t\\n\\x0b\\x0c\\r"

/* Letters, digits and the rest, each with at most one space in front; white space that leaves its
 * last space to what follows; other white space. */
static const char pattern[] = " ?[" LETTER "]+| ?[0-9]+| ?[^" LETTER "0-9" SPACE "]+|[" SPACE
			      "]+(?= [^" SPACE "])|[" SPACE "]+";

/* GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and up. */
static void make_alphabet(char to[256][CHAR_ROOM])
{
	unsigned next = 256;
	for (unsigned b = 0; b < 256; b++) {
		bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
		unsigned c = printable ? b : next++;
		if (c < 0x80) {
			to[b][0] = (char)c;
			to[b][1] = 0;
		} else {
			to[b][0] = (char)(0xc0 | c >> 6);
			to[b][1] = (char)(0x80 | (c & 0x3f));
			to[b][2] = 0;
		}
	}
}

struct words {
	char (*text)[TOKENIZER_TOKEN_MAX * (CHAR_ROOM - 1) + 1];
	uint32_t n;
};

static enum err spell(const struct tokenizer *t, struct words *w, struct why *why)
{
	char alphabet[256][CHAR_ROOM];
	make_alphabet(alphabet);
	w->n = tokenizer_vocab(t);
	w->text = alloc_try(w->n, sizeof *w->text);
	if (!w->text)
		return err_why(why, ERR_nomem, "no memory for the words of the tokenizer");
	struct buf bytes;
	buf_init(&bytes, TOKENIZER_TOKEN_MAX);
	enum err err = ERR_OK;
	for (uint32_t id = 0; id < w->n && !err; id++) {
		buf_clear(&bytes);
		err = tokenizer_decode(t, &id, 1, &bytes, why);
		char *to = w->text[id];
		for (size_t i = 0; i < bytes.len && !err; i++) {
			const char *c = alphabet[bytes.data[i]];
			size_t n = strlen(c);
			memcpy(to, c, n);
			to += n;
		}
		*to = 0;
	}
	buf_release(&bytes);
	return err;
}

static enum err add_vocab(const struct words *w, json_t *vocab, struct why *why)
{
	for (uint32_t id = 0; id < w->n; id++) {
		if (json_object_get(vocab, w->text[id]))
			return err_why(why, ERR_unsupported,
				"two tokens stand for the same text (id %u and an earlier one): "
				"other "
				"tools cannot tell them apart; export without --data",
				id);
		if (json_object_set_new(vocab, w->text[id], json_integer(id)))
			return err_why(why, ERR_nomem, "no memory for the words of the tokenizer");
	}
	return ERR_OK;
}

static enum err add_merges(
	const struct tokenizer *t, const struct words *w, json_t *merges, struct why *why)
{
	json_t *doc = NULL, *pair;
	const char *text = tokenizer_text(t);
	enum err err = json_parse(text, strlen(text), TOKENIZER_FILE_MAX, &doc, why);
	size_t i;
	json_array_foreach(json_object_get(doc, "merges"), i, pair)
	{
		/* The tokenizer has checked them: both are below vocab. */
		const char *left = w->text[json_integer_value(json_array_get(pair, 0))];
		const char *right = w->text[json_integer_value(json_array_get(pair, 1))];
		json_t *both = json_sprintf("%s %s", left, right);
		if (json_array_append_new(merges, both) && !err)
			err = err_why(why, ERR_nomem, "no memory for the merges of the tokenizer");
	}
	json_decref(doc);
	return err;
}

static json_t *frame(json_t *vocab, json_t *merges)
{
	return json_pack(
		"{s:s, s:n, s:n, s:[], s:n, s:{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b, "
		"s:b}]},"
		" s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:O, s:O}}",
		"version", "1.0", "truncation", "padding", "added_tokens", "normalizer",
		"pre_tokenizer", "type", "Sequence", "pretokenizers", "type", "Split", "pattern",
		"Regex", pattern, "behavior", "Isolated", "invert", 0, "type", "ByteLevel",
		"add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0, "post_processor",
		"decoder", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
		"use_regex", 0, "model", "type", "BPE", "dropout", "unk_token",
		"continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback",
		0, "vocab", vocab, "merges", merges);
}

enum err hftokenizer_print(const struct tokenizer *t, char **out, struct why *why)
{
	struct words w = {0};
	json_t *vocab = json_object(), *merges = json_array();
	enum err err = spell(t, &w, why);
	if (!err)
		err = add_vocab(&w, vocab, why);
	if (!err)
		err = add_merges(t, &w, merges, why);
	json_t *doc = err ? NULL : frame(vocab, merges);
	*out = doc ? json_dumps(doc, JSON_INDENT(1)) : NULL;
	if (!err && !*out)
		err = err_why(why, ERR_nomem, "no memory to print the tokenizer");
	json_decref(doc);
	json_decref(merges);
	json_decref(vocab);
	free(w.text);
	return err;
}
