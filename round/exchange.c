#include "round/exchange.h"

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
	return err ? err : rule_suits(&out->rule, &out->codec, why);
}
