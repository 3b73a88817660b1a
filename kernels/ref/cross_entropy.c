#include <math.h>
#include "kernels/ref/ref.h"

/* The mean is over so many rows; at least 1, so that a batch without targets has the loss 0. */
static double divisor(const struct kernel_call *c, const int32_t *targets, uint64_t rows)
{
	uint64_t counted = c->loss_rows;
	for (uint64_t r = 0; r < rows && !c->loss_rows; r++)
		counted += targets[r] >= 0;
	return counted ? (double)counted : 1;
}

static double log_sum_exp(const real *x, uint64_t n)
{
	double most = (double)x[0], sum = 0;
	for (uint64_t i = 1; i < n; i++)
		if ((double)x[i] > most)
			most = (double)x[i];
	for (uint64_t i = 0; i < n; i++)
		sum += exp((double)x[i] - most);
	return most + log(sum);
}

void REF(cross_entropy)(const struct kernel_call *c)
{
	uint64_t rows = shape_rows(ref_shape(c, 0)), n = shape_last(ref_shape(c, 0));
	const real *logits = ref_at(c->in[0]);
	const int32_t *targets = ref_tokens(c->in[1]);
	real *saved = ref_at(c->saved);
	double over = divisor(c, targets, rows), loss = 0;
	if (!c->backward) {
		for (uint64_t r = 0; r < rows; r++) {
			double lse = log_sum_exp(logits + r * n, n);
			if (targets[r] >= 0)
				loss += lse - (double)logits[r * n + (uint64_t)targets[r]];
			if (saved)
				saved[r] = (real)lse;
		}
		ref_at(c->out)[0] = (real)(loss / over);
		return;
	}
	double scale = (double)ref_at(c->grad_out)[0] / over;
	real *grad = ref_at(c->grad_in[0]);
	for (uint64_t at = 0; at < rows * n; at++) {
		uint64_t r = at / n, i = at % n;
		double p = exp((double)logits[at] - (double)saved[r]);
		double by = targets[r] < 0 ? 0 : scale * (p - (i == (uint64_t)targets[r]));
		grad[at] = ref_before(c, 0, grad, at) + (real)by;
	}
}
