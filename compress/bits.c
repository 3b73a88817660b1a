#include "compress/bits.h"

void bits_out_init(struct bits_out *b, struct buf *to)
{
	*b = (struct bits_out){.to = to};
}

void bits_put(struct bits_out *b, uint32_t v, unsigned n)
{
	b->hold |= (v & (((uint64_t)1 << n) - 1)) << b->held;
	b->held += n;
	if (b->held < 32)
		return;
	buf_put_u32(b->to, (uint32_t)b->hold);
	b->hold >>= 32;
	b->held -= 32;
}

void bits_out_end(struct bits_out *b)
{
	for (; b->held > 0; b->held -= b->held < 8 ? b->held : 8) {
		buf_put_u8(b->to, (uint8_t)b->hold);
		b->hold >>= 8;
	}
}

void bits_in_init(struct bits_in *b, const uint8_t *bytes, size_t n)
{
	*b = (struct bits_in){.at = bytes, .end = n ? bytes + n : bytes}; // NULL may have none
}

/* At least 32 bits held, unless the bytes end before. */
static void fill(struct bits_in *b)
{
	if (b->end - b->at >= 8 && b->held < 32) {
		uint64_t next = 0;
		for (unsigned i = 0; i < 8; i++) // one load where that is the machine's order
			next |= (uint64_t)b->at[i] << 8 * i;
		b->hold |= next << b->held;
		unsigned bytes = (63 - b->held) / 8;
		b->at += bytes;
		b->held += 8 * bytes;
		// What was taken in part only is not held.
		b->hold &= ~(uint64_t)0 >> (64 - b->held);
		return;
	}
	while (b->held <= 56 && b->at < b->end) {
		b->hold |= (uint64_t)*b->at++ << b->held;
		b->held += 8;
	}
}

uint32_t bits_get(struct bits_in *b, unsigned n)
{
	if (b->held < n)
		fill(b);
	if (b->held < n) {
		b->failed = true;
		return 0;
	}
	uint32_t v = (uint32_t)(b->hold & (((uint64_t)1 << n) - 1));
	b->hold >>= n;
	b->held -= n;
	return v;
}

bool bits_in_done(const struct bits_in *b)
{
	return !b->failed && b->at == b->end && b->held < 8 && b->hold == 0;
}
