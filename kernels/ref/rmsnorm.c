#include <math.h>
#include "kernels/ref/ref.h"

static void forward_row(
	const struct kernel_call *c, const real *x, real *y, real *saved, uint64_t n)
{
	const real *gain = ref_at(c->in[1]);
	double squares = 0;
	for (uint64_t i = 0; i < n; i++)
		squares += (double)x[i] * (double)x[i];
	double rstd = 1 / sqrt(squares / (double)n + (double)c->node->eps);
	for (uint64_t i = 0; i < n; i++)
		y[i] = (real)((double)x[i] * rstd * (double)gain[i]);
	if (saved)
		*saved = (real)rstd;
}

struct row_grads {
	const real *y;
	real *x, *gain;
};

/* With h = x rstd and d = grad_y gain: grad_x = rstd (d - h mean(d h)). */
static void backward_row(const struct kernel_call *c, const real *x, double rstd,
	const struct row_grads *grad, uint64_t n)
{
	const real *gain = ref_at(c->in[1]);
	double sum_h = 0;
	for (uint64_t i = 0; i < n; i++) {
		double h = (double)x[i] * rstd, dy = (double)grad->y[i];
		sum_h += dy * (double)gain[i] * h;
		if (grad->gain)
			grad->gain[i] += (real)(dy * h);
	}
	for (uint64_t i = 0; i < n && grad->x; i++) {
		double h = (double)x[i] * rstd, dh = (double)grad->y[i] * (double)gain[i];
		grad->x[i] += (real)(rstd * (dh - h * sum_h / (double)n));
	}
}

void REF(rmsnorm)(const struct kernel_call *c)
{
	uint64_t rows = shape_rows(ref_shape(c, 0)), n = shape_last(ref_shape(c, 0));
	const real *x = ref_at(c->in[0]);
	real *saved = ref_at(c->saved);
	if (!c->backward) {
		real *y = ref_at(c->out);
		for (uint64_t r = 0; r < rows; r++)
			forward_row(c, x + r * n, y + r * n, saved ? saved + r : NULL, n);
		return;
	}
	const real *grad_y = ref_at(c->grad_out);
	real *grad_x = ref_grad(c, 0);
	struct row_grads grad = {.gain = ref_grad(c, 1)};
	for (uint64_t r = 0; r < rows; r++) {
		grad.y = grad_y + r * n;
		grad.x = grad_x ? grad_x + r * n : NULL;
		backward_row(c, x + r * n, (double)saved[r], &grad, n);
	}
}
