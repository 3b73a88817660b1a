#include "kernels/ref/ref.h"

/* NaN passes through: it is not below 0. */
void REF(relu)(const struct kernel_call *c)
{
	uint64_t n = shape_count(ref_shape(c, 0));
	if (!c->backward) {
		const real *x = ref_at(c->in[0]);
		real *y = ref_at(c->out);
		for (uint64_t i = 0; i < n; i++)
			y[i] = x[i] < 0 ? 0 : x[i];
		return;
	}
	const real *y = ref_at(c->out), *grad_y = ref_at(c->grad_out);
	real *grad = ref_grad(c, 0);
	for (uint64_t i = 0; i < n; i++)
		grad[i] += y[i] > 0 ? grad_y[i] : 0;
}
