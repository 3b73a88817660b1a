#include "kernels/cpu/cpu.h"

struct swiglu {
	const struct vec *vec;
	float *y;
	struct vec_swiglu_back at;
};

static void forward(void *arg, struct cpu_range r)
{
	const struct swiglu *s = arg;
	s->vec->swiglu(s->y + r.first, s->at.gate + r.first, s->at.up + r.first, r.n);
}

static void backward(void *arg, struct cpu_range r)
{
	const struct swiglu *s = arg;
	struct vec_swiglu_back at = s->at;
	at.gate += r.first;
	at.up += r.first;
	at.grad_y += r.first;
	at.grad_gate = at.grad_gate ? at.grad_gate + r.first : NULL;
	at.grad_up = at.grad_up ? at.grad_up + r.first : NULL;
	s->vec->swiglu_back(&at, r.n);
}

void cpu_swiglu(struct device *d, const struct kernel_call *c)
{
	uint64_t n = shape_count(cpu_shape(c, 0));
	struct swiglu s = {.vec = d->vec, .at = {.gate = cpu_at(c->in[0]), .up = cpu_at(c->in[1])}};
	if (!c->backward) {
		s.y = cpu_at(c->out);
		cpu_ranges(d, n, 2, forward, &s);
		return;
	}
	s.at.grad_y = cpu_at(c->grad_out);
	s.at.grad_gate = cpu_at(c->grad_in[0]);
	s.at.grad_up = cpu_at(c->grad_in[1]);
	s.at.add_gate = cpu_adds(c, 0);
	s.at.add_up = cpu_adds(c, 1);
	cpu_ranges(d, n, 3, backward, &s);
}
