#include "net/keytable.h"
#include "base/alloc.h"
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void keytable_release(struct keytable *t)
{
	free(t->keys);
	free(t->values);
	*t = (struct keytable){0};
}

/* Where key is, or would stand. */
static size_t place(const struct keytable *t, const uint8_t *key)
{
	size_t low = 0, high = t->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (memcmp(t->keys[mid], key, KEYTABLE_KEY) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_at(const struct keytable *t, size_t at, const uint8_t *key)
{
	return at < t->n && memcmp(t->keys[at], key, KEYTABLE_KEY) == 0;
}

void *keytable_find(const struct keytable *t, const uint8_t key[static KEYTABLE_KEY])
{
	size_t at = place(t, key);
	return is_at(t, at, key) ? t->values[at] : NULL;
}

void keytable_put(struct keytable *t, const uint8_t key[static KEYTABLE_KEY], void *value)
{
	size_t at = place(t, key);
	assert(!is_at(t, at, key));
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 16;
		t->keys = alloc_must_resize(t->keys, t->cap, sizeof *t->keys);
		t->values = alloc_must_resize(t->values, t->cap, sizeof *t->values);
	}
	memmove(t->keys + at + 1, t->keys + at, (t->n - at) * sizeof *t->keys);
	memmove(t->values + at + 1, t->values + at, (t->n - at) * sizeof *t->values);
	memcpy(t->keys[at], key, KEYTABLE_KEY);
	t->values[at] = value;
	t->n++;
}

void keytable_remove(struct keytable *t, const uint8_t key[static KEYTABLE_KEY])
{
	size_t at = place(t, key);
	assert(is_at(t, at, key));
	t->n--;
	memmove(t->keys + at, t->keys + at + 1, (t->n - at) * sizeof *t->keys);
	memmove(t->values + at, t->values + at + 1, (t->n - at) * sizeof *t->values);
}
