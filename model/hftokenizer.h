/*
 * Our tokenizer as Hugging Face's `tokenizers` library reads it: a BPE over GPT-2's printable
 * characters for bytes, split by a regular expression that says the rule of split.h.  Text that
 * is UTF-8 gives the same ids, except that they do not end a run of more than SPLIT_BPE_MAX
 * equal classes.
 */
#ifndef MODEL_HFTOKENIZER_H
#define MODEL_HFTOKENIZER_H
#include "base/err.h"
#include "model/tokenizer.h"

/* The content of tokenizer.json; the caller frees it.  ERR_unsupported when two ids stand for the
 * same bytes, which that format cannot say; ERR_nomem. */
enum err hftokenizer_print(const struct tokenizer *t, char **out, struct why *why) MUST_CHECK;

#endif
