#include <math.h>
#include "kernels/ref/ref.h"

/* Element k of a channel: images lie channels apart, and each has area elements of it. */
struct size {
	uint64_t channels, area, count; /* count: of a channel over all images */
};

static struct size size_of(const struct kernel_call *c)
{
	const struct shape *s = ref_shape(c, 0);
	uint64_t area = s->rank == 4 ? (uint64_t)s->dim[2] * s->dim[3] : 1;
	return (struct size){s->dim[1], area, s->dim[0] * area};
}

static uint64_t place(struct size z, uint64_t channel, uint64_t k)
{
	return (k / z.area * z.channels + channel) * z.area + k % z.area;
}

struct stats {
	double mean, var, rstd;
};

static struct stats measure(const real *x, struct size z, uint64_t channel)
{
	struct stats s = {0};
	for (uint64_t k = 0; k < z.count; k++)
		s.mean += (double)x[place(z, channel, k)];
	s.mean /= (double)z.count;
	for (uint64_t k = 0; k < z.count; k++) {
		double d = (double)x[place(z, channel, k)] - s.mean;
		s.var += d * d;
	}
	s.var /= (double)z.count;
	return s;
}

static void move(const struct kernel_call *c, struct size z, uint64_t channel, struct stats s)
{
	real *mean = ref_at(c->in[3]) + channel, *var = ref_at(c->in[4]) + channel;
	double by = (double)c->node->momentum, n = (double)z.count;
	double unbiased = z.count > 1 ? s.var * n / (n - 1) : s.var;
	*mean = (real)((double)*mean + by * (s.mean - (double)*mean));
	*var = (real)((double)*var + by * (unbiased - (double)*var));
}

static void forward(const struct kernel_call *c, struct size z, uint64_t channel)
{
	const real *x = ref_at(c->in[0]);
	real *y = ref_at(c->out), *saved = ref_at(c->saved);
	double gain = (double)ref_at(c->in[1])[channel], bias = (double)ref_at(c->in[2])[channel];
	double var = (double)ref_at(c->in[4])[channel];
	struct stats s = {.mean = (double)ref_at(c->in[3])[channel], .var = var < 0 ? 0 : var};
	if (c->train) {
		s = measure(x, z, channel);
		if (!c->again)
			move(c, z, channel, s);
	}
	s.rstd = 1 / sqrt(s.var + (double)c->node->eps);
	for (uint64_t k = 0; k < z.count; k++) {
		uint64_t at = place(z, channel, k);
		y[at] = (real)(((double)x[at] - s.mean) * s.rstd * gain + bias);
	}
	if (saved) {
		saved[channel] = (real)s.mean;
		saved[z.channels + channel] = (real)s.rstd;
	}
}

struct grads {
	const real *y;
	real *x, *gain, *bias;
};

/* With h = (x - m) rstd: grad_x = gain rstd (grad_y - mean(grad_y) - h mean(grad_y h)). */
static void backward(
	const struct kernel_call *c, struct size z, uint64_t channel, const struct grads *grad)
{
	const real *x = ref_at(c->in[0]), *saved = ref_at(c->saved);
	double gain = (double)ref_at(c->in[1])[channel];
	double mean = (double)saved[channel], rstd = (double)saved[z.channels + channel];
	double sum = 0, sum_h = 0, n = (double)z.count;
	for (uint64_t k = 0; k < z.count; k++) {
		uint64_t at = place(z, channel, k);
		sum += (double)grad->y[at];
		sum_h += (double)grad->y[at] * ((double)x[at] - mean) * rstd;
	}
	for (uint64_t k = 0; k < z.count && grad->x; k++) {
		uint64_t at = place(z, channel, k);
		double h = ((double)x[at] - mean) * rstd;
		grad->x[at] +=
			(real)(gain * rstd * ((double)grad->y[at] - sum / n - h * sum_h / n));
	}
	if (grad->gain)
		grad->gain[channel] += (real)sum_h;
	if (grad->bias)
		grad->bias[channel] += (real)sum;
}

void REF(batchnorm)(const struct kernel_call *c)
{
	struct size z = size_of(c);
	struct grads grad = {0};
	if (c->backward)
		grad = (struct grads){
			ref_at(c->grad_out), ref_grad(c, 0), ref_grad(c, 1), ref_grad(c, 2)};
	for (uint64_t channel = 0; channel < z.channels; channel++)
		if (c->backward)
			backward(c, z, channel, &grad);
		else
			forward(c, z, channel);
}
