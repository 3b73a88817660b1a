/*
 * A backend computes ops on memory of its own.  Memory is named by handles: only backend_write,
 * backend_read and the kernels touch it, so a host pointer never works as a device pointer, nor the
 * other way round ("ref" keeps its memory unreadable between calls to prove it).  One thread calls
 * a device at a time.  Same inputs give the same bits for any thread count.  No call fails after
 * open except alloc: shapes were checked by the graph.
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "model/graph.h"
#include "model/precision.h"

/* ref64 is ref compiled for double: the definition, and what finite differences are taken with. */
#define BACKEND_LIST(X) X(ref) X(ref64) X(cpu)

struct device; /* an opened backend, opaque */
struct mem;    /* a piece of device memory, opaque */

/* Where a tensor is: elements (real_size bytes each; 4 for tokens) from the start of mem.  {NULL,
 * 0}: absent. */
struct view {
	struct mem *mem;
	uint64_t at;
};

/* One op, one direction.  in/out/saved follow the node; views of absent things are {NULL, 0}.  In
 * backward only what op_def says that backward reads is given.  No view overlaps another, but that
 * grad_in[i] may be in[i] itself where op_def.over_in allows it. */
struct kernel_call {
	const struct graph *graph;
	const struct node *node;
	bool backward;
	bool train; /* forward: batchnorm takes the batch's statistics, as in a training step */
	bool again; /* forward: a repeat for backward; buffers stay as they are */
	struct view in[NODE_IN_MAX];
	struct view out;
	struct view saved;    /* op_def.saved elements; absent when no backward will follow */
	struct view grad_out; /* backward; at the loss it holds 1 */
	struct view grad_in[NODE_IN_MAX]; /* backward; absent: not wanted */
	uint32_t accumulate;              /* backward; bit i: grad_in[i] += instead of = */
	/* cross_entropy: loss is divided, and gradients multiplied, as for a mean over loss_rows
	 * rows (the whole batch of all micro-batches); 0: over this call's counted rows. */
	uint64_t loss_rows;
	uint32_t past;      /* inference: tokens already in the cache */
	struct view cache;  /* attention in inference: keys then values, [2][B][Tmax][kv_heads D];
			       absent in training */
	uint32_t cache_len; /* Tmax */
};

/* AdamW on n elements (decoupled weight decay, bias correction by step, which counts from 1):
 * m = b1 m + (1-b1) s g; v = b2 v + (1-b2) (s g)^2; p -= lr wd p; p -= lr (m / (1-b1^t)) / (sqrt(v
 * / (1-b2^t)) + eps), with s the clipping factor. */
struct adamw_call {
	struct view param, grad, m, v;
	uint64_t n;
	double lr, beta1, beta2, eps, weight_decay, scale;
	uint64_t step;
};

struct backend_config {
	unsigned threads; /* 0: one per core allowed */
	/* A backend that cannot, or for which it does not pay (small products), stays with float32.
	 */
	enum precision precision;
};

struct backend {
	const char *name;
	size_t real_size; /* 4 or 8 */
	enum err (*open)(const struct backend_config *config, struct device **out, struct why *why);
	void (*close)(struct device *d); /* NULL-safe; all mem must be freed before */
	enum err (*alloc)(struct device *d, size_t bytes, struct mem **out); /* zeroed; ERR_nomem */
	void (*free)(struct device *d, struct mem *m);                       /* NULL-safe */
	void (*write)(struct device *d, struct mem *to, size_t at, const void *from,
		size_t bytes); /* at in bytes */
	void (*read)(struct device *d, const struct mem *from, size_t at, void *to, size_t bytes);
	void (*zero)(struct device *d, struct mem *m, size_t at, size_t bytes);
	bool (*supports)(const struct device *d, const struct graph *g, const struct node *n);
	void (*run)(struct device *d, const struct kernel_call *call);
	/* Sum of squares of n elements, in double, in a fixed order. */
	double (*norm2)(struct device *d, struct view x, uint64_t n);
	void (*adamw)(struct device *d, const struct adamw_call *call);
	/* Bytes that the device itself takes at most, beside what was allocated. */
	uint64_t (*own)(const struct device *d);
	/* A line for people: "cpu: 2 threads, AVX-512, OpenBLAS 0.3.21". */
	void (*describe)(const struct device *d, char *out, size_t size);
};

#define X(name) extern const struct backend name##_backend;
BACKEND_LIST(X)
#undef X

const struct backend *backend_find(const char *name); /* NULL when unknown */
const struct backend *backend_at(size_t i);           /* NULL beyond the last */

#endif
