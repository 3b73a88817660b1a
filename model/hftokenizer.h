/*
 * Tokenizers in the files of Hugging Face's `tokenizers` library and of GPT-2's own code.
 *
 * tokenizer.json is written for every kind, and read where it is a byte-level BPE that splits by
 * GPT-2's expression, by Llama 3's, or by the one that we write for our own kinds; what else it
 * asks for is refused with the name of the member.  What is done around a text (post_processor:
 * marks before and behind it) is passed over, as text gets no marks here.  A file that we wrote and
 * read is written again byte for byte.
 *
 * Text that is UTF-8 gives the same ids in both, but in pieces that split.h ends (SPLIT_BPE_MAX,
 * SPLIT_PIECE_MAX), which the library goes on with.
 */
#ifndef MODEL_HFTOKENIZER_H
#define MODEL_HFTOKENIZER_H
#include "base/err.h"
#include "model/tokenizer.h"

#define HFTOKENIZER_FILE_MAX (32u << 20)

/* The content of tokenizer.json; the caller frees it.  ERR_unsupported when two ids stand for the
 * same text, which that format cannot say; ERR_nomem. */
enum err hftokenizer_print(const struct tokenizer *t, char **out, struct why *why) MUST_CHECK;
/* The tokenizer that the n bytes of a tokenizer.json describe. */
enum err hftokenizer_parse(
	const void *text, size_t n, struct tokenizer **out, struct why *why) MUST_CHECK;

/* GPT-2's two files: encoder.json (vocab.json) with the words, and vocab.bpe (merges.txt), a line
 * for each merge.  A word that is no byte and that no merge makes is a mark. */
struct hftokenizer_files {
	const void *words, *merges;
	size_t n_words, n_merges; /* bytes */
};
enum err hftokenizer_pair(
	const struct hftokenizer_files *f, struct tokenizer **out, struct why *why) MUST_CHECK;

/* The expressions of split.h's rules as that library wants them, by enum split. */
extern const char *const hftokenizer_patterns[SPLIT_RULES];

#endif
