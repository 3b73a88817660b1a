/* A tokenizer from whatever form a user has it in. */
#ifndef MODEL_TOKENIZER_OPEN_H
#define MODEL_TOKENIZER_OPEN_H
#include <stdbool.h>
#include "base/err.h"
#include "model/tokenizer.h"

/* path is a tokenizer file of ours, a tokenizer.json, or a folder with tokenizer.json, with
 * encoder.json and vocab.bpe, or with vocab.json and merges.txt (the first of these that is there).
 * Every refusal names the file. */
enum err tokenizer_open(const char *path, struct tokenizer **out, struct why *why) MUST_CHECK;

/* Whether the folder has one of those, or the words of one without its merges. */
bool tokenizer_open_has(const char *folder);

#endif
