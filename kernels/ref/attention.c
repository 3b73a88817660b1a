#include <math.h>
#include "kernels/ref/ref.h"
#include "model/attention_form.h"

/* One query head of one sequence and the key head that it reads.  Row t of q is at q + t * q_step;
 * keys and values lie in the inputs or, in generation, in the cache, where this call's rows follow
 * the past ones. */
struct head {
	const real *q, *k, *v;
	uint64_t q_step, kv_step, y_step, size, past, rows;
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

/* Where q, k and v of a call, or their gradients, begin.  NULL: not there, or not wanted. */
struct three {
	real *q, *k, *v;
};

static struct three three_of(const struct kernel_call *c, real *const in[3])
{
	struct attention_form f = attention_form(c->graph, c->node);
	if (c->node->n_in == 3)
		return (struct three){in[0], in[1], in[2]};
	real *k = in[0] ? in[0] + (uint64_t)f.heads * f.size : NULL;
	return (struct three){in[0], k, k ? k + (uint64_t)f.kv_heads * f.size : NULL};
}

struct head_grads {
	const real *y, *grad_y;
	struct three to;
};

/* With p the row's weights and d = grad_y: grad_v_j += p_j d; grad_score_j = p_j (d v_j - d y). */
static void backward_row(
	const struct head *h, uint64_t t, double lse, const struct head_grads *grad)
{
	const real *d = grad->grad_y + t * h->y_step;
	double mean = dot(d, grad->y + t * h->y_step, h->size);
	for (uint64_t j = 0; j <= t; j++) {
		double p = exp(score(h, t, j) - lse);
		double s = h->scale * p * (dot(d, h->v + j * h->kv_step, h->size) - mean);
		for (uint64_t i = 0; i < h->size; i++) {
			uint64_t at_t = t * h->q_step + i, at_j = j * h->kv_step + i;
			if (grad->to.q)
				grad->to.q[at_t] += (real)(s * (double)h->k[at_j]);
			if (grad->to.k)
				grad->to.k[at_j] += (real)(s * (double)h->q[at_t]);
			if (grad->to.v)
				grad->to.v[at_j] += (real)(p * (double)d[i]);
		}
	}
}

/* This call's keys and values to their places behind the past ones. */
static void fill_cache(const struct kernel_call *c, const struct three *in, real *cache)
{
	struct attention_form f = attention_form(c->graph, c->node);
	uint64_t width = (uint64_t)f.kv_heads * f.size;
	uint64_t values = (uint64_t)f.batch * c->cache_len * width;
	for (uint64_t b = 0; b < f.batch; b++)
		for (uint64_t t = 0; t < f.seq; t++) {
			uint64_t from = (b * f.seq + t) * f.kv_step;
			real *to = cache + (b * c->cache_len + c->past + t) * width;
			for (uint64_t i = 0; i < width; i++) {
				to[i] = in->k[from + i];
				to[values + i] = in->v[from + i];
			}
		}
}

static struct head head_of(
	const struct kernel_call *c, const struct three *in, uint64_t b, uint64_t number)
{
	struct attention_form f = attention_form(c->graph, c->node);
	uint64_t width = (uint64_t)f.kv_heads * f.size;
	uint64_t kv = number * f.kv_heads / f.heads * f.size;
	struct head h = {.q_step = f.q_step, .kv_step = f.kv_step, .size = f.size, .rows = f.seq};
	h.y_step = (uint64_t)f.heads * f.size;
	h.scale = 1 / sqrt((double)f.size);
	h.q = in->q + b * h.rows * h.q_step + number * f.size;
	h.k = in->k + b * h.rows * h.kv_step + kv;
	h.v = in->v + b * h.rows * h.kv_step + kv;
	const real *cache = ref_at(c->cache);
	if (cache) {
		h.past = c->past;
		h.k = cache + b * c->cache_len * width + kv;
		h.v = h.k + (uint64_t)f.batch * c->cache_len * width;
		h.kv_step = width;
	}
	return h;
}

static void forward_head(
	const struct kernel_call *c, const struct three *in, uint64_t b, uint64_t number)
{
	struct head h = head_of(c, in, b, number);
	real *y = ref_at(c->out) + b * h.rows * h.y_step + number * h.size;
	real *saved = ref_at(c->saved);
	for (uint64_t t = 0; t < h.rows; t++) {
		double lse = log_sum_exp(&h, t);
		forward_row(&h, t, lse, y + t * h.y_step);
		if (saved)
			saved[(b * c->node->heads + number) * h.rows + t] = (real)lse;
	}
}

static void backward_head(const struct kernel_call *c, const struct three *in,
	const struct three *grad_in, uint64_t b, uint64_t number)
{
	struct head h = head_of(c, in, b, number);
	uint64_t at_y = b * h.rows * h.y_step + number * h.size;
	struct head_grads grad = {ref_at(c->out) + at_y, ref_at(c->grad_out) + at_y, *grad_in};
	/* The gradients lie as the inputs do. */
	grad.to.q = grad.to.q ? grad.to.q + (h.q - in->q) : NULL;
	grad.to.k = grad.to.k ? grad.to.k + (h.k - in->k) : NULL;
	grad.to.v = grad.to.v ? grad.to.v + (h.v - in->v) : NULL;
	const real *saved = ref_at(c->saved) + (b * c->node->heads + number) * h.rows;
	for (uint64_t t = 0; t < h.rows; t++)
		backward_row(&h, t, (double)saved[t], &grad);
}

void REF(attention)(const struct kernel_call *c)
{
	real *in[3] = {0}, *grad_in[3] = {0};
	for (uint32_t i = 0; i < c->node->n_in; i++) {
		in[i] = ref_at(c->in[i]);
		grad_in[i] = c->backward ? ref_grad(c, i) : NULL;
	}
	const struct three at = three_of(c, in), grad = three_of(c, grad_in);
	if (!c->backward && c->cache.mem)
		fill_cache(c, &at, ref_at(c->cache));
	for (uint64_t b = 0; b < ref_shape(c, 0)->dim[0]; b++)
		for (uint64_t number = 0; number < c->node->heads; number++)
			if (c->backward)
				backward_head(c, &at, &grad, b, number);
			else
				forward_head(c, &at, b, number);
}
