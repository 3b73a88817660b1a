#include <math.h>
#include "kernels/cpu/cpu.h"

struct channels {
	const struct vec *vec;
	uint64_t images, channels, area;
	const float *x, *gain, *bias, *grad_y;
	float *y, *saved, *mean, *var; /* mean, var: the buffers */
	float *grad_x, *grad_gain, *grad_bias;
	float eps, momentum;
	bool train, move; /* take this batch's statistics; move the buffers to them */
	bool add_x, add_gain, add_bias;
};

struct stats {
	double mean, var;
};

static uint64_t plane(const struct channels *s, uint64_t image, uint64_t channel)
{
	return (image * s->channels + channel) * s->area;
}

/* The planes of a channel are of one size, so its mean is the mean of theirs, and its variance that
 * of theirs and of their means. */
static struct stats measure(const struct channels *s, uint64_t channel)
{
	struct stats found = {0};
	double squares = 0;
	for (uint64_t n = 0; n < s->images; n++) {
		float part[2];
		s->vec->moments(s->x + plane(s, n, channel), s->area, part);
		/* The mean so far moves by a share of the difference: nothing cancels. */
		double off = (double)part[0] - found.mean, before = (double)n;
		found.mean += off / (before + 1);
		squares += (double)part[1] + off * off * before / (before + 1);
	}
	found.var = squares / (double)s->images;
	return found;
}

static void move(const struct channels *s, uint64_t channel, struct stats now)
{
	double n = (double)(s->images * s->area), by = (double)s->momentum;
	double mean = (double)s->mean[channel], var = (double)s->var[channel];
	double unbiased = n > 1 ? now.var * n / (n - 1) : now.var;
	s->mean[channel] = (float)(mean + by * (now.mean - mean));
	s->var[channel] = (float)(var + by * (unbiased - var));
}

static void forward(void *arg, struct cpu_range r)
{
	const struct channels *s = arg;
	for (uint64_t c = r.first; c < r.first + r.n; c++) {
		struct stats now = {(double)s->mean[c], s->var[c] < 0 ? 0 : (double)s->var[c]};
		if (s->train)
			now = measure(s, c);
		if (s->move)
			move(s, c, now);
		float rstd = (float)(1 / sqrt(now.var + (double)s->eps));
		struct vec_stretch by = {(float)now.mean, rstd * s->gain[c], s->bias[c]};
		for (uint64_t n = 0; n < s->images; n++)
			s->vec->stretch(s->y + plane(s, n, c), s->x + plane(s, n, c), &by, s->area);
		if (s->saved) {
			s->saved[c] = by.mean;
			s->saved[s->channels + c] = rstd;
		}
	}
}

/* With h = (x - m) rstd: grad_x = gain rstd (grad_y - mean(grad_y) - h mean(grad_y h)). */
static void backward(void *arg, struct cpu_range r)
{
	const struct channels *s = arg;
	double count = (double)(s->images * s->area);
	for (uint64_t c = r.first; c < r.first + r.n; c++) {
		float mean = s->saved[c], rstd = s->saved[s->channels + c];
		double sum = 0, sum_h = 0;
		for (uint64_t n = 0; n < s->images; n++) {
			uint64_t at = plane(s, n, c);
			float part[2];
			s->vec->stretch_sums(s->grad_y + at, s->x + at, mean, s->area, part);
			sum += (double)part[0];
			sum_h += (double)part[1] * (double)rstd;
		}
		const struct vec_stretch_back by = {.mean = mean,
			.factor = s->gain[c] * rstd,
			.less = (float)(sum / count),
			.slope = (float)(sum_h / count * (double)rstd),
			.add = s->add_x};
		for (uint64_t n = 0; n < s->images && s->grad_x; n++) {
			uint64_t at = plane(s, n, c);
			s->vec->stretch_back(
				s->grad_x + at, s->grad_y + at, s->x + at, &by, s->area);
		}
		if (s->grad_gain)
			s->grad_gain[c] = (s->add_gain ? s->grad_gain[c] : 0) + (float)sum_h;
		if (s->grad_bias)
			s->grad_bias[c] = (s->add_bias ? s->grad_bias[c] : 0) + (float)sum;
	}
}

void cpu_batchnorm(struct device *d, const struct kernel_call *c)
{
	const struct shape *x = cpu_shape(c, 0);
	struct channels s = {.vec = d->vec,
		.images = x->dim[0],
		.channels = x->dim[1],
		.area = (uint64_t)x->dim[2] * x->dim[3],
		.x = cpu_at(c->in[0]),
		.gain = cpu_at(c->in[1]),
		.saved = cpu_at(c->saved),
		.eps = c->node->eps};
	if (c->backward) {
		s.grad_y = cpu_at(c->grad_out);
		s.grad_x = cpu_at(c->grad_in[0]);
		s.grad_gain = cpu_at(c->grad_in[1]);
		s.grad_bias = cpu_at(c->grad_in[2]);
		s.add_x = cpu_adds(c, 0);
		s.add_gain = cpu_adds(c, 1);
		s.add_bias = cpu_adds(c, 2);
	} else {
		s.bias = cpu_at(c->in[2]);
		s.mean = cpu_at(c->in[3]);
		s.var = cpu_at(c->in[4]);
		s.y = cpu_at(c->out);
		s.momentum = c->node->momentum;
		s.train = c->train;
		s.move = c->train && !c->again;
	}
	/* Two or three passes over the channel's planes. */
	cpu_ranges(d, s.channels, 3 * s.images * s.area, c->backward ? backward : forward, &s);
}
