/*
 * The definition of every op, in plain loops.  This text is compiled twice: reals are float in
 * "ref" and, with REF_DOUBLE, double in "ref64".  Whatever is computed between a load and a store
 * is computed in double, so that ref's results differ from ref64's by the rounding of what is
 * stored.
 */
#ifndef KERNELS_REF_H
#define KERNELS_REF_H
#include <stdint.h>
#include "kernels/backend.h"
#include "model/graph.h"

#ifdef REF_DOUBLE
typedef double real;
#define REF(name) ref64_##name
#define REF_TEXT "ref64"
#else
typedef float real;
#define REF(name) ref_##name
#define REF_TEXT "ref"
#endif

struct mem {
	void *base; /* a mapping of its own, without access but while a call runs */
	size_t bytes;
};

static inline real *ref_at(struct view v)
{
	return v.mem ? (real *)v.mem->base + v.at : NULL;
}

static inline const int32_t *ref_tokens(struct view v)
{
	return v.mem ? (const int32_t *)v.mem->base + v.at : NULL;
}

static inline const struct shape *ref_shape(const struct kernel_call *c, uint32_t input)
{
	return &c->graph->tensors[c->node->in[input]].shape;
}

/* Where a gradient goes: NULL when not wanted; zeroed first unless the call adds to it. */
static inline real *ref_grad(const struct kernel_call *c, uint32_t input)
{
	real *grad = ref_at(c->grad_in[input]);
	uint64_t n = grad && !(c->accumulate >> input & 1) ? shape_count(ref_shape(c, input)) : 0;
	for (uint64_t i = 0; i < n; i++)
		grad[i] = 0;
	return grad;
}

/* Element i of a gradient before this call, for gradients that may lie over in[input], which
 * zeroing would spoil. */
static inline real ref_before(
	const struct kernel_call *c, uint32_t input, const real *grad, uint64_t i)
{
	return c->accumulate >> input & 1 ? grad[i] : 0;
}

/* One kernel per op; forward or backward as the call says. */
#define X(id, name) void REF(name)(const struct kernel_call *c);
OP_LIST(X)
#undef X

double REF(norm2)(struct device *d, struct view x, uint64_t n);
void REF(adamw)(struct device *d, const struct adamw_call *call);
/* The memory of these views can be read and written until it is locked again. */
void REF(unlock)(const struct view *views, size_t n);
void REF(lock)(const struct view *views, size_t n);

#endif
