#include "kernels/ref/ref.h"

void REF(pos_embed)(const struct kernel_call *c)
{
	const struct shape *s = ref_shape(c, 0);
	uint64_t n = shape_count(s), one = (uint64_t)s->dim[1] * s->dim[2]; /* a sequence */
	if (c->backward) {
		const real *grad_y = ref_at(c->grad_out);
		real *grad_x = ref_grad(c, 0), *grad_table = ref_grad(c, 1);
		for (uint64_t i = 0; i < n; i++) {
			if (grad_x)
				grad_x[i] += grad_y[i];
			if (grad_table)
				grad_table[i % one] += grad_y[i];
		}
		return;
	}
	const real *x = ref_at(c->in[0]), *table = ref_at(c->in[1]);
	real *y = ref_at(c->out);
	uint64_t first = (uint64_t)c->past * s->dim[2];
	for (uint64_t i = 0; i < n; i++)
		y[i] = x[i] + table[first + i % one];
}
