/*
 * Memory.  Small things of our own sizing use alloc_must*, which ends the process with a message
 * when there is none.  Whatever is sized by the outside is bounded first and taken with alloc_try,
 * which may fail.  Free with free().
 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H
#include <stddef.h>
#include "base/err.h"

void *alloc_must(size_t bytes);                   /* not zeroed */
void *alloc_must_zero(size_t count, size_t each); /* zeroed; an overflowing product aborts */
void *alloc_must_resize(void *old, size_t count, size_t each);
char *alloc_must_strdup(const char *text);
char *alloc_must_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);

void *alloc_try(size_t count, size_t each) MUST_CHECK; /* zeroed; NULL on overflow or no memory */

/* As realloc, what is new is not zeroed; NULL on overflow or no memory, and old stays as it was. */
void *alloc_try_resize(void *old, size_t count, size_t each) MUST_CHECK;

/* Tests: the n-th following alloc_try* (from 1) in any thread fails; 0 switches it off. */
void alloc_fail_at(long n);
/* How many alloc_try* calls there were since alloc_fail_at was last called. */
long alloc_tries(void);

#endif
