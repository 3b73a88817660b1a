#include <math.h>
#include "kernels/ref/ref.h"

#define CUBE 0.044715
#define SCALE 0.79788456080286535588 /* sqrt(2 / pi) */

static double value(double x)
{
	return 0.5 * x * (1 + tanh(SCALE * (x + CUBE * x * x * x)));
}

static double slope(double x)
{
	double t = tanh(SCALE * (x + CUBE * x * x * x));
	return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SCALE * (1 + 3 * CUBE * x * x);
}

void REF(gelu)(const struct kernel_call *c)
{
	uint64_t n = shape_count(ref_shape(c, 0));
	const real *x = ref_at(c->in[0]);
	if (c->backward) {
		const real *grad_y = ref_at(c->grad_out);
		real *grad = ref_at(c->grad_in[0]);
		for (uint64_t i = 0; i < n; i++)
			grad[i] = ref_before(c, 0, grad, i) +
				  (real)((double)grad_y[i] * slope((double)x[i]));
		return;
	}
	real *y = ref_at(c->out);
	for (uint64_t i = 0; i < n; i++)
		y[i] = (real)value((double)x[i]);
}
