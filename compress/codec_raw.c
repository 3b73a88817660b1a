#include <inttypes.h>
#include <string.h>
#include "compress/codec.h"
#include "compress/floats.h"

static size_t bound(const struct codec_params *p, size_t n)
{
	(void)p;
	return 4 * n;
}

static enum err encode(const struct codec_params *p, const float *v, size_t n, struct planes *to)
{
	(void)p;
	uint8_t *at = buf_grow(&to->bytes, 4 * n);
	for (size_t i = 0; at && i < n; i++) {
		uint32_t bits = floats_bits(v[i]);
		for (unsigned byte = 0; byte < 4; byte++)
			at[4 * i + byte] = (uint8_t)(bits >> 8 * byte);
	}
	planes_end(to);
	return ERR_OK;
}

static enum err decode(const struct codec_params *p, size_t n, struct rd *from, struct decoded *out,
	struct why *why)
{
	(void)p;
	if (rd_left(from) < 4 * n)
		return err_why(
			why, ERR_truncated, "%zu bytes are not %zu values", rd_left(from), n);
	enum err err = decoded_init(out, n, n, false, why);
	for (size_t i = 0; i < n && !err; i++) {
		uint32_t bits = rd_u32(from);
		out->value[i] = floats_from(bits);
		if (!floats_finite(out->value[i]))
			err = err_why(why, ERR_not_finite, "value %zu is not finite", i);
	}
	return err;
}

const struct codec_row codec_raw = {
	.name = "raw",
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
