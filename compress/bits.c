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

void bits_put_ones(struct bits_out *b, uint32_t n)
{
	for (; n >= 31; n -= 31)
		bits_put(b, UINT32_MAX, 31);
	bits_put(b, ((uint32_t)1 << n) - 1, n + 1);
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
	*b = (struct bits_in){.at = bytes, .end = bytes + n};
}

/* At least 32 bits held, unless the bytes end before. */
static void fill(struct bits_in *b)
{
	while (b->held <= 56 && b->at < b->end) {
		b->hold |= (uint64_t)*b->at++ << b->held;
		b->held += 8;
	}
}

uint32_t bits_get(struct bits_in *b, unsigned n)
{
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

uint32_t bits_get_ones(struct bits_in *b, uint32_t most)
{
	uint32_t n = 0;
	for (;;) {
		fill(b);
		// What is above the held bits is zero, so a run that fills them all ends at held.
		unsigned run = (unsigned)__builtin_ctzll(~b->hold | (uint64_t)1 << 63);
		if (run > b->held)
			run = b->held;
		n += run;
		if (n > most || (run == b->held && b->at == b->end)) {
			b->failed = true;
			return 0;
		}
		b->hold >>= run;
		b->held -= run;
		if (b->held > 0 && !(b->hold & 1))
			break;
	}
	b->hold >>= 1;
	b->held--;
	return n;
}

bool bits_in_done(const struct bits_in *b)
{
	return !b->failed && b->at == b->end && b->held < 8 && b->hold == 0;
}
