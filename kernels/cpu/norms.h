/* What layernorm and rmsnorm share: rows, each with numbers that forward saves, and their backward.
 */
#ifndef KERNELS_CPU_NORMS_H
#define KERNELS_CPU_NORMS_H
#include "kernels/cpu/cpu.h"

struct cpu_norms {
	const struct vec *vec;
	uint64_t rows, width;
	const float *x, *gain, *bias, *grad_y;
	float *y;
	float *saved; /* [rows][each]: the mean, if each is 2, and the factor rstd (vec.h) */
	unsigned each;
	float *grad_x, *grad_gain, *grad_bias;
	float eps;
	bool add_x;
	/* The gradient of a row of x. */
	void (*back)(float *grad, const struct vec_norm *row, const float *grad_y, bool more);
};

/* Of a call's inputs; each, and back, are the caller's. */
struct cpu_norms cpu_norms_of(const struct device *d, const struct kernel_call *c);
void cpu_norms_backward(struct device *d, const struct kernel_call *c, struct cpu_norms *s);

#endif
