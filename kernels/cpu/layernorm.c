#include <math.h>
#include "kernels/cpu/cpu.h"

/* Of a range: whole cache lines, in runs long enough for memory to keep up. */
#define COLUMNS 128

struct norms {
	const struct vec *vec;
	uint64_t rows, width;
	const float *x, *gain, *bias, *grad_y;
	float *y, *saved; /* saved: mean and 1 / deviation of each row */
	float *grad_x, *grad_gain, *grad_bias;
	float eps;
	bool add_x;
};

static struct vec_norm row_of(const struct norms *s, uint64_t row)
{
	return (struct vec_norm){
		.x = s->x + row * s->width,
		.gain = s->gain,
		.mean = s->saved[2 * row],
		.rstd = s->saved[2 * row + 1],
		.n = s->width,
	};
}

static void forward(void *arg, struct cpu_range r)
{
	const struct norms *s = arg;
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

static void backward_x(void *arg, struct cpu_range r)
{
	const struct norms *s = arg;
	for (uint64_t i = r.first; i < r.first + r.n; i++) {
		struct vec_norm row = row_of(s, i);
		s->vec->norm_back(
			s->grad_x + i * s->width, &row, s->grad_y + i * s->width, s->add_x);
	}
}

/* Gain and bias: each range has columns of its own and goes through all rows in order. */
static void backward_gain(void *arg, struct cpu_range r)
{
	const struct norms *s = arg;
	uint64_t first = r.first * COLUMNS, end = (r.first + r.n) * COLUMNS;
	for (uint64_t i = 0; i < s->rows; i++) {
		struct vec_norm row = row_of(s, i);
		row.x += first;
		row.n = (end < s->width ? end : s->width) - first;
		s->vec->norm_back_gain(s->grad_gain ? s->grad_gain + first : NULL,
			s->grad_bias ? s->grad_bias + first : NULL, &row,
			s->grad_y + i * s->width + first);
	}
}

static void backward(struct device *d, const struct kernel_call *c, struct norms *s)
{
	s->grad_y = cpu_at(c->grad_out);
	s->grad_x = cpu_at(c->grad_in[0]);
	s->grad_gain = cpu_at(c->grad_in[1]);
	s->grad_bias = cpu_at(c->grad_in[2]);
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

void cpu_layernorm(struct device *d, const struct kernel_call *c)
{
	struct norms s = {.vec = d->vec,
		.rows = shape_rows(cpu_shape(c, 0)),
		.width = shape_last(cpu_shape(c, 0)),
		.x = cpu_at(c->in[0]),
		.gain = cpu_at(c->in[1]),
		.saved = cpu_at(c->saved),
		.eps = c->node->eps};
	if (c->backward) {
		backward(d, c, &s);
		return;
	}
	s.bias = cpu_at(c->in[2]);
	s.y = cpu_at(c->out);
	cpu_ranges(d, s.rows, 2 * s.width, forward, &s);
}
