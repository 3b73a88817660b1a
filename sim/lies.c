#include "sim/lies.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "round/contribution.h"

#define HUGE 1e6f

/* The planes as they come out of the encoder. */
static enum err encode(const struct lies_ask *a, const struct contribution_view *from, float factor,
	struct planes *to, struct why *why)
{
	struct codec_vector v = {0};
	struct codec_params codec = a->codec;
	float *values = alloc_try(a->n, sizeof *values);
	enum err err = values ? contribution_decode(from, &a->codec, a->n, &v, why)
			      : err_why(why, ERR_nomem, "no memory for a false contribution");
	if (!err)
		err = codec_expand(&v, values);
	if (!err) {
		codec.k = v.params.k;
		codec.seed = v.params.seed;
		for (size_t i = 0; i < a->n; i++)
			values[i] *= factor;
		err = codec_encode(&codec, values, a->n, NULL, to, why);
	}
	codec_release(&v);
	free(values);
	return err;
}

/* Whether a decoder finds something in these planes that is not finite. */
static bool is_wrong(const struct lies_ask *a, const struct planes *p)
{
	struct buf copy;
	struct codec_vector v = {0};
	buf_init(&copy, p->bytes.len);
	buf_put(&copy, p->bytes.data, p->bytes.len);
	enum err err = codec_open(&a->codec, a->n, &copy, &v, NULL);
	codec_release(&v);
	buf_release(&copy);
	return err == ERR_not_finite;
}

/* The encoder writes no NaN; so where a plane of scales or of values begins, the bits of one are
 * put in afterwards.  Which plane that is depends on the codec, and is tried out. */
static void spoil(const struct lies_ask *a, struct planes *p)
{
	static const uint8_t bits[][2] = {{0x00, 0xff}, {0x80, 0x7f}, {0xc0, 0x7f}};
	for (uint32_t i = 0; i < 3 * (p->n + 1); i++) {
		const size_t begin = i < 3 ? 0 : p->end[i / 3 - 1];
		for (size_t at = begin; at <= begin + 2 && at + 2 <= p->bytes.len; at += 2) {
			uint8_t old[2];
			memcpy(old, p->bytes.data + at, 2);
			memcpy(p->bytes.data + at, bits[i % 3], 2);
			if (is_wrong(a, p))
				return;
			memcpy(p->bytes.data + at, old, 2);
		}
	}
}

enum err lies_tell(const struct lies_ask *a, struct buf *out, struct why *why)
{
	struct contribution_view own, other;
	struct planes planes;
	const bool copies = a->lie == LIE_copied && a->other;
	const float factor = a->lie == LIE_huge      ? HUGE
			     : a->lie == LIE_negated ? -1.0f
			     : a->lie == LIE_zero    ? 0.0f
						     : 1.0f;
	enum err err = contribution_parse(a->own, a->own_len, &own, why);
	if (!err && copies)
		err = contribution_parse(a->other, a->other_len, &other, why);
	if (err)
		return err;
	planes_init(&planes, codec_bound(&a->codec, a->n));
	err = encode(a, copies ? &other : &own, factor, &planes, why);
	if (!err && a->lie == LIE_nan)
		spoil(a, &planes);
	if (!err && (err = contribution_seal(&own.says, &a->codec, &planes, a->key, out)))
		err_why(why, err, "no memory for a false contribution");
	planes_release(&planes);
	return err;
}
