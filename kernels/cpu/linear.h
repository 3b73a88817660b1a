/* What the two ways to compute "linear" share. */
#ifndef KERNELS_CPU_LINEAR_H
#define KERNELS_CPU_LINEAR_H
#include "kernels/cpu/cpu.h"

/* A call's arrays, by rows of the shapes in op.h; a gradient that is not wanted is NULL. */
struct linear {
	struct device *d;
	uint64_t rows, in, out;
	const float *x, *weight, *bias, *grad_y;
	float *y, *grad_x, *grad_weight;
	bool add_x, add_weight;
};

/* Whether this one is computed in bf16: the device does, and it pays. */
bool cpu_linear_takes_bf16(const struct linear *s);
void cpu_linear_bf16_forward(const struct linear *s);
/* Gradients of x and the weight. */
void cpu_linear_bf16_backward(const struct linear *s);

#endif
