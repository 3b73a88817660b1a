#include "kernels/cpu/cpu.h"

struct averages {
	const struct vec *vec;
	uint64_t area;
	const float *from; /* x, or the gradient of y */
	float *to;
	bool add;
};

static void forward(void *arg, struct cpu_range r)
{
	const struct averages *s = arg;
	for (uint64_t i = r.first; i < r.first + r.n; i++)
		s->to[i] = s->vec->sum(s->from + i * s->area, s->area) / (float)s->area;
}

static void backward(void *arg, struct cpu_range r)
{
	const struct averages *s = arg;
	for (uint64_t i = r.first; i < r.first + r.n; i++) {
		float share = s->from[i] / (float)s->area, *to = s->to + i * s->area;
		for (uint64_t k = 0; k < s->area; k++)
			to[k] = s->add ? to[k] + share : share;
	}
}

void cpu_global_average(struct device *d, const struct kernel_call *c)
{
	const struct shape *x = cpu_shape(c, 0);
	uint64_t planes = (uint64_t)x->dim[0] * x->dim[1];
	struct averages s = {.vec = d->vec, .area = (uint64_t)x->dim[2] * x->dim[3]};
	s.from = cpu_at(c->backward ? c->grad_out : c->in[0]);
	s.to = cpu_at(c->backward ? c->grad_in[0] : c->out);
	s.add = cpu_adds(c, 0);
	cpu_ranges(d, planes, s.area, c->backward ? backward : forward, &s);
}
