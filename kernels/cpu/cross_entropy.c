#include <float.h>
#include <math.h>
#include <string.h>
#include "kernels/cpu/cpu.h"

struct losses {
	struct device *d;
	uint64_t width;
	const float *logits;
	const int32_t *targets;
	float *saved, *grad;
	float scale;
	bool add;
};

/* The mean is over so many rows; at least 1, so that a batch without targets has the loss 0. */
static double divisor(const struct kernel_call *c, const int32_t *targets, uint64_t rows)
{
	uint64_t counted = c->loss_rows;
	for (uint64_t r = 0; r < rows && !c->loss_rows; r++)
		counted += targets[r] >= 0;
	return counted ? (double)counted : 1;
}

#define PIECE 2048 /* logits that stay in the first cache between their maximum and their sum */

/* Log of the sum of exponentials of a row, which is read from memory once; no softmax is stored. */
static float log_sum(const struct vec *vec, const float *x, uint64_t n)
{
	float most = -FLT_MAX, sum = 0; /* so that a piece of -Inf is less by Inf, not by NaN */
	for (uint64_t i = 0; i < n; i += PIECE) {
		uint64_t piece = n - i < PIECE ? n - i : PIECE;
		float here = vec->max(x + i, piece);
		if (here > most) {
			sum *= expf(most - here);
			most = here;
		}
		sum += vec->sum_exp(x + i, most, piece);
	}
	return most + logf(sum);
}

static void forward(void *arg, struct cpu_range r)
{
	const struct losses *s = arg;
	double sum = 0;
	for (uint64_t row = r.first; row < r.first + r.n; row++) {
		const float *x = s->logits + row * s->width;
		if (s->targets[row] < 0)
			continue;
		float lse = log_sum(s->d->vec, x, s->width);
		sum += (double)lse - (double)x[s->targets[row]];
		if (s->saved)
			s->saved[row] = lse;
	}
	s->d->partial[r.tile] = sum;
}

/* The gradient may lie where the logits are. */
static void backward(void *arg, struct cpu_range r)
{
	const struct losses *s = arg;
	for (uint64_t row = r.first; row < r.first + r.n; row++) {
		float *grad = s->grad + row * s->width;
		if (s->targets[row] >= 0) {
			const float less_scale[] = {s->saved[row], s->scale};
			s->d->vec->softmax_back(
				grad, s->logits + row * s->width, less_scale, s->width, s->add);
			grad[s->targets[row]] -= s->scale;
		} else if (!s->add) {
			memset(grad, 0, s->width * sizeof *grad);
		}
	}
}

void cpu_cross_entropy(struct device *d, const struct kernel_call *c)
{
	uint64_t rows = shape_rows(cpu_shape(c, 0));
	struct losses s = {.d = d,
		.width = shape_last(cpu_shape(c, 0)),
		.logits = cpu_at(c->in[0]),
		.targets = cpu_tokens(c->in[1]),
		.saved = cpu_at(c->saved)};
	double over = divisor(c, s.targets, rows);
	if (c->backward) {
		s.grad = cpu_at(c->grad_in[0]);
		s.add = cpu_adds(c, 0);
		s.scale = (float)((double)cpu_at(c->grad_out)[0] / over);
		cpu_ranges(d, rows, 2 * s.width, backward, &s);
		return;
	}
	for (size_t i = 0; i < CPU_TILES_MAX; i++)
		d->partial[i] = 0;
	cpu_ranges(d, rows, 2 * s.width, forward, &s);
	double sum = 0;
	for (size_t i = 0; i < CPU_TILES_MAX; i++)
		sum += d->partial[i];
	cpu_at(c->out)[0] = (float)(sum / over);
}
