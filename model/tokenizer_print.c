/* The canonical text of a tokenizer: members in the order of their names and no spaces, which is
 * what json_canonical gives. */
#include <stdlib.h>
#include "model/bytechar.h"
#include "model/tokenizer_in.h"

/* Bytes beyond ASCII stand in JSON as they are. */
static void put_quoted(struct buf *b, const uint8_t *text, size_t n)
{
	buf_put_u8(b, '"');
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '"' || text[i] == '\\')
			buf_put_u8(b, '\\');
		buf_put_u8(b, text[i]);
	}
	buf_put_u8(b, '"');
}

static void put_word(struct buf *b, const struct vocabulary *v, uint32_t id)
{
	size_t n;
	const uint8_t *word = vocabulary_word(v, id, &n);
	if (v->special[id]) {
		put_quoted(b, word, n);
		return;
	}
	struct buf named;
	buf_init(&named, 2 * TOKENIZER_TOKEN_MAX);
	bytechar_put(&named, word, n);
	put_quoted(b, named.data, named.len);
	b->failed |= !buf_ok(&named);
	buf_release(&named);
}

static void put_words(struct buf *b, const struct vocabulary *v)
{
	buf_printf(b, ",\"special\":[");
	bool first = true;
	for (uint32_t id = 0; id < v->n_words; id++) {
		if (!v->special[id])
			continue;
		buf_printf(b, "%s%u", first ? "" : ",", id);
		first = false;
	}
	buf_printf(b, "],\"words\":[");
	for (uint32_t id = 0; id < v->n_words; id++) {
		if (id)
			buf_put_u8(b, ',');
		put_word(b, v, id);
	}
	buf_put_u8(b, ']');
}

static void put_all(struct buf *b, const struct tokenizer *t)
{
	bool words = t->kind == TOKENIZER_gpt2 || t->kind == TOKENIZER_llama3;
	buf_put_u8(b, '{');
	if (words)
		buf_printf(b, "\"ignore_merges\":%s,", t->ignore_merges ? "true" : "false");
	buf_printf(b, "\"kind\":\"%s\"", tokenizer_names[t->kind]);
	for (uint32_t i = 0; i < t->v.n_merges; i++)
		buf_printf(b, "%s[%u,%u]", i ? "," : ",\"merges\":[", t->v.merges[i].left,
			t->v.merges[i].right);
	if (t->kind != TOKENIZER_byte)
		buf_printf(b, "%s", t->v.n_merges ? "]" : ",\"merges\":[]");
	buf_printf(b, ",\"shoal_tokenizer\":%d", TOKENIZER_VERSION);
	if (words)
		put_words(b, &t->v);
	buf_put_u8(b, '}');
	buf_put_u8(b, 0);
}

enum err tokenizer_print(struct tokenizer *t, struct why *why)
{
	struct buf b;
	buf_init(&b, TOKENIZER_FILE_MAX);
	put_all(&b, t);
	if (!buf_ok(&b)) {
		bool full = b.len > TOKENIZER_FILE_MAX / 2;
		buf_release(&b);
		return full ? err_why(why, ERR_toobig,
				      "the tokenizer's file would be larger than %u bytes",
				      TOKENIZER_FILE_MAX)
			    : err_why(why, ERR_nomem, "no memory for the tokenizer's file");
	}
	size_t len;
	t->text = (char *)buf_steal(&b, &len);
	t->hash = hash_of(t->text, len - 1);
	return ERR_OK;
}
