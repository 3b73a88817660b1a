#include "kernels/cpu/attention.h"
#include <math.h>
#include <string.h>

/*
 * Forward.  Scores lie turned, [keys, queries]: each lane of a register is a query, so that maxima
 * and sums need nothing across lanes, and of all tensors only the queries must be turned, once.
 */
struct block {
	float *queries;             /* turned */
	float *scores;              /* [keys][queries] */
	float *keys, *values, *y;   /* rows of the padded size */
	float *most, *sum, *shrink; /* of each query */
};

static struct block block_in(const struct attention *s, float *scratch)
{
	struct block b = {.queries = scratch};
	b.scores = b.queries + s->n_q * s->form.size;
	b.keys = b.scores + s->n_q * s->n_k;
	b.values = b.keys + s->n_k * s->padded;
	b.y = b.values + s->n_k * s->padded;
	b.most = b.y + s->n_q * s->padded;
	b.sum = b.most + s->n_q;
	b.shrink = b.sum + s->n_q;
	return b;
}

void attention_choose_blocks(
	struct attention *s, uint64_t n_q, uint64_t n_k, struct attention_need need)
{
	while (n_k * need.key + n_q * need.query + n_q * n_k * need.pair > CPU_SCRATCH)
		if (n_k > ATTENTION_STRIPE)
			n_k /= 2;
		else
			n_q /= 2;
	s->n_q = n_q;
	s->n_k = n_k;
}

void attention_copy(const struct attention *s, float *to, struct attention_rows from,
	uint64_t first, uint64_t n)
{
	s->d->vec->gather(
		to, &(struct vec_rows){from.at + first * from.step, from.step, n, s->form.size});
}

void attention_turn(
	const struct attention *s, float *to, uint64_t step, const float *from, uint64_t n)
{
	uint64_t padded = attention_pad(n);
	for (uint64_t x = 0; x < s->form.size; x++) {
		float *row = to + x * step;
		for (uint64_t i = 0; i < n; i++)
			row[i] = from[i * s->padded + x];
		for (uint64_t i = n; i < padded; i++)
			row[i] = 0;
	}
}

/* Queries before a key of the block do not see it: their scores for it become fill. */
static void mask(
	const struct attention *s, const struct attention_place *p, struct block *b, float fill)
{
	for (uint64_t j = 0; j < p->n_k; j++)
		for (uint64_t i = 0; s->past + p->q + i < p->k + j && i < p->n_q; i++)
			b->scores[j * s->n_q + i] = fill;
}

static void products_with_keys(
	const struct attention *s, const struct attention_place *p, struct block *b)
{
	uint64_t stripe = attention_edge(s, p) ? ATTENTION_STRIPE : p->n_k;
	for (uint64_t j = 0; j < p->n_k; j += stripe) {
		uint64_t first = attention_first_seeing(s, p, j);
		if (first >= p->n_q)
			break;
		s->d->vec->multiply(&(struct vec_multiply){.m = cpu_least(stripe, p->n_k - j),
			.n = attention_pad(p->n_q - first),
			.k = s->form.size,
			.a = b->keys + j * s->padded,
			.a_row = s->padded,
			.a_column = 1,
			.b = b->queries + first,
			.b_step = s->n_q,
			.alpha = s->scale,
			.c = b->scores + j * s->n_q + first,
			.c_step = s->n_q});
	}
}

static void products_with_values(
	const struct attention *s, const struct attention_place *p, struct block *b)
{
	uint64_t stripe = attention_edge(s, p) ? ATTENTION_STRIPE : p->n_q;
	for (uint64_t i = 0; i < p->n_q; i += stripe) {
		uint64_t rows = cpu_least(stripe, p->n_q - i);
		s->d->vec->multiply(&(struct vec_multiply){.m = rows,
			.n = s->padded,
			.k = attention_stripe_sees(s, p, i, rows),
			.a = b->scores + i,
			.a_row = 1,
			.a_column = s->n_q,
			.b = b->values,
			.b_step = s->padded,
			.alpha = 1,
			.c = b->y + i * s->padded,
			.c_step = s->padded,
			.add = p->k > 0});
	}
}

static void forward_block(const struct attention *s, const struct attention_place *p,
	struct block *b, struct attention_rows keys, struct attention_rows values)
{
	const struct vec *vec = s->d->vec;
	bool edge = attention_edge(s, p);
	attention_copy(s, b->keys, keys, p->k, p->n_k);
	products_with_keys(s, p, b);
	if (edge)
		mask(s, p, b, -INFINITY);
	vec->softmax_columns(&(struct vec_softmax){.scores = b->scores,
		.step = s->n_q,
		.keys = p->n_k,
		.queries = attention_pad(p->n_q),
		.most = b->most,
		.sum = b->sum,
		.shrink = b->shrink});
	if (edge)
		mask(s, p, b, 0);
	for (uint64_t i = 0; i < p->n_q && p->k; i++) {
		float *y = b->y + i * s->padded;
		if (b->shrink[i] != 1)
			vec->scale(y, y, b->shrink[i], s->padded);
	}
	attention_copy(s, b->values, values, p->k, p->n_k);
	products_with_values(s, p, b);
}

/* A tile: one block of queries of one head, whose keys stay in the cache for the next tile. */
static void forward(void *arg, size_t tile, unsigned thread)
{
	const struct attention *s = arg;
	struct block b = block_in(s, cpu_scratch(s->d, thread));
	uint64_t blocks = attention_blocks(s->form.seq, s->n_q), number = tile / blocks;
	uint64_t sequence = number / s->form.heads, head = number % s->form.heads;
	uint64_t kv_head = head / (s->form.heads / s->form.kv_heads);
	struct attention_rows k = attention_head(s, &s->k, sequence, kv_head);
	struct attention_rows v = attention_head(s, &s->v, sequence, kv_head);
	struct attention_rows y = attention_head(s, &s->y, sequence, head);
	struct attention_place p = {0};
	p.q = (blocks - 1 - tile % blocks) * s->n_q; /* long ones first */
	p.n_q = cpu_least(s->n_q, s->form.seq - p.q);
	attention_copy(s, b.y, attention_head(s, &s->q, sequence, head), p.q, p.n_q);
	attention_turn(s, b.queries, s->n_q, b.y, p.n_q);
	for (uint64_t i = 0; i < s->n_q; i++) {
		b.most[i] = -INFINITY;
		b.sum[i] = 0;
	}
	uint64_t keys = s->past + p.q + p.n_q;
	for (p.k = 0; p.k < keys; p.k += s->n_k) {
		p.n_k = cpu_least(s->n_k, keys - p.k);
		forward_block(s, &p, &b, k, v);
	}
	for (uint64_t i = 0; i < p.n_q; i++) {
		s->d->vec->scale(
			y.at + (p.q + i) * y.step, b.y + i * s->padded, 1 / b.sum[i], s->form.size);
		if (s->saved)
			s->saved[number * s->form.seq + p.q + i] = b.most[i] + logf(b.sum[i]);
	}
}

struct filling {
	const struct attention *s;
	struct attention_tensor k, v; /* in the cache */
	uint64_t width;
};

/* This call's keys and values to their places behind the past ones. */
static void fill_cache(void *arg, struct cpu_range r)
{
	const struct filling *f = arg;
	const struct attention *s = f->s;
	for (uint64_t row = r.first; row < r.first + r.n; row++) {
		uint64_t b = row / s->form.seq, t = row % s->form.seq;
		uint64_t from = b * s->k.batch + t * s->k.step;
		uint64_t to = b * f->k.batch + (s->past + t) * f->k.step;
		memcpy(f->k.at + to, s->k.at + from, f->width * sizeof *f->k.at);
		memcpy(f->v.at + to, s->v.at + from, f->width * sizeof *f->v.at);
	}
}

static void use_cache(const struct kernel_call *c, struct attention *s)
{
	struct filling f = {.s = s, .width = (uint64_t)s->form.kv_heads * s->form.size};
	f.k = (struct attention_tensor){
		.at = cpu_at(c->cache), .step = f.width, .batch = c->cache_len * f.width};
	f.v = f.k;
	f.v.at += s->form.batch * f.k.batch;
	s->past = c->past;
	cpu_ranges(s->d, (uint64_t)s->form.batch * s->form.seq, 2 * f.width, fill_cache, &f);
	s->k = f.k;
	s->v = f.v;
}

/* The three inputs, or their gradients, whether in tensors of their own or side by side in one. */
static void place(const struct attention *s, const struct kernel_call *c, const struct view *in,
	struct attention_tensor to[3])
{
	const struct attention_form *f = &s->form;
	uint64_t heads = 0;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t input = c->node->n_in == 1 ? 0 : i;
		uint64_t step = i ? f->kv_step : f->q_step;
		to[i] = (struct attention_tensor){
			.at = cpu_at(in[input]), .step = step, .batch = f->seq * step};
		to[i].add = cpu_adds(c, input);
		if (c->node->n_in == 1 && to[i].at)
			to[i].at += heads * f->size;
		heads += i ? f->kv_heads : f->heads;
	}
}

void cpu_attention(struct device *d, const struct kernel_call *c)
{
	struct attention s = {
		.d = d, .form = attention_form(c->graph, c->node), .saved = cpu_at(c->saved)};
	struct attention_tensor in[3];
	uint64_t width = (uint64_t)s.form.heads * s.form.size;
	s.padded = attention_pad(s.form.size);
	s.scale = (float)(1 / sqrt((double)s.form.size));
	attention_choose_blocks(&s, 64, 64,
		(struct attention_need){
			.key = 2 * s.padded, .query = s.form.size + s.padded + 3, .pair = 1});
	place(&s, c, c->in, in);
	s.q = in[0];
	s.k = in[1];
	s.v = in[2];
	s.y = (struct attention_tensor){
		.at = cpu_at(c->out), .step = width, .batch = s.form.seq * width};
	if (c->backward) {
		place(&s, c, c->grad_in, in);
		s.grad_q = in[0];
		s.grad_k = in[1];
		s.grad_v = in[2];
		s.grad_y = s.y;
		s.grad_y.at = cpu_at(c->grad_out);
		attention_back(&s);
		return;
	}
	if (c->cache.mem)
		use_cache(c, &s);
	uint64_t heads = (uint64_t)s.form.batch * s.form.heads;
	uint64_t pairs = s.form.seq * (s.past + s.form.seq);
	cpu_tiles(d, heads * attention_blocks(s.form.seq, s.n_q),
		heads * pairs * s.form.size / CPU_UNIT_FLOPS * 4, forward, &s);
}
