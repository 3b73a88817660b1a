#include "kernels/ref/ref.h"

void REF(global_average)(const struct kernel_call *c)
{
	const struct shape *s = ref_shape(c, 0);
	uint64_t planes = (uint64_t)s->dim[0] * s->dim[1], area = (uint64_t)s->dim[2] * s->dim[3];
	if (c->backward) {
		const real *grad_y = ref_at(c->grad_out);
		real *grad = ref_grad(c, 0);
		for (uint64_t i = 0; i < planes * area; i++)
			grad[i] += (real)((double)grad_y[i / area] / (double)area);
		return;
	}
	const real *x = ref_at(c->in[0]);
	real *y = ref_at(c->out);
	for (uint64_t plane = 0; plane < planes; plane++) {
		double sum = 0;
		for (uint64_t i = 0; i < area; i++)
			sum += (double)x[plane * area + i];
		y[plane] = (real)(sum / (double)area);
	}
}
