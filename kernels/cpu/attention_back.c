#include "kernels/cpu/attention.h"
#include <string.h>

/*
 * Backward.  A block's scores and weights are made again; each key's gradient is a sum over the
 * queries in order, each query's one over the blocks of keys in order.  Both sums are the same
 * whether one tile goes through all keys of a head, or, where heads are few, tiles take a block of
 * keys each, for the gradients of keys and values, and others a block of queries each: that costs
 * two of five products a second time.
 */
struct block {
	float *keys_turned, *values_turned;
	float *keys, *queries, *grad_y;          /* rows of the padded size */
	float *grad_keys, *grad_values, *grad_q; /* the same */
	float *weights, *grads;                  /* [queries][keys] */
	float *mean;                             /* of each query */
};

static struct block block_in(const struct attention *s, float *scratch)
{
	uint64_t turned = s->n_k * s->form.size;
	uint64_t q_rows = s->n_q * s->padded, k_rows = s->n_k * s->padded;
	struct block b = {.keys_turned = scratch};
	b.values_turned = b.keys_turned + turned;
	b.keys = b.values_turned + turned;
	b.grad_keys = b.keys + k_rows;
	b.grad_values = b.grad_keys + k_rows;
	b.queries = b.grad_values + k_rows;
	b.grad_y = b.queries + q_rows;
	b.grad_q = b.grad_y + q_rows;
	b.weights = b.grad_q + q_rows;
	b.grads = b.weights + s->n_q * s->n_k;
	b.mean = b.grads + s->n_q * s->n_k;
	return b;
}

/* One query head of one sequence, and the key head that it reads. */
struct heads {
	uint64_t number; /* of all query heads */
	struct attention_rows q, k, v, y, grad_y, grad_q;
};

static struct heads heads_of(const struct attention *s, uint64_t sequence, uint64_t head)
{
	uint64_t kv_head = head / (s->form.heads / s->form.kv_heads);
	return (struct heads){
		.number = sequence * s->form.heads + head,
		.q = attention_head(s, &s->q, sequence, head),
		.k = attention_head(s, &s->k, sequence, kv_head),
		.v = attention_head(s, &s->v, sequence, kv_head),
		.y = attention_head(s, &s->y, sequence, head),
		.grad_y = attention_head(s, &s->grad_y, sequence, head),
		.grad_q = attention_head(s, &s->grad_q, sequence, head),
	};
}

/* [queries, keys] of rows with what was turned. */
static void against_keys(const struct attention *s, const struct attention_place *p,
	const float *rows, const float *turned, float alpha, float *to)
{
	uint64_t stripe = attention_edge(s, p) ? ATTENTION_STRIPE : p->n_q;
	for (uint64_t i = 0; i < p->n_q; i += stripe) {
		uint64_t n = cpu_least(stripe, p->n_q - i);
		s->d->vec->multiply(&(struct vec_multiply){.m = n,
			.n = attention_pad(attention_stripe_sees(s, p, i, n)),
			.k = s->form.size,
			.a = rows + i * s->padded,
			.a_row = s->padded,
			.a_column = 1,
			.b = turned,
			.b_step = s->n_k,
			.alpha = alpha,
			.c = to + i * s->n_k,
			.c_step = s->n_k});
	}
}

/* With d the gradient of y: weights p = exp(score - log sum), and the gradients of the scores, p (d
 * v - d y) scale; zeros where a query does not see a key that another of its stripe sees. */
static void make_weights(const struct attention *s, const struct attention_place *p,
	struct block *b, const struct heads *h)
{
	const struct vec *vec = s->d->vec;
	attention_copy(s, b->queries, h->q, p->q, p->n_q);
	attention_copy(s, b->grad_y, h->grad_y, p->q, p->n_q);
	for (uint64_t i = 0; i < p->n_q; i++)
		b->mean[i] = vec->dot(
			b->grad_y + i * s->padded, h->y.at + (p->q + i) * h->y.step, s->form.size);
	against_keys(s, p, b->queries, b->keys_turned, s->scale, b->weights);
	against_keys(s, p, b->grad_y, b->values_turned, 1, b->grads);
	uint64_t stripe = attention_edge(s, p) ? ATTENTION_STRIPE : p->n_q;
	for (uint64_t i = 0; i < p->n_q; i += stripe) {
		uint64_t n = cpu_least(stripe, p->n_q - i);
		uint64_t keys = attention_pad(attention_stripe_sees(s, p, i, n));
		vec->softmax_rows_back(&(struct vec_softmax_back){.scores = b->weights + i * s->n_k,
			.grads = b->grads + i * s->n_k,
			.step = s->n_k,
			.keys = keys,
			.queries = n,
			.log_sum = s->saved + h->number * s->form.seq + p->q + i,
			.mean = b->mean + i,
			.scale = s->scale});
		for (uint64_t k = i; k < i + n; k++) {
			uint64_t seen = attention_seen(s, p, k);
			uint64_t rest = (keys - seen) * sizeof *b->weights;
			memset(b->weights + k * s->n_k + seen, 0, rest);
			memset(b->grads + k * s->n_k + seen, 0, rest);
		}
	}
}

/* Keys (or values) get their share: weights turned times rows of the queries. */
static void to_keys(const struct attention *s, const struct attention_place *p,
	const float *weights, const float *rows, float *to)
{
	uint64_t stripe = attention_edge(s, p) ? ATTENTION_STRIPE : p->n_k;
	for (uint64_t j = 0; j < p->n_k; j += stripe) {
		uint64_t first = attention_first_seeing(s, p, j);
		if (first >= p->n_q)
			break;
		s->d->vec->multiply(&(struct vec_multiply){.m = cpu_least(stripe, p->n_k - j),
			.n = s->padded,
			.k = p->n_q - first,
			.a = weights + first * s->n_k + j,
			.a_row = 1,
			.a_column = s->n_k,
			.b = rows + first * s->padded,
			.b_step = s->padded,
			.alpha = 1,
			.c = to + j * s->padded,
			.c_step = s->padded,
			.add = true});
	}
}

static void to_queries(const struct attention *s, const struct attention_place *p, struct block *b,
	struct attention_rows to)
{
	const struct vec *vec = s->d->vec;
	uint64_t stripe = attention_edge(s, p) ? ATTENTION_STRIPE : p->n_q;
	for (uint64_t i = 0; i < p->n_q; i += stripe) {
		uint64_t n = cpu_least(stripe, p->n_q - i);
		vec->multiply(&(struct vec_multiply){.m = n,
			.n = s->padded,
			.k = attention_stripe_sees(s, p, i, n),
			.a = b->grads + i * s->n_k,
			.a_row = s->n_k,
			.a_column = 1,
			.b = b->keys,
			.b_step = s->padded,
			.alpha = 1,
			.c = b->grad_q + i * s->padded,
			.c_step = s->padded});
	}
	for (uint64_t i = 0; i < p->n_q; i++) {
		float *row = to.at + (p->q + i) * to.step;
		const float *more = b->grad_q + i * s->padded;
		if (p->k || s->grad_q.add)
			vec->add(row, row, more, s->form.size);
		else
			memcpy(row, more, s->form.size * sizeof *row);
	}
}

static void take_keys(const struct attention *s, const struct attention_place *p, struct block *b,
	const struct heads *h)
{
	attention_copy(s, b->keys, h->v, p->k, p->n_k);
	attention_turn(s, b->values_turned, s->n_k, b->keys, p->n_k);
	attention_copy(s, b->keys, h->k, p->k, p->n_k);
	attention_turn(s, b->keys_turned, s->n_k, b->keys, p->n_k);
}

static void give_keys(const struct attention *s, const struct attention_place *p, const float *from,
	struct attention_rows to, bool add)
{
	for (uint64_t i = 0; i < p->n_k && to.at; i++) {
		float *row = to.at + (p->k + i) * to.step;
		if (add)
			s->d->vec->add(row, row, from + i * s->padded, s->form.size);
		else
			memcpy(row, from + i * s->padded, s->form.size * sizeof *row);
	}
}

/* Everything that one block of one key head's keys has to do with. */
static void keys_backward(const struct attention *s, struct block *b, uint64_t sequence,
	uint64_t kv_head, uint64_t first, bool queries_too)
{
	uint64_t group = s->form.heads / s->form.kv_heads;
	struct attention_place p = {.k = first};
	p.n_k = cpu_least(s->n_k, s->form.seq - p.k);
	struct heads h = heads_of(s, sequence, kv_head * group);
	take_keys(s, &p, b, &h);
	memset(b->grad_keys, 0, p.n_k * s->padded * sizeof *b->grad_keys);
	memset(b->grad_values, 0, p.n_k * s->padded * sizeof *b->grad_values);
	for (uint64_t i = 0; i < group; i++) {
		h = heads_of(s, sequence, kv_head * group + i);
		for (p.q = p.k / s->n_q * s->n_q; p.q < s->form.seq; p.q += s->n_q) {
			p.n_q = cpu_least(s->n_q, s->form.seq - p.q);
			make_weights(s, &p, b, &h);
			to_keys(s, &p, b->weights, b->grad_y, b->grad_values);
			to_keys(s, &p, b->grads, b->queries, b->grad_keys);
			if (queries_too && h.grad_q.at)
				to_queries(s, &p, b, h.grad_q);
		}
	}
	give_keys(s, &p, b->grad_keys, attention_head(s, &s->grad_k, sequence, kv_head),
		s->grad_k.add);
	give_keys(s, &p, b->grad_values, attention_head(s, &s->grad_v, sequence, kv_head),
		s->grad_v.add);
}

/* A tile: a key head with all its queries. */
static void all_backward(void *arg, size_t tile, unsigned thread)
{
	const struct attention *s = arg;
	struct block b = block_in(s, cpu_scratch(s->d, thread));
	for (uint64_t k = 0; k < s->form.seq; k += s->n_k)
		keys_backward(s, &b, tile / s->form.kv_heads, tile % s->form.kv_heads, k, true);
}

/* A tile: a block of keys of one key head; the first block, which most queries see, first. */
static void part_keys_backward(void *arg, size_t tile, unsigned thread)
{
	const struct attention *s = arg;
	struct block b = block_in(s, cpu_scratch(s->d, thread));
	uint64_t heads = (uint64_t)s->form.batch * s->form.kv_heads, number = tile % heads;
	keys_backward(s, &b, number / s->form.kv_heads, number % s->form.kv_heads,
		tile / heads * s->n_k, false);
}

/* A tile: a block of queries of one head; those that see most come first. */
static void part_queries_backward(void *arg, size_t tile, unsigned thread)
{
	const struct attention *s = arg;
	struct block b = block_in(s, cpu_scratch(s->d, thread));
	uint64_t heads = (uint64_t)s->form.batch * s->form.heads, number = tile % heads;
	struct heads h = heads_of(s, number / s->form.heads, number % s->form.heads);
	struct attention_place p = {0};
	p.q = (attention_blocks(s->form.seq, s->n_q) - 1 - tile / heads) * s->n_q;
	p.n_q = cpu_least(s->n_q, s->form.seq - p.q);
	for (p.k = 0; p.k < p.q + p.n_q; p.k += s->n_k) {
		p.n_k = cpu_least(s->n_k, s->form.seq - p.k);
		take_keys(s, &p, &b, &h);
		make_weights(s, &p, &b, &h);
		to_queries(s, &p, &b, h.grad_q);
	}
}

void attention_back(struct attention *s)
{
	uint64_t heads = (uint64_t)s->form.batch * s->form.heads;
	uint64_t kv_heads = (uint64_t)s->form.batch * s->form.kv_heads;
	uint64_t cost = heads * s->form.seq * s->form.seq * s->form.size / CPU_UNIT_FLOPS * 10;
	unsigned threads = pool_threads(s->d->pool);
	attention_choose_blocks(s, 64, 128,
		(struct attention_need){.key = 2 * s->form.size + 3 * s->padded,
			.query = 3 * s->padded + 1,
			.pair = 2});
	if (kv_heads >= 4 * threads || kv_heads % threads == 0 || s->form.seq <= s->n_k) {
		cpu_tiles(s->d, kv_heads, cost, all_backward, s);
		return;
	}
	cpu_tiles(s->d, kv_heads * attention_blocks(s->form.seq, s->n_k), cost, part_keys_backward,
		s);
	if (s->grad_q.at)
		cpu_tiles(s->d, heads * attention_blocks(s->form.seq, s->n_q), cost,
			part_queries_backward, s);
}
