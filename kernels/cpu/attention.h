/*
 * Causal attention in blocks of queries by keys, so that no [T,T] matrix ever exists (Dao et al.,
 * "FlashAttention", 2022): forward keeps a running maximum and sum for each query and rescales what
 * it has when the maximum grows; backward makes the weights again from the saved logarithm of the
 * sum.  Blocks are copied side by side before they are used: rows of a model's width lie a
 * multiple of a few KiB apart, where few of them fit in a cache.
 */
#ifndef KERNELS_CPU_ATTENTION_H
#define KERNELS_CPU_ATTENTION_H
#include "kernels/cpu/cpu.h"
#include "model/attention_form.h"

#define ATTENTION_STRIPE VEC_WIDTH /* queries, or keys, that are treated alike at the edge */

/* One head's rows in a tensor: row t at at + t * step. */
struct attention_rows {
	float *at; /* NULL: not there */
	uint64_t step;
};

/* Where a tensor's heads are: that of sequence b and number h at at + b * batch + h * size. */
struct attention_tensor {
	float *at;
	uint64_t step, batch;
	bool add; /* a gradient: to be added to what is there */
};

struct attention {
	struct device *d;
	struct attention_form form;
	uint64_t past;
	uint64_t n_q, n_k; /* queries and keys of a block, multiples of ATTENTION_STRIPE */
	uint64_t padded;   /* a head's size up to a multiple of VEC_WIDTH */
	struct attention_tensor q, k, v, y;
	struct attention_tensor grad_q, grad_k, grad_v, grad_y;
	float *saved; /* [B][heads][T] logarithms of the sums; NULL in inference */
	float scale;
};

/* A block's place: queries [q, q + n_q) of the call, and keys [k, k + n_k) from the first. */
struct attention_place {
	uint64_t q, n_q, k, n_k;
};

void attention_back(struct attention *s);

static inline uint64_t attention_pad(uint64_t n)
{
	return (n + VEC_WIDTH - 1) / VEC_WIDTH * VEC_WIDTH;
}

static inline uint64_t attention_blocks(uint64_t rows, uint64_t block)
{
	return (rows + block - 1) / block;
}

static inline struct attention_rows attention_head(const struct attention *s,
	const struct attention_tensor *t, uint64_t sequence, uint64_t head)
{
	struct attention_rows r = {.step = t->step};
	if (t->at)
		r.at = t->at + sequence * t->batch + head * s->form.size;
	return r;
}

/* How many of the place's keys its i-th query sees; the others come after it. */
static inline uint64_t attention_seen(
	const struct attention *s, const struct attention_place *p, uint64_t i)
{
	uint64_t end = s->past + p->q + i + 1;
	return end > p->k ? cpu_least(end - p->k, p->n_k) : 0;
}

/* Whether some query of the place does not see some key.  At such an edge products are made stripe
 * by stripe, and leave out what no query of a stripe sees. */
static inline bool attention_edge(const struct attention *s, const struct attention_place *p)
{
	return attention_seen(s, p, 0) < p->n_k;
}

/* How many keys the stripe of n queries from first on sees, and which query, down to a whole
 * stripe, is the first to see this key of the place. */
static inline uint64_t attention_stripe_sees(
	const struct attention *s, const struct attention_place *p, uint64_t first, uint64_t n)
{
	return attention_seen(s, p, first + n - 1);
}

static inline uint64_t attention_first_seeing(
	const struct attention *s, const struct attention_place *p, uint64_t key)
{
	uint64_t q = s->past + p->q, k = p->k + key;
	return k > q ? (k - q) / ATTENTION_STRIPE * ATTENTION_STRIPE : 0;
}

/* Floats of scratch that a key, a query, and a pair of both take. */
struct attention_need {
	uint64_t key, query, pair;
};

/* The largest blocks up to these that fit in a thread's scratch; the keys give way first. */
void attention_choose_blocks(
	struct attention *s, uint64_t n_q, uint64_t n_k, struct attention_need need);

/* n rows from first on, side by side with zeros up to the padded size. */
void attention_copy(const struct attention *s, float *to, struct attention_rows from,
	uint64_t first, uint64_t n);
/* What attention_copy gave, turned: [size][step], with zeros behind n up to its padding. */
void attention_turn(
	const struct attention *s, float *to, uint64_t step, const float *from, uint64_t n);

#endif
