#include "kernels/ref/ref.h"

void REF(token_embed)(const struct kernel_call *c)
{
	uint64_t rows = shape_count(ref_shape(c, 0)), width = shape_last(ref_shape(c, 1));
	const int32_t *tokens = ref_tokens(c->in[0]);
	if (c->backward) {
		const real *grad_y = ref_at(c->grad_out);
		real *grad = ref_grad(c, 1);
		for (uint64_t r = 0; r < rows; r++)
			for (uint64_t i = 0; i < width; i++)
				grad[(uint64_t)tokens[r] * width + i] += grad_y[r * width + i];
		return;
	}
	const real *table = ref_at(c->in[1]);
	real *y = ref_at(c->out);
	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t i = 0; i < width; i++)
			y[r * width + i] = table[(uint64_t)tokens[r] * width + i];
}
