/*
 * What oneDNN makes of a shape takes it a millisecond; kept, it is found again in a fraction of a
 * microsecond.  Each thread keeps its own, so nobody waits for a lock, and at most KEPT_SLOTS of
 * them: a model has a few dozen shapes.
 */
#ifndef KERNELS_ONEDNN_KEPT_H
#define KERNELS_ONEDNN_KEPT_H
#include <dnnl.h>
#include <stdbool.h>
#include <stdint.h>

#define KEPT_SLOTS 512u

enum kept_kind { KEPT_float32, KEPT_bf16, KEPT_pack, KEPT_turn };

/* Compared as bytes: set it whole from zeros. */
struct kept_key {
	uint64_t kind, m, n, k;
	uint64_t a_step, b_step, c_step;
	uint64_t a_turned, b_turned, add;
};

/* Source, weights and destination; of a reorder the first and the last. */
enum { KEPT_A, KEPT_B, KEPT_C, KEPT_MEMORIES };

struct kept {
	struct kept_key key;
	dnnl_primitive_t primitive; /* NULL: an empty slot */
	dnnl_memory_t memory[KEPT_MEMORIES];
	uint64_t used; /* the thread's clock when it last was */
};

struct kept_table {
	struct kept slots[KEPT_SLOTS];
	uint64_t clock;
};

/* Fills primitive and memory for the key. */
typedef void kept_make_fn(struct kept *k, dnnl_engine_t engine);

struct kept *kept_find(
	struct kept_table *t, const struct kept_key *key, kept_make_fn *make, dnnl_engine_t engine);
void kept_release(struct kept_table *t);

#endif
