#include <math.h>
#include <string.h>
#include "kernels/cpu/cpu.h"

struct pools {
	uint64_t height, width, rows, columns, window, stride, pad;
	const float *x, *y, *grad_y;
	float *to; /* y, or the gradient of x */
	bool add;
};

/* The part of a window that is over the picture: first to before end. */
struct part {
	uint64_t first, end;
};

static struct part part_of(const struct pools *s, uint64_t place, uint64_t size)
{
	uint64_t from = place * s->stride, to = from + s->window - s->pad;
	return (struct part){from < s->pad ? 0 : from - s->pad, to < size ? to : size};
}

/* Places in a row of y at which column k of the window is over the picture. */
static struct part places_of(const struct pools *s, uint64_t k)
{
	struct part p = {.first = k < s->pad ? (s->pad - k + s->stride - 1) / s->stride : 0};
	if (s->width + s->pad > k)
		p.end = (s->width + s->pad - k - 1) / s->stride + 1;
	p.end = p.end < s->columns ? p.end : s->columns;
	return p;
}

/* A row of y from the rows of x under its windows, one column of all windows at a time.  NaN is the
 * greatest: nothing is greater than what it is compared with, and it stays. */
static void forward_row(const struct pools *s, const float *x, struct part rows, float *y)
{
	for (uint64_t i = 0; i < s->columns; i++)
		y[i] = -INFINITY;
	for (uint64_t r = rows.first; r < rows.end; r++)
		for (uint64_t k = 0; k < s->window; k++) {
			struct part p = places_of(s, k);
			for (uint64_t i = p.first; i < p.end; i++) {
				float v = x[r * s->width + i * s->stride + k - s->pad];
				y[i] = v > y[i] || v != v ? v : y[i];
			}
		}
}

static uint64_t first_of(
	const float *x, uint64_t step, struct part rows, struct part columns, float most)
{
	for (uint64_t r = rows.first; r < rows.end; r++)
		for (uint64_t k = columns.first; k < columns.end; k++)
			if (x[r * step + k] == most || x[r * step + k] != x[r * step + k])
				return r * step + k;
	return rows.first * step + columns.first; /* not reached: y is one of them */
}

static void forward(void *arg, struct cpu_range r)
{
	const struct pools *s = arg;
	for (uint64_t plane = r.first; plane < r.first + r.n; plane++) {
		const float *x = s->x + plane * s->height * s->width;
		float *y = s->to + plane * s->rows * s->columns;
		for (uint64_t row = 0; row < s->rows; row++)
			forward_row(s, x, part_of(s, row, s->height), y + row * s->columns);
	}
}

static void backward(void *arg, struct cpu_range r)
{
	const struct pools *s = arg;
	uint64_t area = s->height * s->width;
	for (uint64_t plane = r.first; plane < r.first + r.n; plane++) {
		const float *x = s->x + plane * area;
		float *grad = s->to + plane * area;
		uint64_t at = plane * s->rows * s->columns;
		if (!s->add)
			memset(grad, 0, area * sizeof *grad);
		for (uint64_t row = 0; row < s->rows; row++)
			for (uint64_t k = 0; k < s->columns; k++, at++)
				grad[first_of(x, s->width, part_of(s, row, s->height),
					part_of(s, k, s->width), s->y[at])] += s->grad_y[at];
	}
}

void cpu_maxpool(struct device *d, const struct kernel_call *c)
{
	const struct shape *x = cpu_shape(c, 0), *y = &c->graph->tensors[c->node->out].shape;
	struct pools s = {.height = x->dim[2],
		.width = x->dim[3],
		.rows = y->dim[2],
		.columns = y->dim[3],
		.window = c->node->window,
		.stride = c->node->stride,
		.pad = c->node->pad,
		.x = cpu_at(c->in[0]),
		.y = cpu_at(c->out),
		.grad_y = cpu_at(c->grad_out),
		.add = cpu_adds(c, 0)};
	s.to = cpu_at(c->backward ? c->grad_in[0] : c->out);
	uint64_t each = s.rows * s.columns * s.window * s.window * 4;
	cpu_ranges(d, (uint64_t)x->dim[0] * x->dim[1], each, c->backward ? backward : forward, &s);
}
