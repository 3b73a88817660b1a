/*
 * The loops of vec.h over blocks that lie in the cache: small products and what attention does
 * between them.  Part of vec_body.h.
 */
#ifndef KERNELS_CPU_VEC_BLOCKS_H
#define KERNELS_CPU_VEC_BLOCKS_H
#include "kernels/cpu/vec_lanes.h"

/* ROWS rows by so many registers of c.  The counts are constants wherever this is called, so that
 * the sums stay in registers: 16 of them keep two units busy through the latency of an addition. */
#define ROWS 4
#define COLUMNS 4 /* registers */
static inline __attribute__((always_inline)) void multiply_tile(
	const struct vec_multiply *p, size_t i, size_t j, const size_t rows, const size_t columns)
{
	lanes sum[ROWS][COLUMNS], right[COLUMNS];
	for (size_t r = 0; r < rows; r++)
		for (size_t q = 0; q < columns; q++)
			sum[r][q] = all(0);
	const float *a = p->a + i * p->a_row, *b = p->b + j;
	const size_t a_row = p->a_row, a_column = p->a_column, b_step = p->b_step, k = p->k;
	for (size_t x = 0; x < k; x++, a += a_column, b += b_step) {
		for (size_t q = 0; q < columns; q++)
			right[q] = get(b + q * VEC_LANES);
		for (size_t r = 0; r < rows; r++)
			for (size_t q = 0; q < columns; q++)
				sum[r][q] += all(a[r * a_row]) * right[q];
	}
	for (size_t r = 0; r < rows; r++)
		for (size_t q = 0; q < columns; q++) {
			float *c = p->c + (i + r) * p->c_step + j + q * VEC_LANES;
			lanes v = sum[r][q] * p->alpha;
			put(c, p->add ? get(c) + v : v);
		}
}

static inline __attribute__((always_inline)) void multiply_columns(
	const struct vec_multiply *p, size_t j, const size_t columns)
{
	size_t i = 0;
	for (; i + ROWS <= p->m; i += ROWS)
		multiply_tile(p, i, j, ROWS, columns);
	for (; i < p->m; i++)
		multiply_tile(p, i, j, 1, columns);
}

static void multiply(const struct vec_multiply *p)
{
	size_t j = 0;
	for (; j + COLUMNS * VEC_LANES <= p->n; j += COLUMNS * VEC_LANES)
		multiply_columns(p, j, COLUMNS);
	for (; j < p->n; j += VEC_LANES)
		multiply_columns(p, j, 1);
}
#undef ROWS
#undef COLUMNS

static void gather(float *to, const struct vec_rows *from)
{
	size_t n = from->n, padded = (n + VEC_WIDTH - 1) / VEC_WIDTH * VEC_WIDTH;
	for (size_t r = 0; r < from->rows; r++, to += padded) {
		const float *row = from->at + r * from->step;
		size_t i = 0;
		for (; i + VEC_LANES <= n; i += VEC_LANES)
			put(to + i, get(row + i));
		for (size_t left = n - i; i < padded; i += VEC_LANES, left = 0)
			put(to + i, left ? get_tail(row + i, left, 0) : all(0));
	}
}

/* A register of queries at a time: first the greatest of its scores, then their exponentials. */
static void softmax_columns(const struct vec_softmax *s)
{
	for (size_t j = 0; j < s->queries; j += VEC_LANES) {
		float *column = s->scores + j;
		lanes before = get(s->most + j), even = before, odd = before;
		size_t i = 0;
		for (; i + 2 <= s->keys; i += 2) {
			even = greater(get(column + i * s->step), even);
			odd = greater(get(column + (i + 1) * s->step), odd);
		}
		if (i < s->keys)
			even = greater(get(column + i * s->step), even);
		lanes most = greater(even, odd), sum = all(0);
		for (i = 0; i < s->keys; i++) {
			lanes e = weight(get(column + i * s->step) - most);
			put(column + i * s->step, e);
			sum += e;
		}
		lanes shrink = weight(before - most);
		put(s->most + j, most);
		put(s->shrink + j, shrink);
		put(s->sum + j, get(s->sum + j) * shrink + sum);
	}
}

static void softmax_rows_back(const struct vec_softmax_back *s)
{
	for (size_t i = 0; i < s->queries; i++) {
		float *score = s->scores + i * s->step, *grad = s->grads + i * s->step;
		float less = s->log_sum[i], mean = s->mean[i], by = s->scale;
		for (size_t j = 0; j < s->keys; j += VEC_LANES) {
			lanes p = weight(get(score + j) - less);
			put(score + j, p);
			put(grad + j, p * ((get(grad + j) - mean) * by));
		}
	}
}

#endif
