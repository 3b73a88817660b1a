#include "base/buf.h"
#include <string.h>

void rd_init(struct rd *r, const void *bytes, size_t n)
{
	// An empty input may come as NULL, on which no arithmetic is allowed.
	static const uint8_t nothing[1];
	r->at = bytes ? bytes : nothing;
	r->end = bytes ? r->at + n : nothing;
	r->failed = false;
}

bool rd_ok(const struct rd *r)
{
	return !r->failed;
}

bool rd_done(const struct rd *r)
{
	return !r->failed && r->at == r->end;
}

size_t rd_left(const struct rd *r)
{
	return r->failed ? 0 : (size_t)(r->end - r->at);
}

const uint8_t *rd_bytes(struct rd *r, size_t n)
{
	if (r->failed || n > (size_t)(r->end - r->at)) {
		r->failed = true;
		return NULL;
	}
	const uint8_t *at = r->at;
	r->at += n;
	return at;
}

void rd_copy(struct rd *r, void *to, size_t n)
{
	const uint8_t *from = rd_bytes(r, n);
	if (n == 0)
		return;
	if (from)
		memcpy(to, from, n);
	else
		memset(to, 0, n);
}

/* n bytes, the lowest first; 0 on failure. */
static uint64_t get_le(struct rd *r, size_t n)
{
	const uint8_t *at = rd_bytes(r, n);
	uint64_t v = 0;
	for (size_t i = 0; at && i < n; i++)
		v |= (uint64_t)at[i] << 8 * i;
	return v;
}

uint8_t rd_u8(struct rd *r)
{
	return (uint8_t)get_le(r, 1);
}

uint16_t rd_u16(struct rd *r)
{
	return (uint16_t)get_le(r, 2);
}

uint32_t rd_u32(struct rd *r)
{
	return (uint32_t)get_le(r, 4);
}

uint64_t rd_u64(struct rd *r)
{
	return get_le(r, 8);
}
