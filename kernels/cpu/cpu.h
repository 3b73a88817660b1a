/*
 * The inside of the "cpu" backend: device, tiles, and one kernel per op.  Work is cut into tiles by
 * its shape alone and every tile's arithmetic has a fixed order, so any number of threads gives the
 * same bits.  Reals are floats; nothing here fails.
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/pool.h"
#include "kernels/backend.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/vec.h"
#include "model/graph.h"

#define CPU_TILES_MAX 1024     /* of one cpu_ranges */
#define CPU_SCRATCH (1u << 17) /* floats of each thread */
#define CPU_HEAD_MAX 1000      /* size of a head of attention */
/* For factors of products in bf16: so many areas of so many elements. */
#define CPU_HALF_AREAS 6
#define CPU_HALF_AREA (1u << 24)

struct mem {
	struct arena arena; /* a mapping of its own, used as a whole */
};

struct device {
	struct pool *pool;
	struct products products;
	bool wants_bf16;
	bool bf16; /* wanted, and the plug-in has it */
	const struct vec *vec;
	struct arena scratch;          /* CPU_SCRATCH floats for each thread */
	struct arena halves;           /* with bf16: CPU_HALF_AREAS of CPU_HALF_AREA */
	double partial[CPU_TILES_MAX]; /* sums of the tiles of one cpu_ranges */
};

/* Costs are counted in units of what one float takes in a simple loop, an eighth to a quarter of a
 * nanosecond; a product makes CPU_UNIT_FLOPS in it.  They only decide where tiles end and whether
 * waking the threads is worth it: a sleeping virtual core was seen to take 40 us to come, so less
 * than about twice that is done by the caller alone. */
#define CPU_UNIT_FLOPS 32
#define CPU_INLINE_COST (1u << 19)
void cpu_tiles(struct device *d, size_t tiles, uint64_t cost, pool_fn *fn, void *arg);

struct cpu_range {
	uint64_t first, n;
	size_t tile; /* below CPU_TILES_MAX */
};
typedef void cpu_range_fn(void *arg, struct cpu_range r);
/* Items [0, n), each of so many units, cut into at most CPU_TILES_MAX ranges. */
void cpu_ranges(struct device *d, uint64_t n, uint64_t cost, cpu_range_fn *fn, void *arg);

/* A part of the rows, columns or channels of something. */
struct cpu_span {
	uint64_t first, n;
};

static inline uint64_t cpu_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The i-th of the pieces, each of so many, that size is cut into. */
static inline struct cpu_span cpu_span_of(uint64_t size, uint64_t each, size_t i)
{
	uint64_t first = i * each;
	return (struct cpu_span){first, cpu_least(each, size - first)};
}

float *cpu_scratch(const struct device *d, unsigned thread);

static inline void cpu_product(const struct device *d, unsigned thread, const struct product *p)
{
	product_run(&d->products, thread, p);
}

static inline float *cpu_at(struct view v)
{
	return v.mem ? (float *)(void *)v.mem->arena.base + v.at : NULL;
}

static inline const int32_t *cpu_tokens(struct view v)
{
	return (const int32_t *)(const void *)v.mem->arena.base + v.at;
}

static inline const struct shape *cpu_shape(const struct kernel_call *c, uint32_t input)
{
	return &c->graph->tensors[c->node->in[input]].shape;
}

/* Whether this gradient is to be added to what is there. */
static inline bool cpu_adds(const struct kernel_call *c, uint32_t input)
{
	return c->accumulate >> input & 1;
}

#define X(id, name) void cpu_##name(struct device *d, const struct kernel_call *c);
OP_LIST(X)
#undef X

/* An op of one input, element by element. */
struct cpu_pointwise {
	void (*there)(float *y, const float *x, size_t n);
	/* The gradient of x = (or +=), from that of y and what the op's backward reads: x or y. */
	void (*back)(float *grad, const float *grad_y, const float *read, size_t n, bool more);
	uint64_t cost; /* of an element */
};
void cpu_pointwise(struct device *d, const struct kernel_call *c, const struct cpu_pointwise *op);
/* y's gradient is the input's gradient too: hand it on, where it is wanted. */
void cpu_hand_on(struct device *d, const struct kernel_call *c, uint32_t input);
void cpu_zero(struct device *d, float *x, uint64_t n);
double cpu_norm2(struct device *d, struct view x, uint64_t n);
void cpu_adamw(struct device *d, const struct adamw_call *c);

/* As backend.open, with this plug-in for products (its path; NULL: none). */
enum err cpu_open_with(const struct backend_config *config, const char *plugin, struct device **out,
	struct why *why) MUST_CHECK;

/* Every op both ways, AdamW and the norm on small made-up tensors against ref.  ERR_unsupported
 * names the first that differs; ERR_nomem. */
enum err cpu_selftest(struct device *d, struct why *why) MUST_CHECK;

#endif
