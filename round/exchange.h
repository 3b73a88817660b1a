/* What a spec says of a round's exchange, in the words of the layers that carry it out. */
#ifndef ROUND_EXCHANGE_H
#define ROUND_EXCHANGE_H
#include <stdint.h>
#include "base/err.h"
#include "compress/codec.h"
#include "model/spec.h"
#include "round/rule.h"

struct exchange {
	struct codec_params codec; /* seed 0 */
	struct rule_params rule;
	uint32_t merged; /* values of merged updates, by number; 0: there are none, as where nothing
			  * may be lost */
};

/* ERR_unsupported and ERR_range: what codec_find, rule_find and rule_suits refuse.  Pure. */
enum err exchange_find(const struct spec *s, struct exchange *out, struct why *why) MUST_CHECK;

#endif
