#include "model/vocabulary.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/rng.h"

void vocabulary_release(struct vocabulary *v)
{
	if (!v)
		return;
	free(v->bytes);
	free(v->at);
	free(v->special);
	free(v->merges);
	free(v->slots);
	*v = (struct vocabulary){0};
}

static bool reserve(void **array, size_t *cap, size_t need, size_t each)
{
	if (need <= *cap)
		return true;
	size_t to = need > 2 * *cap ? need : 2 * *cap;
	void *moved = alloc_try_resize(*array, to, each);
	if (!moved)
		return false;
	*array = moved;
	*cap = to;
	return true;
}

const uint8_t *vocabulary_word(const struct vocabulary *v, uint32_t id, size_t *n)
{
	*n = v->at[id + 1] - v->at[id];
	return v->bytes + v->at[id];
}

/* ---- words by their bytes */

static size_t slot_of(const struct vocabulary *v, const uint8_t *bytes, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ull ^ v->secret; /* FNV-1a */
	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * 0x100000001b3ull;
	size_t s = (h ^ h >> 32) & (v->n_slots - 1), len;
	for (; v->slots[s]; s = (s + 1) & (v->n_slots - 1)) {
		const uint8_t *word = vocabulary_word(v, v->slots[s] - 1, &len);
		if (len == n && !memcmp(word, bytes, n))
			break;
	}
	return s;
}

enum err vocabulary_index(struct vocabulary *v, uint32_t *twice)
{
	free(v->slots);
	for (v->n_slots = 1024; v->n_slots < 2 * (size_t)v->n_words;)
		v->n_slots *= 2;
	rng_secret(&v->secret, sizeof v->secret);
	v->slots = alloc_try(v->n_slots, sizeof *v->slots);
	if (!v->slots)
		return ERR_nomem;
	for (uint32_t id = 0; id < v->n_words; id++) {
		size_t n;
		const uint8_t *word = vocabulary_word(v, id, &n);
		if (v->special[id])
			continue;
		size_t slot = slot_of(v, word, n);
		*twice = id;
		if (v->slots[slot])
			return ERR_duplicate;
		v->slots[slot] = id + 1;
	}
	return ERR_OK;
}

uint32_t vocabulary_find(const struct vocabulary *v, const void *bytes, size_t n)
{
	uint32_t found = v->slots[slot_of(v, bytes, n)];
	return found ? found - 1 : VOCABULARY_NONE;
}

/* ---- filling in */

enum err vocabulary_add_word(struct vocabulary *v, const void *bytes, size_t n, bool special)
{
	size_t have = v->n_words ? v->at[v->n_words] : 0, caps[] = {v->cap_words, v->cap_words};
	if (have + n > UINT32_MAX || !reserve((void **)&v->bytes, &v->cap_bytes, have + n, 1) ||
		!reserve((void **)&v->special, &caps[0], v->n_words + 2u, sizeof *v->special) ||
		!reserve((void **)&v->at, &caps[1], v->n_words + 2u, sizeof *v->at))
		return ERR_nomem;
	v->cap_words = caps[1];
	if (n)
		memcpy(v->bytes + have, bytes, n);
	v->at[v->n_words] = (uint32_t)have;
	v->at[v->n_words + 1] = (uint32_t)(have + n);
	v->special[v->n_words++] = special;
	return ERR_OK;
}

enum err vocabulary_add_merge(struct vocabulary *v, uint32_t left, uint32_t right)
{
	if (!reserve((void **)&v->merges, &v->cap_merges, v->n_merges + 1u, sizeof *v->merges))
		return ERR_nomem;
	v->merges[v->n_merges++] = (struct tokenizer_merge){left, right};
	return ERR_OK;
}
