#include "kernels/cpu/cpu.h"

struct add {
	const struct vec *vec;
	float *y;
	const float *a, *b;
};

static void forward(void *arg, struct cpu_range r)
{
	const struct add *s = arg;
	s->vec->add(s->y + r.first, s->a + r.first, s->b + r.first, r.n);
}

void cpu_add(struct device *d, const struct kernel_call *c)
{
	if (c->backward) {
		cpu_hand_on(d, c, 0);
		cpu_hand_on(d, c, 1);
		return;
	}
	struct add s = {d->vec, cpu_at(c->out), cpu_at(c->in[0]), cpu_at(c->in[1])};
	cpu_ranges(d, shape_count(cpu_shape(c, 0)), 1, forward, &s);
}
