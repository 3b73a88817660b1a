#include "kernels/cpu/cpu.h"

struct positions {
	const struct vec *vec;
	uint64_t batch, seq, width;
	const float *x, *table, *grad_y;
	float *y, *grad_table;
};

/* Rows of x. */
static void forward(void *arg, struct cpu_range r)
{
	const struct positions *s = arg;
	for (uint64_t row = r.first; row < r.first + r.n; row++)
		s->vec->add(s->y + row * s->width, s->x + row * s->width,
			s->table + row % s->seq * s->width, s->width);
}

/* Rows of the table: each adds up its own in the order of the batch. */
static void backward(void *arg, struct cpu_range r)
{
	const struct positions *s = arg;
	for (uint64_t t = r.first; t < r.first + r.n; t++) {
		float *to = s->grad_table + t * s->width;
		for (uint64_t b = 0; b < s->batch; b++)
			s->vec->add(to, to, s->grad_y + (b * s->seq + t) * s->width, s->width);
	}
}

void cpu_pos_embed(struct device *d, const struct kernel_call *c)
{
	const struct shape *x = cpu_shape(c, 0);
	struct positions s = {
		.vec = d->vec, .batch = x->dim[0], .seq = x->dim[1], .width = x->dim[2]};
	if (!c->backward) {
		s.x = cpu_at(c->in[0]);
		s.table = cpu_at(c->in[1]) + c->past * s.width;
		s.y = cpu_at(c->out);
		cpu_ranges(d, s.batch * s.seq, s.width, forward, &s);
		return;
	}
	cpu_hand_on(d, c, 0);
	s.grad_y = cpu_at(c->grad_out);
	s.grad_table = cpu_at(c->grad_in[1]);
	if (!s.grad_table)
		return;
	if (!cpu_adds(c, 1))
		cpu_zero(d, s.grad_table, shape_count(cpu_shape(c, 1)));
	cpu_ranges(d, s.seq, s.batch * s.width, backward, &s);
}
