/* A tokenizer from whatever form a user has it in. */
#ifndef MODEL_TOKENIZER_OPEN_H
#define MODEL_TOKENIZER_OPEN_H
#include "base/err.h"
#include "model/tokenizer.h"

/* path is a tokenizer file of ours, a tokenizer.json, or a folder with tokenizer.json, with
 * encoder.json and vocab.bpe, or with vocab.json and merges.txt (the first of these that is there).
 * Every refusal names the file. */
enum err tokenizer_open(const char *path, struct tokenizer **out, struct why *why) MUST_CHECK;

#endif
