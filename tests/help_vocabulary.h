/* A byte-level vocabulary in the form of GPT-2's, but tiny: the bytes in GPT-2's order, a few
 * merges (two of which make the same word) and one mark. */
#ifndef TESTS_HELP_VOCABULARY_H
#define TESTS_HELP_VOCABULARY_H
#include <stdbool.h>
#include <string.h>
#include "base/buf.h"
#include "model/bytechar.h"
#include "model/vocabulary.h"

#define HELP_MARK "<|endoftext|>"

static const char *const help_merges[][2] = {{"t", "h"}, {"th", "e"}, {" ", "the"}, {"h", "e"},
	{" ", "t"}, {" t", "he"}, {"i", "n"}, {"in", "g"}, {"a", "a"}, {"aa", "aa"}, {" ", " "},
	{"1", "2"}, {"\xc3", "\xa9"}, {"'", "s"}};
#define HELP_MERGES (sizeof help_merges / sizeof *help_merges)
#define HELP_WORDS (256 + HELP_MERGES - 1 + 1)

static inline bool help_printable(unsigned b)
{
	return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

static inline uint32_t help_id(const struct vocabulary *v, const char *word)
{
	return vocabulary_find(v, word, strlen(word));
}

/* Indexed, with all merges; false: out of memory. */
static inline bool help_vocabulary(struct vocabulary *v)
{
	uint32_t twice;
	bool ok = true;
	*v = (struct vocabulary){0};
	for (unsigned i = 0; i < 512 && ok; i++) {
		uint8_t byte = (uint8_t)i;
		if (help_printable(byte) == (i < 256))
			ok = !vocabulary_add_word(v, &byte, 1, false);
	}
	for (size_t i = 0; i < HELP_MERGES && ok; i++) {
		char word[8];
		size_t a = strlen(help_merges[i][0]), b = strlen(help_merges[i][1]);
		memcpy(word, help_merges[i][0], a);
		memcpy(word + a, help_merges[i][1], b);
		if (i != 5)
			ok = !vocabulary_add_word(v, word, a + b, false);
	}
	ok = ok && !vocabulary_add_word(v, HELP_MARK, strlen(HELP_MARK), true) &&
	     !vocabulary_index(v, &twice);
	for (size_t i = 0; i < HELP_MERGES && ok; i++)
		ok = !vocabulary_add_merge(
			v, help_id(v, help_merges[i][0]), help_id(v, help_merges[i][1]));
	return ok;
}

static inline void help_put_word(struct buf *b, const struct vocabulary *v, uint32_t id)
{
	size_t n;
	const uint8_t *word = vocabulary_word(v, id, &n);
	bytechar_put(b, word, n);
}

/* As encoder.json and vocab.bpe. */
static inline void help_vocabulary_files(
	const struct vocabulary *v, struct buf *words, struct buf *merges)
{
	buf_init(words, 1 << 20);
	buf_init(merges, 1 << 20);
	for (uint32_t id = 0; id < v->n_words; id++) {
		char byte = (char)v->bytes[v->at[id]];
		bool quote = v->at[id + 1] - v->at[id] == 1 && (byte == '"' || byte == '\\');
		buf_printf(words, "%s\"%s", id ? ", " : "{", quote ? "\\" : "");
		help_put_word(words, v, id);
		buf_printf(words, "\": %u", id);
	}
	buf_printf(words, "}");
	buf_printf(merges, "#version: 0.2\n");
	for (uint32_t i = 0; i < v->n_merges; i++) {
		help_put_word(merges, v, v->merges[i].left);
		buf_put_u8(merges, ' ');
		help_put_word(merges, v, v->merges[i].right);
		buf_put_u8(merges, '\n');
	}
}

#endif
