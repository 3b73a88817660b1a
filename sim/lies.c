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

/* What a decoder finds in these planes. */
static enum err found(const struct lies_ask *a, const struct planes *p)
{
	struct buf copy;
	struct codec_vector v = {0};
	buf_init(&copy, p->bytes.len);
	buf_put(&copy, p->bytes.data, p->bytes.len);
	enum err err = codec_open(&a->codec, a->n, &copy, &v, NULL);
	codec_release(&v);
	buf_release(&copy);
	return err;
}

/* Puts the bits of a value that is none where the plane begins. */
static bool spoil_plane(const struct lies_ask *a, struct planes *p, size_t begin, bool any)
{
	static const uint8_t bits[][2] = {{0x00, 0xff}, {0x80, 0x7f}, {0xc0, 0x7f}};
	for (size_t at = begin; at <= begin + 2 && at + 2 <= p->bytes.len; at += 2) {
		uint8_t old[2];
		memcpy(old, p->bytes.data + at, 2);
		for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
			memcpy(p->bytes.data + at, bits[i], 2);
			const enum err err = found(a, p);
			if (err == ERR_not_finite || (any && err))
				return true;
		}
		memcpy(p->bytes.data + at, old, 2);
	}
	return false;
}

/* The encoder writes no NaN; so its bits are put in afterwards, where a plane of scales or of
 * values begins.  Which plane that is depends on the codec and is tried out, from the last one on;
 * where a codec has no bits for it (two), bits that it does not have. */
static void spoil(const struct lies_ask *a, struct planes *p)
{
	for (int any = 0; any < 2; any++)
		for (uint32_t i = p->n; i-- > 0;)
			if (spoil_plane(a, p, i ? p->end[i - 1] : 0, any != 0))
				return;
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
