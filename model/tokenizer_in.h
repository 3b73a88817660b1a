/* The inside of a tokenizer, for the files that make and use one; everybody else has tokenizer.h.
 */
#ifndef MODEL_TOKENIZER_IN_H
#define MODEL_TOKENIZER_IN_H
#include "model/pairs.h"
#include "model/tokenizer.h"

struct tokenizer {
	enum tokenizer_kind kind;
	bool ignore_merges;
	uint32_t byte_id[TOKENIZER_BYTES];
	struct vocabulary v; /* indexed in the kinds gpt2 and llama3 */
	struct pairs pairs;
	char *text;
	struct hash hash;
};

extern const char *const tokenizer_names[]; /* of the kinds, NULL-terminated */

/* Sets text and hash from the rest.  ERR_toobig, ERR_nomem. */
enum err tokenizer_print(struct tokenizer *t, struct why *why) MUST_CHECK;

#endif
