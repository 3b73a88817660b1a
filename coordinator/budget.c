#include "coordinator/budget.h"
#include "round/turns.h"

/* Timed: sequences handed out over what the speed promises, so that time ends the round. */
#define HEADROOM 1.25
#define RESERVE 4       /* overlap: turns of a shard that a member can go on for without a plan */
#define PROBE_STEPS 4   /* timed: of a member whose speed is not known */
#define ROUNDS_LEAST 32 /* timed: that one member needs for the whole run */
#define LEFT_OUT_MOST 6 /* doublings */

uint64_t budget_steps(const struct spec *s, double speed)
{
	if (s->round.mode == SPEC_fixed)
		return s->round.steps;
	if (speed <= 0)
		return PROBE_STEPS;
	double step = (double)spec_step_tokens(s), steps = speed * s->round.seconds / step,
	       most = (double)s->train.total_tokens / ROUNDS_LEAST / step;
	if (most < PROBE_STEPS)
		most = PROBE_STEPS;
	if (steps > most)
		steps = most;
	return steps >= 1 ? (uint64_t)steps : 1;
}

uint64_t budget_sequences(const struct spec *s, uint64_t steps)
{
	if (s->round.mode == SPEC_timed)
		steps = (uint64_t)((double)steps * HEADROOM) + 1;
	return steps * s->train.batch;
}

uint64_t budget_reserve(const struct spec *s, uint64_t steps)
{
	uint64_t least = budget_sequences(s, steps),
		 reserve = least + RESERVE * turns_fragments(&s->round) * steps * s->train.batch,
		 most = s->train.total_tokens / ROUNDS_LEAST / s->train.seq / s->train.batch *
			s->train.batch;
	return reserve < most ? reserve : least > most ? least : most;
}

void budget_held_up(struct budget_patience *p, uint64_t round)
{
	if (p->held_up < LEFT_OUT_MOST)
		p->held_up++;
	p->left_out = round + (1u << p->held_up);
}

void budget_delivered(struct budget_patience *p)
{
	*p = (struct budget_patience){0};
}

bool budget_welcome(const struct budget_patience *p, uint64_t round)
{
	return round >= p->left_out;
}
