#include <math.h>
#include "kernels/ref/ref.h"

static void forward_row(
	const struct kernel_call *c, const real *x, real *y, real *saved, uint64_t n)
{
	const real *gain = ref_at(c->in[1]), *bias = ref_at(c->in[2]);
	double mean = 0, var = 0;
	for (uint64_t i = 0; i < n; i++)
		mean += (double)x[i];
	mean /= (double)n;
	for (uint64_t i = 0; i < n; i++)
		var += ((double)x[i] - mean) * ((double)x[i] - mean);
	double rstd = 1 / sqrt(var / (double)n + (double)c->node->eps);
	for (uint64_t i = 0; i < n; i++)
		y[i] = (real)(((double)x[i] - mean) * rstd * (double)gain[i] + (double)bias[i]);
	if (saved) {
		saved[0] = (real)mean;
		saved[1] = (real)rstd;
	}
}

struct row_grads {
	const real *y;
	real *x, *gain, *bias;
};

/* With h = (x - mean) rstd and d = grad_y gain: grad_x = rstd (d - mean(d) - h mean(d h)). */
static void backward_row(const struct kernel_call *c, const real *x, const real *saved,
	const struct row_grads *grad, uint64_t n)
{
	const real *gain = ref_at(c->in[1]);
	double mean = (double)saved[0], rstd = (double)saved[1], sum = 0, sum_h = 0;
	for (uint64_t i = 0; i < n; i++) {
		double h = ((double)x[i] - mean) * rstd, dy = (double)grad->y[i];
		sum += dy * (double)gain[i];
		sum_h += dy * (double)gain[i] * h;
		if (grad->gain)
			grad->gain[i] += (real)(dy * h);
		if (grad->bias)
			grad->bias[i] += grad->y[i];
	}
	for (uint64_t i = 0; i < n && grad->x; i++) {
		double h = ((double)x[i] - mean) * rstd, dh = (double)grad->y[i] * (double)gain[i];
		grad->x[i] += (real)(rstd * (dh - sum / (double)n - h * sum_h / (double)n));
	}
}

void REF(layernorm)(const struct kernel_call *c)
{
	uint64_t rows = shape_rows(ref_shape(c, 0)), n = shape_last(ref_shape(c, 0));
	const real *x = ref_at(c->in[0]);
	real *saved = ref_at(c->saved);
	if (!c->backward) {
		real *y = ref_at(c->out);
		for (uint64_t r = 0; r < rows; r++)
			forward_row(c, x + r * n, y + r * n, saved ? saved + 2 * r : NULL, n);
		return;
	}
	const real *grad_y = ref_at(c->grad_out);
	real *grad_x = ref_grad(c, 0);
	struct row_grads grad = {.gain = ref_grad(c, 1), .bias = ref_grad(c, 2)};
	for (uint64_t r = 0; r < rows; r++) {
		grad.y = grad_y + r * n;
		grad.x = grad_x ? grad_x + r * n : NULL;
		backward_row(c, x + r * n, saved + 2 * r, &grad, n);
	}
}
