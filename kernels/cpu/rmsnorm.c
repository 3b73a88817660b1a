#include <math.h>
#include "kernels/cpu/norms.h"

static void forward(void *arg, struct cpu_range r)
{
	const struct cpu_norms *s = arg;
	for (uint64_t i = r.first; i < r.first + r.n; i++) {
		struct vec_norm row = {.x = s->x + i * s->width, .gain = s->gain, .n = s->width};
		row.rstd = 1 / sqrtf(s->vec->dot(row.x, row.x, row.n) / (float)row.n + s->eps);
		s->vec->rms(s->y + i * s->width, &row);
		if (s->saved)
			s->saved[i] = row.rstd;
	}
}

void cpu_rmsnorm(struct device *d, const struct kernel_call *c)
{
	struct cpu_norms s = cpu_norms_of(d, c);
	s.each = 1;
	s.back = d->vec->rms_back;
	if (c->backward)
		cpu_norms_backward(d, c, &s);
	else
		cpu_ranges(d, s.rows, 2 * s.width, forward, &s);
}
