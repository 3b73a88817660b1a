/* The inside of an executor, and how its kernel calls get their views: where the plan has put each
 * value, gradient and statistics. */
#ifndef KERNELS_EXEC_WIRE_H
#define KERNELS_EXEC_WIRE_H
#include "kernels/exec.h"
#include "model/memplan.h"

#define EXEC_NOT_BEGUN UINT32_MAX

struct exec {
	const struct graph *g;
	struct params *params;
	const struct backend *backend;
	struct device *device;
	enum exec_mode mode;
	struct segments segs;
	struct memplan plan;
	struct mem *arena, *inputs, *targets; /* inputs: tokens or images */
	/* By node; a call without node: not ours, or not needed. */
	struct kernel_call *forward, *again, *backward;
	bool *has_value, *has_grad; /* by tensor, of this micro-batch */
	bool evaluates;
	uint32_t passes; /* over segments since exec_begin: forward, then backward */
};

static inline bool exec_trains(const struct exec *x)
{
	return x->mode == EXEC_train || x->mode == EXEC_recompute;
}

/* Bytes of an input tensor; 0 for GRAPH_NONE and for one that a batch does not have. */
uint64_t exec_wire_input_size(const struct graph *g, const struct backend *b, uint32_t tensor);
/* Of tokens or images, which a graph does not have both. */
uint64_t exec_wire_inputs_size(const struct graph *g, const struct backend *b);
struct view exec_wire_value(const struct exec *x, uint32_t tensor);
/* {NULL, 0} where the tensor has no gradient. */
struct view exec_wire_grad(const struct exec *x, uint32_t tensor);
/* Takes the memory of an executor whose plan is made, and fills in its calls.  On failure the
 * caller frees what is there. */
enum err exec_wire(struct exec *x, struct why *why) MUST_CHECK;

#endif
