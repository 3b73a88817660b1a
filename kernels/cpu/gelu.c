#include "kernels/cpu/cpu.h"

struct gelu {
	const struct vec *vec;
	float *to; /* y, or the gradient of x */
	const float *x, *grad_y;
	bool add;
};

static void forward(void *arg, struct cpu_range r)
{
	const struct gelu *s = arg;
	s->vec->gelu(s->to + r.first, s->x + r.first, r.n);
}

static void backward(void *arg, struct cpu_range r)
{
	const struct gelu *s = arg;
	s->vec->gelu_back(s->to + r.first, s->grad_y + r.first, s->x + r.first, r.n, s->add);
}

void cpu_gelu(struct device *d, const struct kernel_call *c)
{
	uint64_t n = shape_count(cpu_shape(c, 0));
	struct gelu s = {.vec = d->vec, .x = cpu_at(c->in[0])};
	if (!c->backward) {
		s.to = cpu_at(c->out);
		cpu_ranges(d, n, 2, forward, &s);
		return;
	}
	s.to = cpu_at(c->grad_in[0]);
	s.grad_y = cpu_at(c->grad_out);
	s.add = cpu_adds(c, 0);
	cpu_ranges(d, n, 2, backward, &s);
}
