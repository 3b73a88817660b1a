#include "round/normlimit.h"
#include <math.h>

#define SLACK 4.0
/* What is left of larger rounds travels with a smaller one: a member whose speed is not known yet
 * is given a few steps only. */
#define STEPS_LEAST 1024
#define DECAY_MOST 0.999   /* no feedback is kept for longer than this lasts */
#define PARAMETER_RMS 16.0 /* of weights before training, also of those from elsewhere */

/* A parameter's way in one step over the learning rate.  |m| / sqrt(v) is at most
 * (1 - beta1) / sqrt((1 - beta1^2 / beta2) (1 - beta2)) by Cauchy and Schwarz, which is at most
 * 1 / sqrt(1 - beta2) where beta2 >= beta1; bias correction adds nothing to that.  For other betas
 * the usual 1 / (1 - beta1) more covers what was ever seen. */
static double step_most(const struct spec_train *t)
{
	double adam = 1 / sqrt(1 - t->beta2);
	if (t->beta2 < t->beta1)
		adam /= 1 - t->beta1;
	return adam + PARAMETER_RMS * t->weight_decay;
}

double normlimit(const struct spec *s, const struct rule_row *rule, size_t n, uint64_t steps)
{
	const struct spec_train *t = &s->train;
	double per_step = t->lr * step_most(t), each;
	if (rule->parameters) {
		double all = (double)t->total_tokens / (double)spec_step_tokens(s);
		each = PARAMETER_RMS + per_step * all;
	} else {
		double decay = s->codec.decay < DECAY_MOST ? s->codec.decay : DECAY_MOST;
		each = per_step * (double)(steps > STEPS_LEAST ? steps : STEPS_LEAST) / (1 - decay);
	}
	return SLACK * sqrt((double)n) * each;
}
