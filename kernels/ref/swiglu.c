#include <math.h>
#include "kernels/ref/ref.h"

void REF(swiglu)(const struct kernel_call *c)
{
	uint64_t n = shape_count(ref_shape(c, 0));
	const real *gate = ref_at(c->in[0]), *up = ref_at(c->in[1]);
	if (!c->backward) {
		real *y = ref_at(c->out);
		for (uint64_t i = 0; i < n; i++) {
			double g = (double)gate[i];
			y[i] = (real)(g / (1 + exp(-g)) * (double)up[i]);
		}
		return;
	}
	const real *grad_y = ref_at(c->grad_out);
	real *grad_gate = ref_at(c->grad_in[0]), *grad_up = ref_at(c->grad_in[1]);
	for (uint64_t i = 0; i < n; i++) {
		double g = (double)gate[i], s = 1 / (1 + exp(-g)), dy = (double)grad_y[i];
		double by_gate = dy * (double)up[i] * s * (1 + g * (1 - s));
		if (grad_gate)
			grad_gate[i] = ref_before(c, 0, grad_gate, i) + (real)by_gate;
		if (grad_up)
			grad_up[i] = ref_before(c, 1, grad_up, i) + (real)(dy * g * s);
	}
}
