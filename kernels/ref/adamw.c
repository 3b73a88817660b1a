#include <math.h>
#include "kernels/ref/ref.h"

double REF(norm2)(struct device *d, struct view x, uint64_t n)
{
	(void)d;
	double sum = 0;
	REF(unlock)(&x, 1);
	const real *at = ref_at(x);
	for (uint64_t i = 0; i < n; i++)
		sum += (double)at[i] * (double)at[i];
	REF(lock)(&x, 1);
	return sum;
}

static double power(double base, uint64_t n)
{
	double result = 1;
	for (; n; n >>= 1, base *= base)
		if (n & 1)
			result *= base;
	return result;
}

void REF(adamw)(struct device *d, const struct adamw_call *c)
{
	(void)d;
	const struct view views[] = {c->param, c->grad, c->m, c->v};
	REF(unlock)(views, 4);
	real *param = ref_at(c->param), *m = ref_at(c->m), *v = ref_at(c->v);
	const real *grad = ref_at(c->grad);
	double bias1 = 1 - power(c->beta1, c->step), bias2 = 1 - power(c->beta2, c->step);
	for (uint64_t i = 0; i < c->n; i++) {
		double g = c->scale * (double)grad[i];
		double mi = c->beta1 * (double)m[i] + (1 - c->beta1) * g;
		double vi = c->beta2 * (double)v[i] + (1 - c->beta2) * g * g;
		double p = (double)param[i] * (1 - c->lr * c->weight_decay);
		m[i] = (real)mi;
		v[i] = (real)vi;
		param[i] = (real)(p - c->lr * (mi / bias1) / (sqrt(vi / bias2) + c->eps));
	}
	REF(lock)(views, 4);
}
