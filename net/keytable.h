/* Pointers by 32-byte key, in the order of keys: found by halving, put and taken out by moving the
 * rest, which is cheap for the ten thousand keys of a roster. */
#ifndef NET_KEYTABLE_H
#define NET_KEYTABLE_H
#include <stddef.h>
#include <stdint.h>

#define KEYTABLE_KEY 32

struct keytable {
	uint8_t (*keys)[KEYTABLE_KEY];
	void **values;
	size_t n, cap;
};

void keytable_release(struct keytable *t); /* not what the values point to */
void *keytable_find(const struct keytable *t, const uint8_t key[static KEYTABLE_KEY]); /* or NULL */
/* The key must not be there yet. */
void keytable_put(struct keytable *t, const uint8_t key[static KEYTABLE_KEY], void *value);
void keytable_remove(
	struct keytable *t, const uint8_t key[static KEYTABLE_KEY]); /* must be there */

#endif
