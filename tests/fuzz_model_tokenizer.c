/* A tokenizer file from anywhere, up to the first zero byte, then a text: what is read prints and
 * reads again as the same, and every text comes back from its ids. */
#include <stdlib.h>
#include <string.h>
#include "model/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tokenizer *t, const uint8_t *text, size_t n)
{
	struct tokens ids = {0};
	struct buf back;
	buf_init(&back, n);
	if (tokenizer_encode(t, text, n, &ids) || ids.len > n)
		abort();
	for (size_t i = 0; i < ids.len; i++)
		if (ids.id[i] >= tokenizer_vocab(t))
			abort();
	if (tokenizer_decode(t, ids.id, ids.len, &back, NULL) || back.len != n ||
		(n && memcmp(back.data, text, n) != 0))
		abort();
	buf_release(&back);
	free(ids.id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	size_t head = end ? (size_t)(end - data) : size;
	struct tokenizer *t = NULL, *again = NULL;
	struct why why = {0};
	enum err err = tokenizer_parse(data, head, &t, &why);
	if (err && (!why.text[0] || why.code != err || t))
		abort();
	if (err)
		return 0;
	const char *text = tokenizer_text(t);
	struct hash a = tokenizer_hash(t), b;
	if (tokenizer_parse(text, strlen(text), &again, NULL))
		abort();
	b = tokenizer_hash(again);
	if (!hash_equal(&a, &b) || tokenizer_vocab(t) > TOKENIZER_VOCAB_MAX)
		abort();
	use(again, data + head, size - head);
	tokenizer_free(again);
	tokenizer_free(t);
	return 0;
}
