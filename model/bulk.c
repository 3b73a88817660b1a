#include "model/bulk.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "model/encoder.h"

#define TILE (1u << 18) /* many in a window, so that no thread waits long for the last */

struct tile {
	size_t at, n;
	struct tokens tokens; /* kept from one call to the next */
	enum err err;
};

struct bulk {
	struct pool *pool;
	struct encoder **encoders; /* one for each thread */
	struct tile *tiles;
	size_t n_tiles, cap_tiles;
	const uint8_t *bytes;
	size_t n;
	bulk_side *side;
	void *arg;
};

struct bulk *bulk_new(const struct tokenizer *t, struct pool *pool)
{
	struct bulk *b = alloc_must_zero(1, sizeof *b);
	unsigned threads = pool_threads(pool);
	b->pool = pool;
	b->encoders = alloc_must_zero(threads, sizeof(struct encoder *));
	for (unsigned i = 0; i < threads; i++) {
		b->encoders[i] = encoder_new(t);
		if (!b->encoders[i]) {
			bulk_free(b);
			return NULL;
		}
	}
	return b;
}

void bulk_free(struct bulk *b)
{
	if (!b)
		return;
	for (unsigned i = 0; i < pool_threads(b->pool); i++)
		encoder_free(b->encoders[i]);
	for (size_t i = 0; i < b->cap_tiles; i++)
		free(b->tiles[i].tokens.id);
	free(b->encoders);
	free(b->tiles);
	free(b);
}

static enum err add_tile(struct bulk *b, size_t at, size_t n)
{
	if (b->n_tiles == b->cap_tiles) {
		size_t cap = b->cap_tiles ? 2 * b->cap_tiles : 32;
		struct tile *tiles = alloc_try_resize(b->tiles, cap, sizeof *tiles);
		if (!tiles)
			return ERR_nomem;
		memset(tiles + b->cap_tiles, 0, (cap - b->cap_tiles) * sizeof *tiles);
		b->tiles = tiles;
		b->cap_tiles = cap;
	}
	struct tile *t = &b->tiles[b->n_tiles++];
	t->at = at;
	t->n = n;
	t->tokens.len = 0;
	return ERR_OK;
}

static enum err cut(struct bulk *b)
{
	b->n_tiles = 0;
	for (size_t at = 0, end; at < b->n; at = end) {
		end = b->n - at > TILE ? split_border(b->bytes, b->n, at + TILE) : b->n;
		if (add_tile(b, at, end - at))
			return ERR_nomem;
	}
	return ERR_OK;
}

/* Tile 0 is the side's, which takes longest. */
static void work(void *arg, size_t i, unsigned thread)
{
	struct bulk *b = arg;
	if (i == 0) {
		if (b->side)
			b->side(b->arg, b->bytes, b->n);
		return;
	}
	struct tile *t = &b->tiles[i - 1];
	t->err = encoder_put(b->encoders[thread], b->bytes + t->at, t->n, &t->tokens);
}

static enum err gather(const struct bulk *b, struct tokens *out)
{
	size_t more = 0;
	for (size_t i = 0; i < b->n_tiles; i++) {
		if (b->tiles[i].err)
			return b->tiles[i].err;
		more += b->tiles[i].tokens.len;
	}
	if (more > out->cap - out->len) {
		uint32_t *id = alloc_try_resize(out->id, out->len + more, sizeof *id);
		if (!id)
			return ERR_nomem;
		out->id = id;
		out->cap = out->len + more;
	}
	for (size_t i = 0; i < b->n_tiles; i++) {
		const struct tokens *t = &b->tiles[i].tokens;
		memcpy(out->id + out->len, t->id, t->len * sizeof *t->id);
		out->len += t->len;
	}
	return ERR_OK;
}

enum err bulk_encode(struct bulk *b, const uint8_t *bytes, size_t n, bulk_side *side, void *arg,
	struct tokens *out)
{
	b->bytes = bytes;
	b->n = n;
	b->side = side;
	b->arg = arg;
	if (cut(b))
		return ERR_nomem;
	pool_run(b->pool, b->n_tiles + 1, work, b);
	return gather(b, out);
}
