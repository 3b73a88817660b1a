#include <math.h>
#include <string.h>
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu.h"

/*
 * Causal attention in blocks of queries by keys, so that no [T,T] matrix ever exists (Dao et al.,
 * "FlashAttention", 2022): forward keeps a running maximum and sum for each query and rescales what
 * it has when the maximum grows; backward makes the weights again from the saved logarithm of the
 * sum.  The blocks' products are the library's; of 32, 64, 96 and 128 this size was the fastest or
 * near it from 64 to 4096 tokens.
 */
#define BLOCK 96

struct attention {
	struct device *d;
	uint64_t batch, seq, heads, size, width, past;
	uint64_t blocks; /* of queries in a sequence */
	const float *qkv, *keys, *values;
	uint64_t kv_step, kv_batch; /* floats from a key to the next, from a sequence to the next */
	float *y, *saved, *cache, *grad_qkv;
	uint64_t cache_len;
	const float *grad_y;
	float scale;
	bool add;
};

/* What one thread needs for a block: weights, their gradient, and numbers for each query. */
struct block {
	float weights[BLOCK * BLOCK], grads[BLOCK * BLOCK];
	float most[BLOCK], sum[BLOCK], mean[BLOCK];
};
_Static_assert(sizeof(struct block) <= CPU_SCRATCH * sizeof(float), "must fit");

/* One head of one sequence. */
struct head {
	const float *q, *k, *v;
	uint64_t q_step, kv_step;
	uint64_t at_y; /* first element of y, and of its gradient */
	uint64_t at_q; /* of qkv's gradient */
	uint64_t at_saved;
};

static struct head head_of(const struct attention *s, uint64_t number)
{
	uint64_t b = number / s->heads, h = number % s->heads;
	struct head head = {.q_step = 3 * s->width, .kv_step = s->kv_step};
	head.at_q = b * s->seq * head.q_step + h * s->size;
	head.q = s->qkv + head.at_q;
	head.k = s->keys + b * s->kv_batch + h * s->size;
	head.v = s->values + b * s->kv_batch + h * s->size;
	head.at_y = b * s->seq * s->width + h * s->size;
	head.at_saved = number * s->seq;
	return head;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A block's place: queries [q, q + n_q) of the call against keys [k, k + n_k) from the first. */
struct place {
	uint64_t q, n_q, k, n_k;
};

/* How many of the block's keys the i-th of its queries sees; the others come after it. */
static uint64_t seen(const struct attention *s, const struct place *p, uint64_t i)
{
	uint64_t end = s->past + p->q + i + 1;
	return end > p->k ? least(end - p->k, p->n_k) : 0;
}

static void scores(
	const struct attention *s, const struct head *h, const struct place *p, float *to)
{
	blas_product(&(struct product){
		.m = p->n_q,
		.n = p->n_k,
		.k = s->size,
		.a = {h->q + p->q * h->q_step, h->q_step, false},
		.b = {h->k + p->k * h->kv_step, h->kv_step, true},
		.alpha = s->scale,
		.c = to,
		.c_step = BLOCK,
	});
}

/* Scores become weights relative to the running maximum. */
static void forward_row(
	const struct attention *s, struct block *b, uint64_t i, uint64_t n, float *y)
{
	const struct vec *vec = s->d->vec;
	float *row = b->weights + i * BLOCK;
	float most = vec->max(row, n);
	if (most > b->most[i]) {
		float shrink = expf(b->most[i] - most); /* 0 at first: nothing is there yet */
		b->sum[i] *= shrink;
		if (shrink > 0)
			vec->scale(y, y, shrink, s->size);
		b->most[i] = most;
	}
	b->sum[i] += vec->exp_sum(row, b->most[i], n);
}

static void forward_block(
	const struct attention *s, const struct head *h, const struct place *p, struct block *b)
{
	float *y = s->y + h->at_y + p->q * s->width;
	scores(s, h, p, b->weights);
	for (uint64_t i = 0; i < p->n_q; i++) {
		uint64_t n = seen(s, p, i);
		if (n)
			forward_row(s, b, i, n, y + i * s->width);
		memset(b->weights + i * BLOCK + n, 0, (p->n_k - n) * sizeof *b->weights);
	}
	blas_product(&(struct product){
		.m = p->n_q,
		.n = s->size,
		.k = p->n_k,
		.a = {b->weights, BLOCK, false},
		.b = {h->v + p->k * h->kv_step, h->kv_step, false},
		.alpha = 1,
		.c = y,
		.c_step = s->width,
		.add = p->k > 0,
	});
}

/* A tile: one block of queries of one head. */
static void forward(void *arg, size_t tile, unsigned thread)
{
	const struct attention *s = arg;
	struct block *b = (void *)cpu_scratch(s->d, thread);
	struct head h = head_of(s, tile / s->blocks);
	struct place p = {.q = tile % s->blocks * BLOCK};
	p.n_q = least(BLOCK, s->seq - p.q);
	for (uint64_t i = 0; i < p.n_q; i++) {
		b->most[i] = -INFINITY;
		b->sum[i] = 0;
	}
	uint64_t keys = s->past + p.q + p.n_q;
	for (p.k = 0; p.k < keys; p.k += BLOCK) {
		p.n_k = least(BLOCK, keys - p.k);
		forward_block(s, &h, &p, b);
	}
	for (uint64_t i = 0; i < p.n_q; i++) {
		float *y = s->y + h.at_y + (p.q + i) * s->width;
		s->d->vec->scale(y, y, 1 / b->sum[i], s->size);
		if (s->saved)
			s->saved[h.at_saved + p.q + i] = b->most[i] + logf(b->sum[i]);
	}
}

/* With d the gradient of y: weights p = exp(score - lse), their gradients p (d v - d y) scale. */
static void backward_weights(
	const struct attention *s, const struct head *h, const struct place *p, struct block *b)
{
	const struct vec *vec = s->d->vec;
	scores(s, h, p, b->weights);
	blas_product(&(struct product){
		.m = p->n_q,
		.n = p->n_k,
		.k = s->size,
		.a = {s->grad_y + h->at_y + p->q * s->width, s->width, false},
		.b = {h->v + p->k * h->kv_step, h->kv_step, true},
		.alpha = 1,
		.c = b->grads,
		.c_step = BLOCK,
	});
	for (uint64_t i = 0; i < p->n_q; i++) {
		float *weights = b->weights + i * BLOCK, *grads = b->grads + i * BLOCK;
		uint64_t n = seen(s, p, i), rest = (p->n_k - n) * sizeof *weights;
		const float mean_scale[] = {b->mean[i], s->scale};
		vec->exp_sum(weights, s->saved[h->at_saved + p->q + i], n);
		vec->attend_back(grads, weights, mean_scale, n);
		memset(weights + n, 0, rest);
		memset(grads + n, 0, rest);
	}
}

static void backward_block(
	const struct attention *s, const struct head *h, const struct place *p, struct block *b)
{
	float *grad_q = s->grad_qkv + h->at_q + p->q * h->q_step;
	float *grad_k = s->grad_qkv + h->at_q + s->width + p->k * h->q_step;
	backward_weights(s, h, p, b);
	blas_product(&(struct product){
		.m = p->n_q,
		.n = s->size,
		.k = p->n_k,
		.a = {b->grads, BLOCK, false},
		.b = {h->k + p->k * h->kv_step, h->kv_step, false},
		.alpha = 1,
		.c = grad_q,
		.c_step = h->q_step,
		.add = s->add || p->k > 0,
	});
	/* Keys get their first share from the block on the diagonal. */
	struct product to_keys = {
		.m = p->n_k,
		.n = s->size,
		.k = p->n_q,
		.a = {b->grads, BLOCK, true},
		.b = {h->q + p->q * h->q_step, h->q_step, false},
		.alpha = 1,
		.c = grad_k,
		.c_step = h->q_step,
		.add = s->add || p->q > p->k,
	};
	blas_product(&to_keys);
	to_keys.a.at = b->weights;
	to_keys.b = (struct matrix){s->grad_y + h->at_y + p->q * s->width, s->width, false};
	to_keys.c = grad_k + s->width;
	blas_product(&to_keys);
}

/* A tile: one head with all its blocks in order, since they add to the same keys. */
static void backward(void *arg, size_t tile, unsigned thread)
{
	const struct attention *s = arg;
	struct block *b = (void *)cpu_scratch(s->d, thread);
	struct head h = head_of(s, tile);
	struct place p = {0};
	for (p.q = 0; p.q < s->seq; p.q += BLOCK) {
		p.n_q = least(BLOCK, s->seq - p.q);
		for (uint64_t i = 0; i < p.n_q; i++) {
			uint64_t at = h.at_y + (p.q + i) * s->width;
			b->mean[i] = s->d->vec->dot(s->grad_y + at, s->y + at, s->size);
		}
		for (p.k = 0; p.k < p.q + p.n_q; p.k += BLOCK) {
			p.n_k = least(BLOCK, p.q + p.n_q - p.k);
			backward_block(s, &h, &p, b);
		}
	}
}

/* This call's keys and values to their places behind the past ones. */
static void fill_cache(void *arg, struct cpu_range r)
{
	const struct attention *s = arg;
	uint64_t bytes = s->width * sizeof *s->cache, values = s->batch * s->cache_len * s->width;
	for (uint64_t row = r.first; row < r.first + r.n; row++) {
		uint64_t b = row / s->seq, t = row % s->seq;
		const float *from = s->qkv + row * 3 * s->width + s->width;
		float *to = s->cache + (b * s->cache_len + s->past + t) * s->width;
		memcpy(to, from, bytes);
		memcpy(to + values, from + s->width, bytes);
	}
}

static void use_cache(struct device *d, const struct kernel_call *c, struct attention *s)
{
	s->past = c->past;
	s->cache_len = c->cache_len;
	s->keys = s->cache;
	s->values = s->cache + s->batch * s->cache_len * s->width;
	s->kv_step = s->width;
	s->kv_batch = s->cache_len * s->width;
	cpu_ranges(d, s->batch * s->seq, 2 * s->width, fill_cache, s);
}

void cpu_attention(struct device *d, const struct kernel_call *c)
{
	const struct shape *qkv = cpu_shape(c, 0);
	struct attention s = {.d = d,
		.batch = qkv->dim[0],
		.seq = qkv->dim[1],
		.heads = c->node->heads,
		.width = qkv->dim[2] / 3,
		.qkv = cpu_at(c->in[0]),
		.y = cpu_at(c->out),
		.saved = cpu_at(c->saved),
		.cache = cpu_at(c->cache)};
	s.size = s.width / s.heads;
	s.scale = (float)(1 / sqrt((double)s.size));
	s.keys = s.qkv + s.width;
	s.values = s.keys + s.width;
	s.kv_step = 3 * s.width;
	s.kv_batch = s.seq * s.kv_step;
	s.blocks = (s.seq + BLOCK - 1) / BLOCK;
	uint64_t heads = s.batch * s.heads;
	if (c->backward) {
		s.grad_y = cpu_at(c->grad_out);
		s.grad_qkv = cpu_at(c->grad_in[0]);
		s.add = cpu_adds(c, 0);
		uint64_t cost = heads * s.seq * s.seq * s.size / CPU_UNIT_FLOPS * 10;
		cpu_tiles(d, heads, cost, backward, &s);
		return;
	}
	if (s.cache)
		use_cache(d, c, &s);
	uint64_t pairs = s.seq * (s.past + s.seq);
	cpu_tiles(d, heads * s.blocks, heads * pairs * s.size / CPU_UNIT_FLOPS * 4, forward, &s);
}
