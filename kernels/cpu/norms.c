#include "kernels/cpu/norms.h"

/* Of a range: whole cache lines, in runs long enough for memory to keep up. */
#define COLUMNS 128

struct cpu_norms cpu_norms_of(const struct device *d, const struct kernel_call *c)
{
	return (struct cpu_norms){.vec = d->vec,
		.rows = shape_rows(cpu_shape(c, 0)),
		.width = shape_last(cpu_shape(c, 0)),
		.x = cpu_at(c->in[0]),
		.gain = cpu_at(c->in[1]),
		.y = cpu_at(c->out),
		.saved = cpu_at(c->saved),
		.eps = c->node->eps};
}

static struct vec_norm row_of(const struct cpu_norms *s, uint64_t row)
{
	const float *saved = s->saved + s->each * row;
	return (struct vec_norm){
		.x = s->x + row * s->width,
		.gain = s->gain,
		.mean = s->each == 2 ? saved[0] : 0,
		.rstd = saved[s->each - 1],
		.n = s->width,
	};
}

static void backward_x(void *arg, struct cpu_range r)
{
	const struct cpu_norms *s = arg;
	for (uint64_t i = r.first; i < r.first + r.n; i++) {
		struct vec_norm row = row_of(s, i);
		s->back(s->grad_x + i * s->width, &row, s->grad_y + i * s->width, s->add_x);
	}
}

/* Gain and bias: each range has columns of its own and goes through all rows in order. */
static void backward_gain(void *arg, struct cpu_range r)
{
	const struct cpu_norms *s = arg;
	uint64_t first = r.first * COLUMNS, end = (r.first + r.n) * COLUMNS;
	for (uint64_t i = 0; i < s->rows; i++) {
		struct vec_norm row = row_of(s, i);
		row.x += first;
		row.n = cpu_least(end, s->width) - first;
		s->vec->norm_back_gain(s->grad_gain ? s->grad_gain + first : NULL,
			s->grad_bias ? s->grad_bias + first : NULL, &row,
			s->grad_y + i * s->width + first);
	}
}

void cpu_norms_backward(struct device *d, const struct kernel_call *c, struct cpu_norms *s)
{
	s->grad_y = cpu_at(c->grad_out);
	s->grad_x = cpu_at(c->grad_in[0]);
	s->grad_gain = cpu_at(c->grad_in[1]);
	s->grad_bias = cpu_at(c->grad_in[2]); /* absent in rmsnorm, which has none */
	s->add_x = cpu_adds(c, 0);
	if (s->grad_gain && !cpu_adds(c, 1))
		cpu_zero(d, s->grad_gain, s->width);
	if (s->grad_bias && !cpu_adds(c, 2))
		cpu_zero(d, s->grad_bias, s->width);
	if (s->grad_gain || s->grad_bias)
		cpu_ranges(
			d, (s->width + COLUMNS - 1) / COLUMNS, COLUMNS * s->rows, backward_gain, s);
	if (s->grad_x) /* last: it may lie where x is */
		cpu_ranges(d, s->rows, 2 * s->width, backward_x, s);
}
