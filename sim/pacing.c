#include "sim/pacing.h"
#include "base/clock.h"

#define FORWARD (1.0 / 3) /* of a training step */

static uint64_t nanoseconds(double seconds)
{
	return (uint64_t)(seconds * (double)CLOCK_SECOND);
}

uint64_t pacing_ns(double tokens, double tokens_per_s)
{
	return nanoseconds(tokens / tokens_per_s);
}

uint64_t pacing_steps(
	const struct plan *p, const struct spec *s, double tokens_per_s, uint64_t *takes_ns)
{
	const uint64_t most = span_count(p->spans, p->n_spans) / s->train.batch;
	const double step_s = (double)spec_step_tokens(s) / tokens_per_s;
	uint64_t steps = p->steps;
	if (p->seconds > 0) { /* the one that passes the end is done too, and one always */
		const double fit = p->seconds / step_s;
		steps = fit < (double)most ? (uint64_t)fit : most;
		if ((double)steps < fit || !steps)
			steps++;
	}
	steps = steps < most ? steps : most;
	*takes_ns = nanoseconds((double)steps * step_s);
	return steps;
}

uint64_t pacing_validation(uint64_t tokens, double tokens_per_s)
{
	return pacing_ns(FORWARD * (double)tokens, tokens_per_s);
}

uint64_t pacing_due(uint64_t before_ns, double seconds, uint64_t now)
{
	const uint64_t length = nanoseconds(seconds), next = before_ns + length;
	if (!before_ns)
		return now + length;
	return next < now ? now : next < now + length ? next : now + length;
}
