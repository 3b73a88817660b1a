#include "model/bpe.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/alloc.h"

#define NONE UINT32_MAX
#define PROGRESS_EVERY 64u

/* A different piece of the text: its ids and how often it came. */
struct piece {
	uint32_t at, len; /* in symbols */
	uint64_t count;
};

/* Two neighbouring ids.  Its places are a list of the pieces where it was at some time: a piece may
 * have lost it since. */
struct pair {
	uint32_t key;   /* left << 16 | right */
	uint32_t place; /* the first of its list, or NONE */
	uint64_t count;
};

struct place {
	uint32_t piece, next;
};

/* A pair with the count that it had when it was queued; counts only fall, so the true one is never
 * higher. */
struct queued {
	uint64_t count;
	uint32_t key, pair;
};

/* Open addressing over items that a number names; slots hold number + 1, or 0. */
struct table {
	uint32_t *slots;
	size_t n_slots; /* a power of two, or 0 */
};

struct bpe {
	struct piece *pieces;
	size_t n_pieces, cap_pieces;
	uint16_t *symbols;
	size_t n_symbols, cap_symbols;
	struct table piece_table;
	struct pair *pairs;
	size_t n_pairs, cap_pairs;
	struct table pair_table;
	struct place *places;
	size_t n_places, cap_places;
	struct queued *queue; /* a binary heap, the best first */
	size_t n_queue, cap_queue;
};

struct bpe *bpe_new(void)
{
	return alloc_try(1, sizeof(struct bpe));
}

void bpe_free(struct bpe *b)
{
	if (!b)
		return;
	free(b->pieces);
	free(b->symbols);
	free(b->piece_table.slots);
	free(b->pairs);
	free(b->pair_table.slots);
	free(b->places);
	free(b->queue);
	free(b);
}

/* Room for more items behind the n of an array; the array may move. */
static bool reserve(void **array, size_t *cap, size_t n, size_t more, size_t each)
{
	if (more <= *cap - n)
		return true;
	size_t to = *cap ? 2 * *cap : 1024;
	if (to < n + more)
		to = n + more;
	void *moved = alloc_try_resize(*array, to, each);
	if (!moved)
		return false;
	*array = moved;
	*cap = to;
	return true;
}

/* ---- pieces */

static uint64_t hash_bytes(const uint8_t *bytes, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */
	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static uint64_t hash_key(uint32_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 32;
}

static bool same(const struct bpe *b, const struct piece *p, const uint8_t *bytes, size_t n)
{
	if (p->len != n)
		return false;
	const uint16_t *s = b->symbols + p->at;
	for (size_t i = 0; i < n; i++)
		if (s[i] != bytes[i])
			return false;
	return true;
}

static size_t piece_slot(const struct bpe *b, const uint8_t *bytes, size_t n)
{
	const struct table *t = &b->piece_table;
	size_t s = hash_bytes(bytes, n) & (t->n_slots - 1);
	while (t->slots[s] && !same(b, &b->pieces[t->slots[s] - 1], bytes, n))
		s = (s + 1) & (t->n_slots - 1);
	return s;
}

static uint64_t piece_hash(const struct bpe *b, size_t item)
{
	uint8_t bytes[SPLIT_BPE_MAX];
	const struct piece *p = &b->pieces[item];
	for (uint32_t i = 0; i < p->len; i++)
		bytes[i] = (uint8_t)b->symbols[p->at + i];
	return hash_bytes(bytes, p->len);
}

static uint64_t pair_hash(const struct bpe *b, size_t item)
{
	return hash_key(b->pairs[item].key);
}

/* Keeps a table at most half full; there are n items in it. */
static bool widen(const struct bpe *b, struct table *t, size_t n,
	uint64_t (*hash)(const struct bpe *b, size_t item))
{
	if (2 * (n + 1) <= t->n_slots)
		return true;
	size_t n_slots = t->n_slots ? 4 * t->n_slots : 4096;
	uint32_t *slots = alloc_try(n_slots, sizeof *slots);
	if (!slots)
		return false;
	for (size_t i = 0; i < n; i++) {
		size_t s = hash(b, i) & (n_slots - 1);
		while (slots[s])
			s = (s + 1) & (n_slots - 1);
		slots[s] = (uint32_t)i + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	return true;
}

static enum err count_piece(struct bpe *b, const uint8_t *bytes, size_t n)
{
	if (!widen(b, &b->piece_table, b->n_pieces, piece_hash))
		return ERR_nomem;
	size_t slot = piece_slot(b, bytes, n);
	uint32_t found = b->piece_table.slots[slot];
	if (found) {
		b->pieces[found - 1].count++;
		return ERR_OK;
	}
	if (b->n_pieces == BPE_PIECES_MAX || n > BPE_SYMBOLS_MAX - b->n_symbols)
		return ERR_OK;
	if (!reserve((void **)&b->pieces, &b->cap_pieces, b->n_pieces, 1, sizeof *b->pieces) ||
		!reserve(
			(void **)&b->symbols, &b->cap_symbols, b->n_symbols, n, sizeof *b->symbols))
		return ERR_nomem;
	b->pieces[b->n_pieces] =
		(struct piece){.at = (uint32_t)b->n_symbols, .len = (uint32_t)n, .count = 1};
	for (size_t i = 0; i < n; i++)
		b->symbols[b->n_symbols++] = bytes[i];
	b->piece_table.slots[slot] = (uint32_t)++b->n_pieces;
	return ERR_OK;
}

enum err bpe_add(struct bpe *b, const void *bytes, size_t n)
{
	const uint8_t *from = bytes;
	for (size_t at = 0, len; at < n; at += len) {
		len = split_piece(SPLIT_bpe, from + at, n - at, false);
		if (len > 1 && count_piece(b, from + at, len))
			return ERR_nomem;
	}
	return ERR_OK;
}

/* ---- pairs */

static uint32_t key_of(uint16_t left, uint16_t right)
{
	return (uint32_t)left << 16 | right;
}

static size_t pair_slot(const struct bpe *b, uint32_t key)
{
	const struct table *t = &b->pair_table;
	size_t s = hash_key(key) & (t->n_slots - 1);
	while (t->slots[s] && b->pairs[t->slots[s] - 1].key != key)
		s = (s + 1) & (t->n_slots - 1);
	return s;
}

/* The pair's number, made if it was not there; NONE without memory. */
static uint32_t pair_get(struct bpe *b, uint32_t key)
{
	if (!widen(b, &b->pair_table, b->n_pairs, pair_hash) ||
		!reserve((void **)&b->pairs, &b->cap_pairs, b->n_pairs, 1, sizeof *b->pairs))
		return NONE;
	size_t slot = pair_slot(b, key);
	if (!b->pair_table.slots[slot]) {
		b->pairs[b->n_pairs] = (struct pair){.key = key, .place = NONE};
		b->pair_table.slots[slot] = (uint32_t)++b->n_pairs;
	}
	return b->pair_table.slots[slot] - 1;
}

/* Notes the piece as a place of the pair, once. */
static bool pair_place(struct bpe *b, struct pair *p, uint32_t piece)
{
	if (p->place != NONE && b->places[p->place].piece == piece)
		return true;
	if (!reserve((void **)&b->places, &b->cap_places, b->n_places, 1, sizeof *b->places))
		return false;
	b->places[b->n_places] = (struct place){.piece = piece, .next = p->place};
	p->place = (uint32_t)b->n_places++;
	return true;
}

/* Adds the piece's pairs to the counts.  Only pairs with the id fresh can be new to the piece
 * (NONE: all are). */
static enum err pairs_add(struct bpe *b, uint32_t piece, uint32_t fresh)
{
	const struct piece *p = &b->pieces[piece];
	const uint16_t *s = b->symbols + p->at;
	for (uint32_t i = 0; i + 1 < p->len; i++) {
		uint32_t k = pair_get(b, key_of(s[i], s[i + 1]));
		if (k == NONE)
			return ERR_nomem;
		b->pairs[k].count += p->count;
		if (fresh != NONE && s[i] != fresh && s[i + 1] != fresh)
			continue;
		if (!pair_place(b, &b->pairs[k], piece))
			return ERR_nomem;
	}
	return ERR_OK;
}

static void pairs_take(struct bpe *b, const struct piece *p)
{
	const uint16_t *s = b->symbols + p->at;
	for (uint32_t i = 0; i + 1 < p->len; i++) {
		size_t slot = pair_slot(b, key_of(s[i], s[i + 1]));
		b->pairs[b->pair_table.slots[slot] - 1].count -= p->count;
	}
}

/* ---- the queue */

static bool better(const struct queued *a, const struct queued *b)
{
	return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static enum err queue_push(struct bpe *b, uint32_t pair)
{
	const struct pair *p = &b->pairs[pair];
	if (p->count < 2)
		return ERR_OK;
	if (!reserve((void **)&b->queue, &b->cap_queue, b->n_queue, 1, sizeof *b->queue))
		return ERR_nomem;
	struct queued q = {.count = p->count, .key = p->key, .pair = pair};
	size_t i = b->n_queue++;
	for (; i > 0 && better(&q, &b->queue[(i - 1) / 2]); i = (i - 1) / 2)
		b->queue[i] = b->queue[(i - 1) / 2];
	b->queue[i] = q;
	return ERR_OK;
}

static struct queued queue_pop(struct bpe *b)
{
	struct queued top = b->queue[0], q = b->queue[--b->n_queue];
	size_t i = 0;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= b->n_queue)
			break;
		if (child + 1 < b->n_queue && better(&b->queue[child + 1], &b->queue[child]))
			child++;
		if (!better(&b->queue[child], &q))
			break;
		b->queue[i] = b->queue[child];
		i = child;
	}
	b->queue[i] = q;
	return top;
}

/* The most frequent pair; one whose count has fallen goes back with the true one. */
static enum err queue_best(struct bpe *b, uint32_t *pair)
{
	*pair = NONE;
	while (b->n_queue && *pair == NONE) {
		struct queued q = queue_pop(b);
		if (b->pairs[q.pair].count == q.count)
			*pair = q.pair;
		else if (queue_push(b, q.pair))
			return ERR_nomem;
	}
	return ERR_OK;
}

/* ---- merging */

/* Puts id in place of the pair, from left to right. */
static void rewrite(struct bpe *b, struct piece *p, uint32_t key, uint16_t id)
{
	uint16_t *s = b->symbols + p->at;
	uint32_t to = 0;
	for (uint32_t from = 0; from < p->len; to++) {
		bool here = from + 1 < p->len && key_of(s[from], s[from + 1]) == key;
		s[to] = here ? id : s[from];
		from += here ? 2 : 1;
	}
	p->len = to;
}

static bool has_pair(const struct bpe *b, const struct piece *p, uint32_t key)
{
	const uint16_t *s = b->symbols + p->at;
	for (uint32_t i = 0; i + 1 < p->len; i++)
		if (key_of(s[i], s[i + 1]) == key)
			return true;
	return false;
}

static enum err merge(struct bpe *b, uint32_t pair, uint16_t id)
{
	uint32_t key = b->pairs[pair].key;
	size_t known = b->n_pairs;
	for (uint32_t at = b->pairs[pair].place; at != NONE; at = b->places[at].next) {
		uint32_t piece = b->places[at].piece;
		if (!has_pair(b, &b->pieces[piece], key))
			continue;
		pairs_take(b, &b->pieces[piece]);
		rewrite(b, &b->pieces[piece], key, id);
		enum err e = pairs_add(b, piece, id);
		if (e)
			return e;
	}
	/* Pairs that were there before only lost: the queue finds out by itself. */
	for (size_t i = known; i < b->n_pairs; i++)
		if (queue_push(b, (uint32_t)i))
			return ERR_nomem;
	return ERR_OK;
}

static enum err start(struct bpe *b)
{
	for (size_t i = 0; i < b->n_pieces; i++)
		if (pairs_add(b, (uint32_t)i, NONE))
			return ERR_nomem;
	for (size_t i = 0; i < b->n_pairs; i++)
		if (queue_push(b, (uint32_t)i))
			return ERR_nomem;
	return ERR_OK;
}

/* Merges once; *m stays as it was when no pair occurs twice. */
static enum err step(struct bpe *b, uint32_t id, struct tokenizer_merge *m)
{
	uint32_t pair;
	enum err e = queue_best(b, &pair);
	if (e || pair == NONE)
		return e;
	uint32_t key = b->pairs[pair].key;
	*m = (struct tokenizer_merge){.left = key >> 16, .right = key & 0xffff};
	return merge(b, pair, (uint16_t)id);
}

enum err bpe_train(
	struct bpe *b, uint32_t vocab, bpe_progress *progress, void *arg, struct tokenizer **out)
{
	assert(vocab >= TOKENIZER_BYTES && vocab <= TOKENIZER_BPE_VOCAB_MAX);
	uint32_t wanted = vocab - TOKENIZER_BYTES;
	struct tokenizer_merge *merges = alloc_try(wanted + 1u, sizeof *merges);
	if (!merges)
		return ERR_nomem;
	enum err e = start(b);
	uint32_t n = 0;
	while (!e && n < wanted && b->n_queue) {
		merges[n].left = NONE;
		e = step(b, TOKENIZER_BYTES + n, &merges[n]);
		n += merges[n].left != NONE;
		if (progress && n % PROGRESS_EVERY == 0)
			progress(arg, n, wanted);
	}
	if (!e)
		e = tokenizer_new_bpe(merges, n, out, NULL);
	free(merges);
	return e;
}
