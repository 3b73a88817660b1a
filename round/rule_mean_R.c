#include "round/rule.h"

static void step(const struct rule_params *p, const struct rule_block *b)
{
	for (size_t i = 0; i < b->n; i++) {
		double delta = b->sum[i] / b->total;
		b->params[i] = (float)((double)b->params[i] - p->lr * delta);
	}
}

const struct rule_row rule_mean_R = {.name = "mean_R", .step = step};
