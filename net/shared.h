/*
 * Immutable bytes with their SHA-256 that several owners hold: one update goes to all peers without
 * being copied.  Any thread may hold and drop.
 */
#ifndef NET_SHARED_H
#define NET_SHARED_H
#include <stddef.h>
#include <stdint.h>
#include "base/hash.h"

struct shared; /* opaque: the count is inside */

/* Takes bytes (from malloc; NULL when n is 0) and hashes them; one reference for the caller. */
struct shared *shared_new(uint8_t *bytes, size_t n);
struct shared *shared_copy(const void *bytes, size_t n); /* aborts when there is no memory */
struct shared *shared_hold(struct shared *s);            /* one more reference; returns s */
void shared_drop(struct shared *s);                      /* NULL-safe */
const uint8_t *shared_data(const struct shared *s);
size_t shared_len(const struct shared *s);
const struct hash *shared_name(const struct shared *s);

#endif
