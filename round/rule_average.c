#include "round/rule.h"

/*
 * With one peer D is the sum w v over the total w, rounded in double precision: (w v) / w is within
 * two parts in 2^53 of the float v, so that it rounds to v again.  Sums start at -0.0, so that -0.0
 * stays too.
 */
static void step(const struct rule_params *p, const struct rule_block *b)
{
	(void)p;
	for (size_t i = 0; i < b->n; i++)
		b->params[i] = (float)(b->delta[i]);
}

const struct rule_row rule_average = {.name = "average", .parameters = true, .step = step};
