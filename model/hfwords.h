/* Words and merges as vocabulary files of GPT-2's kind spell them: in the printable names for bytes
 * of bytechar.h.  Every refusal is a sentence. */
#ifndef MODEL_HFWORDS_H
#define MODEL_HFWORDS_H
#include <jansson.h>
#include <stddef.h>
#include "base/err.h"
#include "model/vocabulary.h"

/* Fills the empty v with the words of {"word": id, ...} and, unless it is NULL, of Hugging Face's
 * list of added tokens, which become marks, and indexes it.  The ids must be 0, 1, 2, ... */
enum err hfwords_read(
	const json_t *words, const json_t *added, struct vocabulary *v, struct why *why) MUST_CHECK;
/* Adds the merge that the text of n bytes, two words with a space between them, says. */
enum err hfwords_merge(
	struct vocabulary *v, const char *text, size_t n, struct why *why) MUST_CHECK;

#endif
