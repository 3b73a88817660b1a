#include "base/alloc.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long tries;
static atomic_long fail_at;

static void *must(void *got, size_t bytes)
{
	if (!got) {
		fprintf(stderr, "out of memory: the system refused %zu bytes\n", bytes);
		abort();
	}
	return got;
}

/* A size of 0 still gives a pointer, so that NULL always means failure. */
static size_t product(size_t count, size_t each)
{
	size_t bytes = 0;
	if (__builtin_mul_overflow(count, each, &bytes))
		return SIZE_MAX;
	return bytes ? bytes : 1;
}

void *alloc_must(size_t bytes)
{
	return must(malloc(product(bytes, 1)), bytes);
}

void *alloc_must_zero(size_t count, size_t each)
{
	size_t bytes = product(count, each);
	return must(bytes == SIZE_MAX ? NULL : calloc(1, bytes), bytes);
}

void *alloc_must_resize(void *old, size_t count, size_t each)
{
	size_t bytes = product(count, each);
	return must(bytes == SIZE_MAX ? NULL : realloc(old, bytes), bytes);
}

char *alloc_must_strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	return memcpy(alloc_must(bytes), text, bytes);
}

char *alloc_must_printf(const char *fmt, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, fmt);
	int n = vasprintf(&text, fmt, args);
	va_end(args);
	return must(n < 0 ? NULL : text, strlen(fmt));
}

/* Counts the call and tells whether a test wants it to fail. */
static bool refused(void)
{
	return atomic_fetch_add(&tries, 1) + 1 == atomic_load(&fail_at);
}

void *alloc_try(size_t count, size_t each)
{
	size_t bytes = product(count, each);
	if (refused() || bytes == SIZE_MAX)
		return NULL;
	return calloc(1, bytes);
}

void *alloc_try_resize(void *old, size_t count, size_t each)
{
	size_t bytes = product(count, each);
	if (refused() || bytes == SIZE_MAX)
		return NULL;
	return realloc(old, bytes);
}

void alloc_fail_at(long n)
{
	atomic_store(&fail_at, n);
	atomic_store(&tries, 0);
}

long alloc_tries(void)
{
	return atomic_load(&tries);
}
