/*
 * One large mapping that is used as a whole: first touch of fresh pages is ten times slower than
 * warm memory, so big buffers are made once.  Huge pages are asked for.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct arena {
	uint8_t *base;
	size_t size;
};

enum err arena_init(struct arena *a, size_t size) MUST_CHECK; /* ERR_nomem; zeroed pages */
void arena_release(struct arena *a);

#endif
