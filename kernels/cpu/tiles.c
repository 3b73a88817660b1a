#include <string.h>
#include "kernels/cpu/cpu.h"

#define TILE_COST (1u << 14) /* at least so much in a tile: a few microseconds */

void cpu_tiles(struct device *d, size_t tiles, uint64_t cost, pool_fn *fn, void *arg)
{
	if (cost >= CPU_INLINE_COST) {
		pool_run(d->pool, tiles, fn, arg);
		return;
	}
	for (size_t i = 0; i < tiles; i++)
		fn(arg, i, 0);
}

struct ranges {
	uint64_t n, each;
	cpu_range_fn *fn;
	void *arg;
};

static void range(void *arg, size_t tile, unsigned thread)
{
	(void)thread;
	const struct ranges *r = arg;
	uint64_t first = tile * r->each, left = r->n - first;
	r->fn(r->arg, (struct cpu_range){first, left < r->each ? left : r->each, tile});
}

void cpu_ranges(struct device *d, uint64_t n, uint64_t cost, cpu_range_fn *fn, void *arg)
{
	struct ranges r = {.n = n, .fn = fn, .arg = arg};
	uint64_t least = (n + CPU_TILES_MAX - 1) / CPU_TILES_MAX;
	r.each = TILE_COST / cost > least ? TILE_COST / cost : least;
	if (r.each > 16)
		r.each = (r.each + 15) / 16 * 16; /* whole registers, where items are floats */
	cpu_tiles(d, r.each ? (n + r.each - 1) / r.each : 0, n * cost, range, &r);
}

float *cpu_scratch(const struct device *d, unsigned thread)
{
	return (float *)(void *)d->scratch.base + (size_t)thread * CPU_SCRATCH;
}

struct floats {
	const struct vec *vec;
	float *to;
	const float *from;
	bool add;
};

static void zero_range(void *arg, struct cpu_range r)
{
	const struct floats *f = arg;
	memset(f->to + r.first, 0, r.n * sizeof *f->to);
}

void cpu_zero(struct device *d, float *x, uint64_t n)
{
	cpu_ranges(d, n, 1, zero_range, &(struct floats){.to = x});
}

static void hand_on_range(void *arg, struct cpu_range r)
{
	const struct floats *f = arg;
	float *to = f->to + r.first;
	if (f->add)
		f->vec->add(to, to, f->from + r.first, r.n);
	else
		memcpy(to, f->from + r.first, r.n * sizeof *to);
}

void cpu_hand_on(struct device *d, const struct kernel_call *c, uint32_t input)
{
	float *to = cpu_at(c->grad_in[input]);
	if (!to)
		return;
	struct floats f = {d->vec, to, cpu_at(c->grad_out), cpu_adds(c, input)};
	cpu_ranges(d, shape_count(cpu_shape(c, input)), 1, hand_on_range, &f);
}

struct pointwise {
	const struct cpu_pointwise *op;
	float *to; /* y, or the gradient of x */
	const float *read, *grad_y;
	bool add;
};

static void pointwise_there(void *arg, struct cpu_range r)
{
	const struct pointwise *s = arg;
	s->op->there(s->to + r.first, s->read + r.first, r.n);
}

static void pointwise_back(void *arg, struct cpu_range r)
{
	const struct pointwise *s = arg;
	s->op->back(s->to + r.first, s->grad_y + r.first, s->read + r.first, r.n, s->add);
}

void cpu_pointwise(struct device *d, const struct kernel_call *c, const struct cpu_pointwise *op)
{
	struct pointwise s = {.op = op,
		.to = cpu_at(c->backward ? c->grad_in[0] : c->out),
		.read = cpu_at(c->in[0].mem ? c->in[0] : c->out),
		.grad_y = cpu_at(c->grad_out),
		.add = cpu_adds(c, 0)};
	cpu_ranges(d, shape_count(cpu_shape(c, 0)), op->cost,
		c->backward ? pointwise_back : pointwise_there, &s);
}
