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

static bool spoil_planes(
	const struct lies_ask *a, struct planes *p, uint32_t first, uint32_t last, bool any)
{
	const size_t begin = first ? p->end[first - 1] : 0, n = p->end[last] - begin;
	uint8_t *at = p->bytes.data + begin, *old = alloc_must(n + 1);
	memcpy(old, at, n);
	memset(at, 0xff, n);
	const enum err err = found(a, p);
	const bool done = err == ERR_not_finite || (any && err);
	if (!done)
		memcpy(at, old, n);
	free(old);
	return done;
}

/* The encoder writes no NaN; so the planes of values or of scales are filled with the bits of one,
 * all ones.  Which those are depends on the codec and is tried out, one and two together, from the
 * last one on; where a codec has no bits for it (two), with bits that it does not have. */
static void spoil(const struct lies_ask *a, struct planes *p)
{
	for (int any = 0; any < 2; any++)
		for (uint32_t more = 0; more < 2; more++)
			for (uint32_t i = p->n; i-- > more;)
				if (spoil_planes(a, p, i - more, i, any != 0))
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
