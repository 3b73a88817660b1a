#include <math.h>
#include "kernels/cpu/cpu.h"

/*
 * Angles are needed once for all batches and heads of a position.  Only the first of every RUN
 * positions asks libm; the others turn on from the one before in double, so that a position's
 * angles are the same bits in training and token by token in generation.
 */
#define RUN 64
#define PAIRS 512 /* of a head at a time: what scratch is bounded by */

struct rope {
	struct device *d;
	uint64_t batch, seq, width, heads, size;
	uint64_t past;
	double theta;
	const float *from;
	float *to;
	bool back, add;
};

/* Cosines and sines of one position for some pairs, and of the way to the next position. */
struct angles {
	double cos[PAIRS], sin[PAIRS], step_cos[PAIRS], step_sin[PAIRS];
	float by_cos[PAIRS], by_sin[PAIRS];
};
_Static_assert(sizeof(struct angles) <= CPU_SCRATCH * sizeof(float), "must fit");

static void begin(
	const struct rope *s, struct angles *a, uint64_t position, uint64_t pair, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		double step = pow(s->theta, -2 * (double)(pair + i) / (double)s->size);
		a->cos[i] = cos((double)position * step);
		a->sin[i] = sin((double)position * step);
		a->step_cos[i] = cos(step);
		a->step_sin[i] = sin(step);
	}
}

static void next(struct angles *a, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		double c = a->cos[i] * a->step_cos[i] - a->sin[i] * a->step_sin[i];
		a->sin[i] = a->sin[i] * a->step_cos[i] + a->cos[i] * a->step_sin[i];
		a->cos[i] = c;
	}
}

/* One position of every sequence and head. */
static void turn(const struct rope *s, struct angles *a, uint64_t t, uint64_t pair, uint64_t n)
{
	const struct vec_turn by = {a->by_cos, a->by_sin, n, s->size / 2};
	double way = s->back ? -1 : 1;
	for (uint64_t i = 0; i < n; i++) {
		a->by_cos[i] = (float)a->cos[i];
		a->by_sin[i] = (float)(way * a->sin[i]);
	}
	for (uint64_t b = 0; b < s->batch; b++)
		for (uint64_t h = 0; h < s->heads; h++) {
			uint64_t at = (b * s->seq + t) * s->width + h * s->size + pair;
			s->d->vec->turn(s->to + at, s->from + at, &by, s->add);
		}
}

/* A tile: a run of positions. */
static void run(void *arg, size_t tile, unsigned thread)
{
	const struct rope *s = arg;
	struct angles *a = (void *)cpu_scratch(s->d, thread);
	uint64_t first = (s->past / RUN + tile) * RUN, pairs = s->size / 2;
	for (uint64_t pair = 0; pair < pairs; pair += PAIRS) {
		uint64_t n = pairs - pair < PAIRS ? pairs - pair : PAIRS;
		begin(s, a, first, pair, n);
		for (uint64_t p = first; p < first + RUN && p < s->past + s->seq; p++) {
			if (p >= s->past)
				turn(s, a, p - s->past, pair, n);
			next(a, n);
		}
	}
}

void cpu_rope(struct device *d, const struct kernel_call *c)
{
	const struct shape *x = cpu_shape(c, 0);
	struct rope s = {.d = d,
		.batch = x->dim[0],
		.seq = x->dim[1],
		.width = x->dim[2],
		.heads = c->node->heads,
		.size = x->dim[2] / c->node->heads,
		.past = c->past,
		.theta = (double)c->node->theta,
		.back = c->backward,
		.from = cpu_at(c->backward ? c->grad_out : c->in[0]),
		.to = cpu_at(c->backward ? c->grad_in[0] : c->out),
		.add = c->backward && cpu_adds(c, 0)};
	uint64_t runs = (s.past + s.seq - 1) / RUN - s.past / RUN + 1;
	cpu_tiles(d, runs, 2 * shape_count(x), run, &s);
}
