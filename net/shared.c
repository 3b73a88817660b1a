#include "net/shared.h"
#include "base/alloc.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct shared {
	atomic_uint owners;
	uint8_t *bytes;
	size_t len;
	struct hash name;
};

struct shared *shared_new(uint8_t *bytes, size_t n)
{
	struct shared *s = alloc_must_zero(1, sizeof *s);
	atomic_init(&s->owners, 1);
	s->bytes = bytes;
	s->len = n;
	s->name = hash_of(n ? bytes : (const uint8_t *)"", n);
	return s;
}

struct shared *shared_copy(const void *bytes, size_t n)
{
	if (!n)
		return shared_new(NULL, 0);
	return shared_new(memcpy(alloc_must(n), bytes, n), n);
}

struct shared *shared_hold(struct shared *s)
{
	atomic_fetch_add_explicit(&s->owners, 1, memory_order_relaxed);
	return s;
}

void shared_drop(struct shared *s)
{
	// The last owner must see what the others did before it frees.
	if (!s || atomic_fetch_sub_explicit(&s->owners, 1, memory_order_acq_rel) != 1)
		return;
	free(s->bytes);
	free(s);
}

const uint8_t *shared_data(const struct shared *s)
{
	return s->bytes;
}

size_t shared_len(const struct shared *s)
{
	return s->len;
}

const struct hash *shared_name(const struct shared *s)
{
	return &s->name;
}
