#include "kernels/ref/ref.h"

/* The part of a window that is over the picture: first to before end. */
struct part {
	uint64_t first, end;
};

static struct part part_of(const struct node *n, uint64_t place, uint64_t size)
{
	uint64_t from = place * n->stride, to = from + n->window;
	return (struct part){
		from < n->pad ? 0 : from - n->pad, to - n->pad < size ? to - n->pad : size};
}

/* One window.  NaN counts as the greatest: forward gives it, and it is what backward finds. */
static uint64_t greatest(const real *x, struct part rows, struct part columns, uint64_t width)
{
	uint64_t best = rows.first * width + columns.first;
	for (uint64_t r = rows.first; r < rows.end; r++)
		for (uint64_t s = columns.first; s < columns.end; s++) {
			real v = x[r * width + s];
			if (v > x[best] || (v != v && x[best] == x[best]))
				best = r * width + s;
		}
	return best;
}

void REF(maxpool)(const struct kernel_call *c)
{
	const struct shape *in = ref_shape(c, 0), *out = &c->graph->tensors[c->node->out].shape;
	const real *x = ref_at(c->in[0]), *grad_y = ref_at(c->grad_out);
	real *y = ref_at(c->out), *grad = c->backward ? ref_grad(c, 0) : NULL;
	uint64_t planes = (uint64_t)in->dim[0] * in->dim[1], height = in->dim[2],
		 width = in->dim[3];
	for (uint64_t plane = 0; plane < planes; plane++)
		for (uint64_t r = 0; r < out->dim[2]; r++)
			for (uint64_t s = 0; s < out->dim[3]; s++) {
				uint64_t to = (plane * out->dim[2] + r) * out->dim[3] + s;
				uint64_t from = plane * height * width;
				from += greatest(x + from, part_of(c->node, r, height),
					part_of(c->node, s, width), width);
				if (grad)
					grad[from] += grad_y[to];
				else
					y[to] = x[from];
			}
}
