#include "model/encoder.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/merges.h"
#include "model/tokenizer_in.h"

#define SLOTS (1u << 15)
#define KEY_MAX 22u
#define IDS_MAX 10u

/* One cache line.  A piece has one slot where it can be, and takes it from who was there. */
struct known {
	uint8_t len, n; /* bytes of the piece (0: the slot is free), ids */
	uint8_t key[KEY_MAX];
	uint32_t id[IDS_MAX];
};

struct encoder {
	const struct tokenizer *t;
	enum split rule;
	struct known *known;
};

struct encoder *encoder_new(const struct tokenizer *t)
{
	struct encoder *e = alloc_must_zero(1, sizeof *e);
	e->t = t;
	e->rule = tokenizer_split(t);
	e->known = alloc_try(SLOTS, sizeof *e->known);
	if (e->known)
		return e;
	free(e);
	return NULL;
}

void encoder_free(struct encoder *e)
{
	if (!e)
		return;
	free(e->known);
	free(e);
}

/* Three words cover a key. */
static struct known *slot_of(const struct encoder *e, const uint8_t *key, size_t n)
{
	uint64_t w[3] = {n, 0, 0}, h = 0;
	memcpy((uint8_t *)w + 2, key, n);
	for (unsigned i = 0; i < 3; i++)
		h = (h ^ w[i] ^ h >> 29) * 0x9e3779b97f4a7c15ull; /* 2^64 / golden ratio */
	return &e->known[h >> 49];
}

static enum err reserve(struct tokens *t, size_t more)
{
	if (more <= t->cap - t->len)
		return ERR_OK;
	if (more > SIZE_MAX / 16 - t->len)
		return ERR_nomem;
	size_t cap = t->len + more > 2 * t->cap ? t->len + more : 2 * t->cap;
	uint32_t *id = alloc_try_resize(t->id, cap, sizeof *id);
	if (!id)
		return ERR_nomem;
	t->id = id;
	t->cap = cap;
	return ERR_OK;
}

/* Makes the ids of a piece by the rules of the tokenizer; there is room for one a byte. */
static enum err make(
	const struct encoder *e, const uint8_t *piece, size_t len, uint32_t *id, size_t *n)
{
	if (e->t->ignore_merges && len <= TOKENIZER_TOKEN_MAX) {
		id[0] = vocabulary_find(&e->t->v, piece, len);
		*n = 1;
		if (id[0] != VOCABULARY_NONE)
			return ERR_OK;
	}
	for (size_t i = 0; i < len; i++)
		id[i] = e->t->byte_id[piece[i]];
	*n = len;
	return merges_apply(&e->t->pairs, id, n);
}

static enum err put_piece(
	const struct encoder *e, const uint8_t *piece, size_t len, uint32_t *id, size_t *n)
{
	if (len > KEY_MAX)
		return make(e, piece, len, id, n);
	struct known *k = slot_of(e, piece, len);
	if (k->len == len && !memcmp(k->key, piece, len)) {
		*n = k->n;
		memcpy(id, k->id, k->n * sizeof *id);
		return ERR_OK;
	}
	enum err err = make(e, piece, len, id, n);
	if (err || *n > IDS_MAX)
		return err;
	k->len = (uint8_t)len;
	k->n = (uint8_t)*n;
	memcpy(k->key, piece, len);
	memcpy(k->id, id, *n * sizeof *id);
	return ERR_OK;
}

enum err encoder_put(struct encoder *e, const void *bytes, size_t n, struct tokens *out)
{
	size_t before = out->len;
	if (reserve(out, n))
		return ERR_nomem;
	const uint8_t *from = bytes;
	if (e->t->kind == TOKENIZER_byte) {
		for (size_t i = 0; i < n; i++)
			out->id[out->len++] = from[i];
		return ERR_OK;
	}
	for (size_t at = 0, len; at < n; at += len) {
		size_t made;
		len = split_piece(e->rule, from + at, n - at, false);
		if (put_piece(e, from + at, len, out->id + out->len, &made)) {
			out->len = before;
			return ERR_nomem;
		}
		out->len += made;
	}
	return ERR_OK;
}
