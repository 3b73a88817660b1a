#include "round/exchange.h"

static uint32_t merged_of(const struct exchange *x, enum spec_merged asked)
{
	static const uint32_t values[] = {
		[SPEC_never] = 0, [SPEC_int8] = VALUES_int8, [SPEC_int4] = VALUES_int4};
	return codec_lossless(&x->codec) ? 0 : values[asked];
}

enum err exchange_find(const struct spec *s, struct exchange *out, struct why *why)
{
	const struct spec_codec *c = &s->codec;
	const struct codec_words words = {.select = c->select,
		.values = c->values,
		.dct = c->dct,
		.chunk = c->chunk,
		.k = c->k,
		.threshold = c->threshold};
	enum err err = codec_find(&words, &out->codec, why);
	if (!err)
		err = rule_find(s->outer.rule, s->outer.lr, s->outer.momentum, &out->rule, why);
	if (!err)
		err = rule_suits(&out->rule, &out->codec, why);
	if (!err)
		out->merged = merged_of(out, s->outer.merged);
	return err;
}
