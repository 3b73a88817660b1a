#include "round/rule.h"

/* Nesterov's momentum as SGD has it: the step looks ahead by the momentum it has just taken up. */
static void step(const struct rule_params *p, const struct rule_block *b)
{
	for (size_t i = 0; i < b->n; i++) {
		double delta = b->delta[i];
		// Rounded before it is used: the step depends only on what the state keeps.
		b->momentum[i] = (float)(p->momentum * (double)b->momentum[i] + delta);
		double ahead = p->momentum * (double)b->momentum[i] + delta;
		b->params[i] = (float)((double)b->params[i] - p->lr * ahead);
	}
}

const struct rule_row rule_diloco = {.name = "diloco", .momentum = true, .step = step};
