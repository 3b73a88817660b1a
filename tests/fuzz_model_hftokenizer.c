/* A tokenizer.json from anywhere, or with a zero byte in it GPT-2's two files: what is read is a
 * tokenizer that prints and reads again as the same, in both forms. */
#include <stdlib.h>
#include <string.h>
#include "model/hftokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct tokenizer *t, const char *theirs)
{
	struct tokenizer *again = NULL;
	const char *text = tokenizer_text(t);
	if (tokenizer_parse(text, strlen(text), &again, NULL) ||
		strcmp(tokenizer_text(again), text) != 0)
		abort();
	tokenizer_free(again);
	if (!theirs)
		return;
	if (hftokenizer_parse(theirs, strlen(theirs), &again, NULL))
		abort();
	/* A bpe without merges is the bytes. */
	if (tokenizer_kind(again) == tokenizer_kind(t) && strcmp(tokenizer_text(again), text) != 0)
		abort();
	tokenizer_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	struct tokenizer *t = NULL;
	struct why why = {0};
	enum err e;
	if (end) {
		struct hftokenizer_files f = {.words = data,
			.n_words = (size_t)(end - data),
			.merges = end + 1,
			.n_merges = size - (size_t)(end - data) - 1};
		e = hftokenizer_pair(&f, &t, &why);
	} else {
		e = hftokenizer_parse(data, size, &t, &why);
	}
	if (e && (!why.text[0] || why.code != e || t))
		abort();
	if (e)
		return 0;
	char *theirs = NULL;
	e = hftokenizer_print(t, &theirs, &why);
	if (e && e != ERR_unsupported)
		abort();
	check_same(t, theirs);
	free(theirs);
	tokenizer_free(t);
	return 0;
}
