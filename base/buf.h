/*
 * Bytes: a growing buffer with a maximum set at birth, and a reader that cannot leave its bounds.
 * Integers are little-endian with explicit width.  Failure is sticky: after the first one every
 * call does nothing, and buf_ok / rd_ok (checked once at the end) tell.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct buf {
	uint8_t *data;
	size_t len, cap, max;
	bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_release(struct buf *b); /* NULL-safe, idempotent */
void buf_clear(struct buf *b);   /* len 0, failure forgotten, memory kept */
bool buf_ok(const struct buf *b);
uint8_t *buf_grow(
	struct buf *b, size_t n); /* room for n more bytes, len advanced; NULL on failure */
void buf_put(struct buf *b, const void *bytes, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
/* A NUL follows the text but is not counted, so data is a string after it. */
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Caller frees; NULL when the buffer had failed; b is empty again either way. */
uint8_t *buf_steal(struct buf *b, size_t *len);

struct rd {
	const uint8_t *at, *end;
	bool failed;
};

void rd_init(struct rd *r, const void *bytes, size_t n); /* borrows bytes */
bool rd_ok(const struct rd *r);                          /* nothing failed so far */
bool rd_done(const struct rd *r);                        /* ok and nothing left */
size_t rd_left(const struct rd *r);
const uint8_t *rd_bytes(struct rd *r, size_t n); /* NULL and failed when fewer are left */
void rd_copy(struct rd *r, void *to, size_t n);  /* zero-fills on failure */
uint8_t rd_u8(struct rd *r);
uint16_t rd_u16(struct rd *r);
uint32_t rd_u32(struct rd *r);
uint64_t rd_u64(struct rd *r);

#endif
