#include <math.h>
#include "kernels/cpu/cpu.h"

struct squares {
	struct device *d;
	const float *x;
};

static void square_range(void *arg, struct cpu_range r)
{
	const struct squares *s = arg;
	s->d->partial[r.tile] = s->d->vec->sum_squares(s->x + r.first, r.n);
}

double cpu_norm2(struct device *d, struct view x, uint64_t n)
{
	for (size_t i = 0; i < CPU_TILES_MAX; i++)
		d->partial[i] = 0;
	cpu_ranges(d, n, 1, square_range, &(struct squares){d, cpu_at(x)});
	double sum = 0;
	for (size_t i = 0; i < CPU_TILES_MAX; i++)
		sum += d->partial[i];
	return sum;
}

struct step {
	const struct vec *vec;
	struct vec_moments at;
	struct vec_adamw c;
};

static void step_range(void *arg, struct cpu_range r)
{
	const struct step *s = arg;
	struct vec_moments at = s->at;
	at.param += r.first;
	at.m += r.first;
	at.v += r.first;
	at.grad += r.first;
	s->vec->adamw(&at, &s->c, r.n);
}

/* By squaring, so that the same step gives the same bits with any libm. */
static double power(double base, uint64_t n)
{
	double result = 1;
	for (; n; n >>= 1, base *= base)
		if (n & 1)
			result *= base;
	return result;
}

void cpu_adamw(struct device *d, const struct adamw_call *c)
{
	double bias1 = 1 - power(c->beta1, c->step), bias2 = 1 - power(c->beta2, c->step);
	struct step s = {.vec = d->vec,
		.at = {cpu_at(c->param), cpu_at(c->m), cpu_at(c->v), cpu_at(c->grad)},
		.c = {.beta1 = (float)c->beta1,
			.one_less_beta1 = (float)(1 - c->beta1),
			.beta2 = (float)c->beta2,
			.one_less_beta2 = (float)(1 - c->beta2),
			.scale = (float)c->scale,
			.decay = (float)(1 - c->lr * c->weight_decay),
			.rate = (float)(c->lr / bias1),
			.root = (float)(1 / sqrt(bias2)),
			.eps = (float)c->eps}};
	cpu_ranges(d, c->n, 1, step_range, &s);
}
