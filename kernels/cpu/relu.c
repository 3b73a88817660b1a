#include "kernels/cpu/cpu.h"

struct relu {
	const struct vec *vec;
	float *to; /* y, or the gradient of x */
	const float *from, *grad_y;
	bool add;
};

static void forward(void *arg, struct cpu_range r)
{
	const struct relu *s = arg;
	s->vec->relu(s->to + r.first, s->from + r.first, r.n);
}

static void backward(void *arg, struct cpu_range r)
{
	const struct relu *s = arg;
	s->vec->relu_back(s->to + r.first, s->grad_y + r.first, s->from + r.first, r.n, s->add);
}

void cpu_relu(struct device *d, const struct kernel_call *c)
{
	uint64_t n = shape_count(cpu_shape(c, 0));
	struct relu s = {.vec = d->vec, .add = cpu_adds(c, 0)};
	if (!c->backward) {
		s.to = cpu_at(c->out);
		s.from = cpu_at(c->in[0]);
		cpu_ranges(d, n, 1, forward, &s);
		return;
	}
	s.to = cpu_at(c->grad_in[0]);
	s.from = cpu_at(c->out);
	s.grad_y = cpu_at(c->grad_out);
	cpu_ranges(d, n, 1, backward, &s);
}
