#include "base/buf.h"
#include "base/alloc.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAP_LEAST 64u

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_release(struct buf *b)
{
	if (!b)
		return;
	free(b->data);
	buf_init(b, b->max);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

bool buf_ok(const struct buf *b)
{
	return !b->failed;
}

/* Room for n more bytes within the maximum, and for one more beyond it: printf's final NUL. */
static bool reserve(struct buf *b, size_t n)
{
	if (b->failed || n > b->max - b->len || b->max == SIZE_MAX) {
		b->failed = true;
		return false;
	}
	size_t need = b->len + n + 1;
	if (need <= b->cap)
		return true;
	size_t cap = b->cap > b->max / 2 ? b->max + 1 : b->cap * 2;
	if (cap < need)
		cap = need;
	if (cap < CAP_LEAST)
		cap = CAP_LEAST;
	uint8_t *data = alloc_try_resize(b->data, cap, 1);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

uint8_t *buf_grow(struct buf *b, size_t n)
{
	if (!reserve(b, n))
		return NULL;
	uint8_t *at = b->data + b->len;
	b->len += n;
	return at;
}

void buf_put(struct buf *b, const void *bytes, size_t n)
{
	uint8_t *at = buf_grow(b, n);
	if (at && n)
		memcpy(at, bytes, n);
}

/* The low n bytes of v, the lowest first. */
static void put_le(struct buf *b, uint64_t v, size_t n)
{
	uint8_t *at = buf_grow(b, n);
	for (size_t i = 0; at && i < n; i++)
		at[i] = (uint8_t)(v >> 8 * i);
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	put_le(b, v, 1);
}

void buf_put_u16(struct buf *b, uint16_t v)
{
	put_le(b, v, 2);
}

void buf_put_u32(struct buf *b, uint32_t v)
{
	put_le(b, v, 4);
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	put_le(b, v, 8);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		b->failed = true;
	else if (reserve(b, (size_t)n)) {
		vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

uint8_t *buf_steal(struct buf *b, size_t *len)
{
	uint8_t *data = NULL;
	*len = 0;
	if (reserve(b, 0)) {
		data = b->data;
		*len = b->len;
		b->data = NULL;
	}
	buf_release(b);
	return data;
}
