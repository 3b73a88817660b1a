/*
 * The loops over contiguous floats that every kernel is made of, written once (vec_body.h) and
 * compiled for several instruction sets; the best that the machine has is chosen when the backend
 * opens.  Sums are taken in a fixed order that depends on n and on the instruction set only, never
 * on an address or a thread.  No alignment is asked for.  A gradient may lie where x is, element by
 * element; else arrays may not overlap unless said.
 *
 * exp is good to 2 units in the last place from -87 to 88, and is taken as exp(-87) or exp(88)
 * beyond.  Weights, exp(x) of a softmax, are 0 below exp(-50).
 */
#ifndef KERNELS_CPU_VEC_H
#define KERNELS_CPU_VEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One row of a layer norm: h = (x - mean) rstd. */
struct vec_norm {
	const float *x, *gain;
	float mean, rstd;
	size_t n;
};

struct vec_adamw {
	float beta1, one_less_beta1, beta2, one_less_beta2;
	float scale, decay, rate, root, eps; /* p = p decay - rate m / (sqrt(v) root + eps) */
};

/* Pairs (i, i + apart) of a row, i < n, and the angle that each is turned by. */
struct vec_turn {
	const float *cos, *sin;
	size_t n, apart;
};

/* Gradients may be NULL, and may lie where gate and up do. */
struct vec_swiglu_back {
	const float *gate, *up, *grad_y;
	float *grad_gate, *grad_up;
	bool add_gate, add_up; /* += instead of = */
};

/* c [m,n] = (or +=) alpha a [m,k] b [k,n], all of it in the cache.  Element (i,x) of a is a[i a_row
 * + x a_column]; rows of b and c are contiguous, and n is a multiple of VEC_WIDTH. */
#define VEC_WIDTH 16
struct vec_multiply {
	size_t m, n, k;
	const float *a;
	size_t a_row, a_column;
	const float *b;
	size_t b_step;
	float *c;
	size_t c_step;
	float alpha;
	bool add;
};

/* Rows that are far apart, n floats of each. */
struct vec_rows {
	const float *at;
	size_t step, rows, n;
};

/* Scores [keys, queries] of a block, a multiple of VEC_WIDTH queries; and for each query the
 * greatest so far, the sum of exponentials less that, and what older sums were multiplied by. */
struct vec_softmax {
	float *scores;
	size_t step, keys, queries;
	float *most, *sum, *shrink;
};

/* Scores and the weights' gradients [queries, keys] of a block, a multiple of VEC_WIDTH keys. */
struct vec_softmax_back {
	float *scores, *grads;
	size_t step, keys, queries;
	const float *log_sum, *mean; /* of each query */
	float scale;
};

/* What AdamW changes, and the gradient. */
struct vec_moments {
	float *param, *m, *v;
	const float *grad;
};

/* y = (x - mean) factor + plus. */
struct vec_stretch {
	float mean, factor, plus;
};

/* The gradient of x = (or +=, with add) factor (grad_y - less - (x - mean) slope). */
struct vec_stretch_back {
	float mean, factor, less, slope;
	bool add;
};

struct vec {
	const char *isa;
	float (*max)(const float *x, size_t n); /* n > 0 */
	float (*dot)(const float *a, const float *b, size_t n);
	double (*sum_squares)(const float *x, size_t n);
	/* Sum of exp(x - less). */
	float (*sum_exp)(const float *x, float less, size_t n);
	/* y = x factor, in place or not. */
	void (*scale)(float *y, const float *x, float factor, size_t n);
	/* y = a + b; y may be a or b. */
	void (*add)(float *y, const float *a, const float *b, size_t n);
	/* grad = (or +=) scale exp(x - less). */
	void (*softmax_back)(
		float *grad, const float *x, const float less_scale[2], size_t n, bool more);
	void (*gelu)(float *y, const float *x, size_t n);
	void (*gelu_back)(float *grad, const float *grad_y, const float *x, size_t n, bool more);
	/* Mean, and variance about it over n > 0. */
	void (*moments)(const float *x, size_t n, float mean_var[2]);
	void (*norm)(float *y, const struct vec_norm *row, const float *bias);
	/* The gradient of x = (or +=) rstd (d - mean(d) - h mean(d h)), d = grad_y gain. */
	void (*norm_back)(float *grad, const struct vec_norm *row, const float *grad_y, bool more);
	/* One row's share: grad_gain += grad_y h and grad_bias += grad_y; either may be NULL. */
	void (*norm_back_gain)(float *grad_gain, float *grad_bias, const struct vec_norm *row,
		const float *grad_y);
	/* A row without mean (0) and bias: y = x rstd gain; the gradient of x = (or +=)
	 * rstd (d - h mean(d h)). */
	void (*rms)(float *y, const struct vec_norm *row);
	void (*rms_back)(float *grad, const struct vec_norm *row, const float *grad_y, bool more);
	/* y = (or +=) x turned, in place or not. */
	void (*turn)(float *y, const float *x, const struct vec_turn *by, bool more);
	void (*swiglu)(float *y, const float *gate, const float *up, size_t n);
	void (*swiglu_back)(const struct vec_swiglu_back *at, size_t n);
	/* Rounded to the nearest bfloat16, ties to even; NaN stays NaN.  In integers on every
	 * machine, since AVX512_BF16's instruction makes zeros of subnormals. */
	void (*to_bf16)(uint16_t *y, const float *x, size_t n);
	void (*multiply)(const struct vec_multiply *p);
	/* Side by side, each with zeros behind up to a multiple of VEC_WIDTH. */
	void (*gather)(float *to, const struct vec_rows *from);
	/* Scores become exp(score - most), with most and sum taken on. */
	void (*softmax_columns)(const struct vec_softmax *s);
	/* Scores become weights p = exp(score - log_sum), grads scale p (grad - mean). */
	void (*softmax_rows_back)(const struct vec_softmax_back *s);
	float (*sum)(const float *x, size_t n);
	void (*stretch)(float *y, const float *x, const struct vec_stretch *by, size_t n);
	/* Sums of grad_y and of grad_y (x - mean). */
	void (*stretch_sums)(
		const float *grad_y, const float *x, float mean, size_t n, float sums[2]);
	void (*stretch_back)(float *grad, const float *grad_y, const float *x,
		const struct vec_stretch_back *by, size_t n);
	/* max(x, 0), and NaN for NaN. */
	void (*relu)(float *y, const float *x, size_t n);
	void (*relu_back)(float *grad, const float *grad_y, const float *y, size_t n, bool more);
	void (*adamw)(const struct vec_moments *at, const struct vec_adamw *c, size_t n);
};

extern const struct vec cpu_vec_plain;
#ifdef __x86_64__
extern const struct vec cpu_vec_avx2, cpu_vec_avx512;
#endif

/* The i-th of those that this machine can run, best first; NULL beyond the last. */
const struct vec *cpu_vec_at(size_t i);

#endif
