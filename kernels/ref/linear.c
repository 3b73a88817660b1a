#include "kernels/ref/ref.h"

struct size {
	uint64_t rows, in, out;
};

static void forward(const struct kernel_call *c, struct size s)
{
	const real *x = ref_at(c->in[0]), *w = ref_at(c->in[1]), *bias = ref_at(c->in[2]);
	real *y = ref_at(c->out);
	for (uint64_t r = 0; r < s.rows; r++)
		for (uint64_t o = 0; o < s.out; o++) {
			double sum = bias ? (double)bias[o] : 0;
			for (uint64_t i = 0; i < s.in; i++)
				sum += (double)x[r * s.in + i] * (double)w[o * s.in + i];
			y[r * s.out + o] = (real)sum;
		}
}

static void backward_x(const struct kernel_call *c, struct size s, real *grad)
{
	const real *w = ref_at(c->in[1]), *grad_y = ref_at(c->grad_out);
	for (uint64_t r = 0; r < s.rows; r++)
		for (uint64_t i = 0; i < s.in; i++) {
			double sum = 0;
			for (uint64_t o = 0; o < s.out; o++)
				sum += (double)grad_y[r * s.out + o] * (double)w[o * s.in + i];
			grad[r * s.in + i] += (real)sum;
		}
}

static void backward_weight(const struct kernel_call *c, struct size s, real *grad)
{
	const real *x = ref_at(c->in[0]), *grad_y = ref_at(c->grad_out);
	for (uint64_t o = 0; o < s.out; o++)
		for (uint64_t i = 0; i < s.in; i++) {
			double sum = 0;
			for (uint64_t r = 0; r < s.rows; r++)
				sum += (double)grad_y[r * s.out + o] * (double)x[r * s.in + i];
			grad[o * s.in + i] += (real)sum;
		}
}

static void backward_bias(const struct kernel_call *c, struct size s, real *grad)
{
	const real *grad_y = ref_at(c->grad_out);
	for (uint64_t o = 0; o < s.out; o++) {
		double sum = 0;
		for (uint64_t r = 0; r < s.rows; r++)
			sum += (double)grad_y[r * s.out + o];
		grad[o] += (real)sum;
	}
}

void REF(linear)(const struct kernel_call *c)
{
	struct size s = {
		shape_rows(ref_shape(c, 0)), shape_last(ref_shape(c, 0)), ref_shape(c, 1)->dim[0]};
	if (!c->backward) {
		forward(c, s);
		return;
	}
	real *grad_x = ref_grad(c, 0), *grad_w = ref_grad(c, 1);
	real *grad_bias = c->node->n_in == 3 ? ref_grad(c, 2) : NULL;
	if (grad_x)
		backward_x(c, s, grad_x);
	if (grad_w)
		backward_weight(c, s, grad_w);
	if (grad_bias)
		backward_bias(c, s, grad_bias);
}
