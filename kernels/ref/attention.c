#include <math.h>
#include "kernels/ref/ref.h"

/* One head of one sequence.  Row t of q is at q + t * q_step; keys and values lie alike in qkv or,
 * in generation, in the cache, where this call's rows follow the past ones. */
struct head {
	const real *q, *k, *v;
	uint64_t q_step, kv_step, size, past, rows;
	double scale;
};

static double dot(const real *a, const real *b, uint64_t n)
{
	double sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

static double score(const struct head *h, uint64_t t, uint64_t j)
{
	return h->scale * dot(h->q + t * h->q_step, h->k + j * h->kv_step, h->size);
}

/* Log of the sum of exponentials of the scores of row t, which sees keys 0 to past + t. */
static double log_sum_exp(const struct head *h, uint64_t t)
{
	double most = score(h, t, 0), sum = 0;
	for (uint64_t j = 1; j <= h->past + t; j++) {
		double s = score(h, t, j);
		most = s > most ? s : most;
	}
	for (uint64_t j = 0; j <= h->past + t; j++)
		sum += exp(score(h, t, j) - most);
	return most + log(sum);
}

static void forward_row(const struct head *h, uint64_t t, double lse, real *y)
{
	for (uint64_t i = 0; i < h->size; i++)
		y[i] = 0;
	for (uint64_t j = 0; j <= h->past + t; j++) {
		double p = exp(score(h, t, j) - lse);
		for (uint64_t i = 0; i < h->size; i++)
			y[i] += (real)(p * (double)h->v[j * h->kv_step + i]);
	}
}

struct head_grads {
	const real *y, *grad_y; /* rows of C */
	real *q, *k, *v;        /* rows of 3C */
};

/* With p the row's weights and d = grad_y: grad_v_j += p_j d; grad_score_j = p_j (d v_j - d y). */
static void backward_row(
	const struct head *h, uint64_t t, double lse, const struct head_grads *grad)
{
	uint64_t y_step = h->q_step / 3;
	const real *d = grad->grad_y + t * y_step;
	double mean = dot(d, grad->y + t * y_step, h->size);
	for (uint64_t j = 0; j <= t; j++) {
		double p = exp(score(h, t, j) - lse);
		double s = h->scale * p * (dot(d, h->v + j * h->kv_step, h->size) - mean);
		for (uint64_t i = 0; i < h->size; i++) {
			uint64_t at_t = t * h->q_step + i, at_j = j * h->kv_step + i;
			grad->q[at_t] += (real)(s * (double)h->k[at_j]);
			grad->k[at_j] += (real)(s * (double)h->q[at_t]);
			grad->v[at_j] += (real)(p * (double)d[i]);
		}
	}
}

/* This call's keys and values to their places behind the past ones. */
static void fill_cache(const struct kernel_call *c, const real *qkv, real *cache)
{
	const struct shape *s = ref_shape(c, 0);
	uint64_t width = s->dim[2] / 3, values = (uint64_t)s->dim[0] * c->cache_len * width;
	for (uint64_t b = 0; b < s->dim[0]; b++)
		for (uint64_t t = 0; t < s->dim[1]; t++) {
			const real *from = qkv + (b * s->dim[1] + t) * 3 * width + width;
			real *to = cache + (b * c->cache_len + c->past + t) * width;
			for (uint64_t i = 0; i < width; i++) {
				to[i] = from[i];
				to[values + i] = from[width + i];
			}
		}
}

static struct head head_of(const struct kernel_call *c, uint64_t b, uint64_t number)
{
	const struct shape *s = ref_shape(c, 0);
	const real *qkv = ref_at(c->in[0]), *cache = ref_at(c->cache);
	uint64_t width = s->dim[2] / 3, size = width / c->node->heads;
	struct head h = {.q_step = 3 * width, .size = size, .rows = s->dim[1]};
	h.scale = 1 / sqrt((double)size);
	h.q = qkv + b * h.rows * h.q_step + number * size;
	h.k = h.q + width;
	h.v = h.k + width;
	h.kv_step = h.q_step;
	if (cache) {
		h.past = c->past;
		h.k = cache + b * c->cache_len * width + number * size;
		h.v = h.k + (uint64_t)s->dim[0] * c->cache_len * width;
		h.kv_step = width;
	}
	return h;
}

static void forward_head(const struct kernel_call *c, uint64_t b, uint64_t number)
{
	struct head h = head_of(c, b, number);
	uint64_t width = h.q_step / 3;
	real *y = ref_at(c->out) + b * h.rows * width + number * h.size;
	real *saved = ref_at(c->saved);
	for (uint64_t t = 0; t < h.rows; t++) {
		double lse = log_sum_exp(&h, t);
		forward_row(&h, t, lse, y + t * width);
		if (saved)
			saved[(b * c->node->heads + number) * h.rows + t] = (real)lse;
	}
}

static void backward_head(const struct kernel_call *c, uint64_t b, uint64_t number, real *grad_qkv)
{
	struct head h = head_of(c, b, number);
	uint64_t width = h.q_step / 3, at_y = b * h.rows * width + number * h.size;
	real *grad_q = grad_qkv + b * h.rows * h.q_step + number * h.size;
	struct head_grads grad = {ref_at(c->out) + at_y, ref_at(c->grad_out) + at_y, grad_q,
		grad_q + width, grad_q + 2 * width};
	const real *saved = ref_at(c->saved) + (b * c->node->heads + number) * h.rows;
	for (uint64_t t = 0; t < h.rows; t++)
		backward_row(&h, t, (double)saved[t], &grad);
}

void REF(attention)(const struct kernel_call *c)
{
	real *cache = ref_at(c->cache), *grad = NULL;
	if (c->backward)
		grad = ref_grad(c, 0);
	else if (cache)
		fill_cache(c, ref_at(c->in[0]), cache);
	for (uint64_t b = 0; b < ref_shape(c, 0)->dim[0]; b++)
		for (uint64_t number = 0; number < c->node->heads; number++)
			if (c->backward)
				backward_head(c, b, number, grad);
			else
				forward_head(c, b, number);
}
