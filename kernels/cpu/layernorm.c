#include <math.h>
#include "kernels/cpu/norms.h"

static void forward(void *arg, struct cpu_range r)
{
	const struct cpu_norms *s = arg;
	for (uint64_t i = r.first; i < r.first + r.n; i++) {
		float found[2];
		s->vec->moments(s->x + i * s->width, s->width, found);
		struct vec_norm row = {.x = s->x + i * s->width, .gain = s->gain, .n = s->width};
		row.mean = found[0];
		row.rstd = 1 / sqrtf(found[1] + s->eps);
		s->vec->norm(s->y + i * s->width, &row, s->bias);
		if (s->saved) {
			s->saved[2 * i] = row.mean;
			s->saved[2 * i + 1] = row.rstd;
		}
	}
}

void cpu_layernorm(struct device *d, const struct kernel_call *c)
{
	struct cpu_norms s = cpu_norms_of(d, c);
	s.each = 2;
	s.back = d->vec->norm_back;
	s.bias = cpu_at(c->in[2]);
	if (c->backward)
		cpu_norms_backward(d, c, &s);
	else
		cpu_ranges(d, s.rows, 2 * s.width, forward, &s);
}
