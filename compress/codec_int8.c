#include "compress/codec.h"
#include "compress/floats.h"

/*
 * Blocks of 1024 values, each with a scale: the largest magnitude / 127.  A block whose scale would
 * be subnormal, where a quotient is no longer near what it should be, is sent as zeros: the values
 * stay in the error feedback.
 */
#define BLOCK 1024u
/* The largest float whose 127-fold is finite. */
#define SCALE_MAX 0x7c010203u

static size_t blocks(size_t n)
{
	return (n + BLOCK - 1) / BLOCK;
}

static size_t block_len(size_t n, size_t block)
{
	size_t left = n - block * BLOCK;
	return left < BLOCK ? left : BLOCK;
}

static size_t bound(const struct codec_params *p, size_t n)
{
	(void)p;
	return 4 * blocks(n) + n;
}

/* As bits; 0 for a block of zeros. */
static uint32_t scale_of(const float *v, size_t n)
{
	uint32_t largest = 0;
	for (size_t i = 0; i < n; i++)
		if (floats_magnitude(v[i]) > largest)
			largest = floats_magnitude(v[i]);
	uint32_t scale = floats_bits(floats_from(largest) / 127.0f);
	if (scale < FLOATS_NORMAL)
		return 0;
	return scale < SCALE_MAX ? scale : SCALE_MAX;
}

/* The nearest multiple of the scale, a half away from zero. */
static uint8_t code_of(float v, float scale)
{
	double q = (double)v / (double)scale;
	int code = (int)(q + (q < 0 ? -0.5 : 0.5));
	if (code > 127)
		code = 127;
	if (code < -127)
		code = -127;
	return (uint8_t)code;
}

static enum err encode(const struct codec_params *p, const float *v, size_t n, struct planes *to)
{
	(void)p;
	for (size_t b = 0; b < blocks(n); b++)
		buf_put_u32(&to->bytes, scale_of(v + b * BLOCK, block_len(n, b)));
	planes_end(to);
	uint8_t *code = buf_grow(&to->bytes, n);
	for (size_t b = 0; b < blocks(n) && code; b++) {
		float scale = floats_from(scale_of(v + b * BLOCK, block_len(n, b)));
		for (size_t i = b * BLOCK; i < b * BLOCK + block_len(n, b); i++)
			code[i] = scale > 0 ? code_of(v[i], scale) : 0;
	}
	planes_end(to);
	return ERR_OK;
}

static enum err decode_block(
	uint32_t scale, const uint8_t *code, size_t n, float *out, struct why *why)
{
	bool zero = scale == 0;
	if (!zero && (scale < FLOATS_NORMAL || scale > SCALE_MAX))
		return err_why(why, scale >= FLOATS_INFINITE ? ERR_not_finite : ERR_syntax,
			"a scale is not a normal number from 0 to a 127th of the largest");
	int largest = 0;
	for (size_t i = 0; i < n; i++) {
		int q = code[i] < 128 ? code[i] : code[i] - 256;
		out[i] = (float)q * floats_from(scale);
		if (q < 0)
			q = -q;
		if (q > largest)
			largest = q;
	}
	if (largest != (zero ? 0 : 127))
		return err_why(why, ERR_syntax,
			"the largest code of a block is %d, not what its scale says", largest);
	return ERR_OK;
}

static enum err decode(const struct codec_params *p, size_t n, struct rd *from, struct decoded *out,
	struct why *why)
{
	if (rd_left(from) < bound(p, n))
		return err_why(why, ERR_truncated, "%zu bytes are not %zu values in blocks of %u",
			rd_left(from), n, BLOCK);
	struct rd scales;
	rd_init(&scales, rd_bytes(from, 4 * blocks(n)), 4 * blocks(n));
	const uint8_t *code = rd_bytes(from, n);
	enum err err = decoded_init(out, n, n, false, why);
	for (size_t b = 0; b < blocks(n) && !err; b++)
		err = decode_block(rd_u32(&scales), code + b * BLOCK, block_len(n, b),
			out->value + b * BLOCK, why);
	return err;
}

const struct codec_row codec_int8 = {
	.name = "int8",
	.feedback = true,
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
