/*
 * The loops of vec.h for one instruction set: vec_NAME.c sets what vec_lanes.h asks for and
 * includes this once.
 */
#include "kernels/cpu/vec_lanes.h"
#include "kernels/cpu/vec_blocks.h"
#include "kernels/cpu/vec_images.h"

static float max(const float *x, size_t n)
{
	lanes even = all(-INFINITY), odd = even;
	size_t i = 0;
	for (; i + 2 * VEC_LANES <= n; i += 2 * VEC_LANES) {
		even = greater(get(x + i), even);
		odd = greater(get(x + i + VEC_LANES), odd);
	}
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		even = greater(get(x + i), even);
	if (i < n)
		odd = greater(get_tail(x + i, n - i, -INFINITY), odd);
	float part[VEC_LANES];
	put(part, greater(even, odd));
	float most = part[0];
	for (size_t k = 1; k < VEC_LANES; k++)
		most = part[k] > most ? part[k] : most;
	return most;
}

/* Four sums side by side, since one addition must wait for the one before. */
static float dot(const float *a, const float *b, size_t n)
{
	lanes sum[4] = {all(0), all(0), all(0), all(0)};
	size_t i = 0;
	for (; i + 4 * VEC_LANES <= n; i += 4 * VEC_LANES)
		for (size_t k = 0; k < 4; k++)
			sum[k] += get(a + i + k * VEC_LANES) * get(b + i + k * VEC_LANES);
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		sum[0] += get(a + i) * get(b + i);
	if (i < n)
		sum[1] += get_tail(a + i, n - i, 0) * get_tail(b + i, n - i, 0);
	return total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static inline wide_lanes square(const float *x)
{
	half_lanes v;
	memcpy(&v, x, sizeof v);
	wide_lanes w = __builtin_convertvector(v, wide_lanes);
	return w * w;
}

static double sum_squares(const float *x, size_t n)
{
	/* One stream alone does not keep the memory busy; 2 KiB ahead gave it a third more. */
	enum { HALF = VEC_LANES / 2, AHEAD = 512 };
	wide_lanes sum[4] = {{0}, {0}, {0}, {0}};
	size_t i = 0;
	for (; i + 4 * HALF <= n; i += 4 * HALF) {
		for (size_t k = 0; k < 4 * HALF; k += 16)
			__builtin_prefetch(x + i + AHEAD + k);
		for (size_t k = 0; k < 4; k++)
			sum[k] += square(x + i + k * HALF);
	}
	wide_lanes all_sums = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	double result = 0;
	for (size_t k = 0; k < HALF; k++)
		result += all_sums[k];
	for (; i < n; i++)
		result += (double)x[i] * (double)x[i];
	return result;
}

static float sum_exp(const float *x, float less, size_t n)
{
	lanes even = all(0), odd = all(0);
	size_t i = 0;
	for (; i + 2 * VEC_LANES <= n; i += 2 * VEC_LANES) {
		even += exponential(get(x + i) - less);
		odd += exponential(get(x + i + VEC_LANES) - less);
	}
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		even += exponential(get(x + i) - less);
	if (i < n)
		odd += first_lanes(exponential(get_tail(x + i, n - i, less) - less), n - i);
	return total(even + odd);
}

static void scale(float *y, const float *x, float factor, size_t n)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		put(y + i, get(x + i) * factor);
	for (; i < n; i++)
		y[i] = x[i] * factor;
}

static void add(float *y, const float *a, const float *b, size_t n)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		put(y + i, get(a + i) + get(b + i));
	for (; i < n; i++)
		y[i] = a[i] + b[i];
}

static void softmax_back(
	float *grad, const float *x, const float less_scale[2], size_t n, bool more)
{
	float less = less_scale[0], by = less_scale[1];
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes g = weight(get(x + i) - less) * by;
		put(grad + i, more ? get(grad + i) + g : g);
	}
	if (i < n) {
		lanes g = weight(get_tail(x + i, n - i, less) - less) * by;
		put_tail(grad + i, more ? get_tail(grad + i, n - i, 0) + g : g, n - i);
	}
}

/* 0.5 (1 + tanh(u)) is 1 / (1 + exp(-2u)), which loses nothing where it is near 0. */
#define GELU_CUBE 0.044715f
#define GELU_SCALE 1.59576912160573071176f /* 2 sqrt(2 / pi) */

static inline lanes gelu_power(lanes x)
{
	return exponential(-GELU_SCALE * (x + GELU_CUBE * x * x * x));
}

static void gelu(float *y, const float *x, size_t n)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		put(y + i, get(x + i) / (1.0f + gelu_power(get(x + i))));
	if (i < n) {
		lanes v = get_tail(x + i, n - i, 0);
		put_tail(y + i, v / (1.0f + gelu_power(v)), n - i);
	}
}

/* With the gate s = 1 / (1 + e), 1 - s is e s: nothing cancels where s is near 1.  Where e is above
 * exp(50) the slope is 0, for the reason that weight() gives. */
static inline lanes gelu_slope(lanes x)
{
	lanes e = gelu_power(x), gate = 1.0f / (1.0f + e);
	lanes inner = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * x * x);
	lanes slope = gate + x * gate * (e * gate) * inner;
	return pick((bits)(e > 5.18e21f), all(0), slope);
}

static void gelu_back(float *grad, const float *grad_y, const float *x, size_t n, bool more)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes g = get(grad_y + i) * gelu_slope(get(x + i));
		put(grad + i, more ? get(grad + i) + g : g);
	}
	if (i < n) {
		lanes g = get_tail(grad_y + i, n - i, 0) * gelu_slope(get_tail(x + i, n - i, 0));
		put_tail(grad + i, more ? get_tail(grad + i, n - i, 0) + g : g, n - i);
	}
}

static void moments(const float *x, size_t n, float mean_var[2])
{
	lanes sum = all(0);
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		sum += get(x + i);
	if (i < n)
		sum += get_tail(x + i, n - i, 0);
	float mean = total(sum) / (float)n;
	lanes squares = all(0);
	for (i = 0; i + VEC_LANES <= n; i += VEC_LANES)
		squares += (get(x + i) - mean) * (get(x + i) - mean);
	if (i < n) {
		lanes v = get_tail(x + i, n - i, mean) - mean;
		squares += v * v;
	}
	mean_var[0] = mean;
	mean_var[1] = total(squares) / (float)n;
}

static void norm(float *y, const struct vec_norm *row, const float *bias)
{
	const float *x = row->x, *gain = row->gain;
	float mean = row->mean, rstd = row->rstd;
	size_t i = 0, n = row->n;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		put(y + i, (get(x + i) - mean) * rstd * get(gain + i) + get(bias + i));
	for (; i < n; i++)
		y[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
}

static void norm_back(float *grad, const struct vec_norm *row, const float *grad_y, bool more)
{
	const float *x = row->x, *gain = row->gain;
	float mean = row->mean, rstd = row->rstd;
	lanes sum_d = all(0), sum_dh = all(0);
	size_t i = 0, n = row->n;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes d = get(grad_y + i) * get(gain + i);
		sum_d += d;
		sum_dh += d * (get(x + i) - mean);
	}
	if (i < n) {
		lanes d = get_tail(grad_y + i, n - i, 0) * get_tail(gain + i, n - i, 0);
		sum_d += d;
		sum_dh += d * (get_tail(x + i, n - i, mean) - mean);
	}
	float mean_d = total(sum_d) / (float)n;
	float mean_dh = total(sum_dh) * rstd / (float)n;
	for (i = 0; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes h = (get(x + i) - mean) * rstd;
		lanes g = rstd * (get(grad_y + i) * get(gain + i) - mean_d - h * mean_dh);
		put(grad + i, more ? get(grad + i) + g : g);
	}
	for (; i < n; i++) {
		float h = (x[i] - mean) * rstd;
		float g = rstd * (grad_y[i] * gain[i] - mean_d - h * mean_dh);
		grad[i] = more ? grad[i] + g : g;
	}
}

static void norm_back_gain(
	float *grad_gain, float *grad_bias, const struct vec_norm *row, const float *grad_y)
{
	const float *x = row->x;
	float mean = row->mean, rstd = row->rstd;
	size_t i = 0, n = row->n;
	for (; grad_gain && i + VEC_LANES <= n; i += VEC_LANES)
		put(grad_gain + i,
			get(grad_gain + i) + get(grad_y + i) * ((get(x + i) - mean) * rstd));
	for (; grad_gain && i < n; i++)
		grad_gain[i] += grad_y[i] * ((x[i] - mean) * rstd);
	if (grad_bias)
		add(grad_bias, grad_bias, grad_y, n);
}

static void rms(float *y, const struct vec_norm *row)
{
	const float *x = row->x, *gain = row->gain;
	float rstd = row->rstd;
	size_t i = 0, n = row->n;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		put(y + i, get(x + i) * rstd * get(gain + i));
	for (; i < n; i++)
		y[i] = x[i] * rstd * gain[i];
}

static void rms_back(float *grad, const struct vec_norm *row, const float *grad_y, bool more)
{
	const float *x = row->x, *gain = row->gain;
	float rstd = row->rstd;
	lanes sum = all(0);
	size_t i = 0, n = row->n;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		sum += get(grad_y + i) * get(gain + i) * get(x + i);
	if (i < n)
		sum += get_tail(grad_y + i, n - i, 0) * get_tail(gain + i, n - i, 0) *
		       get_tail(x + i, n - i, 0);
	float pull = total(sum) / (float)n * rstd * rstd;
	for (i = 0; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes g = rstd * (get(grad_y + i) * get(gain + i) - get(x + i) * pull);
		put(grad + i, more ? get(grad + i) + g : g);
	}
	for (; i < n; i++) {
		float g = rstd * (grad_y[i] * gain[i] - x[i] * pull);
		grad[i] = more ? grad[i] + g : g;
	}
}

static void turn(float *y, const float *x, const struct vec_turn *by, bool more)
{
	const float *c = by->cos, *s = by->sin, *x2 = x + by->apart;
	float *y2 = y + by->apart;
	size_t i = 0, n = by->n;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes a = get(x + i), b = get(x2 + i);
		lanes left = a * get(c + i) - b * get(s + i);
		lanes right = b * get(c + i) + a * get(s + i);
		put(y + i, more ? get(y + i) + left : left);
		put(y2 + i, more ? get(y2 + i) + right : right);
	}
	for (; i < n; i++) {
		float left = x[i] * c[i] - x2[i] * s[i], right = x2[i] * c[i] + x[i] * s[i];
		y[i] = more ? y[i] + left : left;
		y2[i] = more ? y2[i] + right : right;
	}
}

static void swiglu(float *y, const float *gate, const float *up, size_t n)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes g = get(gate + i);
		put(y + i, g / (1.0f + exponential(-g)) * get(up + i));
	}
	if (i < n) {
		lanes g = get_tail(gate + i, n - i, 0);
		put_tail(y + i, g / (1.0f + exponential(-g)) * get_tail(up + i, n - i, 0), n - i);
	}
}

struct swiglu_slopes {
	lanes gate, up;
};

/* With s the gate's sigmoid, 1 - s is e s: nothing cancels where s is near 1. */
static inline struct swiglu_slopes swiglu_slopes(lanes gate, lanes up)
{
	lanes e = exponential(-gate), s = 1.0f / (1.0f + e);
	return (struct swiglu_slopes){up * s * (1.0f + gate * (e * s)), gate * s};
}

static void swiglu_back(const struct vec_swiglu_back *at, size_t n)
{
	const struct vec_swiglu_back own = *at;
	for (size_t i = 0; i < n; i += VEC_LANES) {
		size_t left = n - i < VEC_LANES ? n - i : VEC_LANES;
		bool whole = left == VEC_LANES;
		lanes g = whole ? get(own.gate + i) : get_tail(own.gate + i, left, 0);
		lanes u = whole ? get(own.up + i) : get_tail(own.up + i, left, 0);
		lanes d = whole ? get(own.grad_y + i) : get_tail(own.grad_y + i, left, 0);
		struct swiglu_slopes slope = swiglu_slopes(g, u);
		give(own.grad_gate, i, d * slope.gate, left, own.add_gate);
		give(own.grad_up, i, d * slope.up, left, own.add_up);
	}
}

static inline lanes adamw_lanes(
	lanes param, lanes grad, lanes *m, lanes *v, const struct vec_adamw *c)
{
	grad *= c->scale;
	*m = c->beta1 * *m + c->one_less_beta1 * grad;
	*v = c->beta2 * *v + c->one_less_beta2 * (grad * grad);
	return param * c->decay - c->rate * *m / (root(*v) * c->root + c->eps);
}

static void adamw(const struct vec_moments *at, const struct vec_adamw *c, size_t n)
{
	float *param = at->param;
	const struct vec_adamw own = *c; /* a copy that no store can be thought to change */
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes m = get(at->m + i), v = get(at->v + i);
		put(param + i, adamw_lanes(get(param + i), get(at->grad + i), &m, &v, &own));
		put(at->m + i, m);
		put(at->v + i, v);
	}
	if (i < n) {
		lanes m = get_tail(at->m + i, n - i, 0), v = get_tail(at->v + i, n - i, 0);
		lanes grad = get_tail(at->grad + i, n - i, 0);
		lanes p = adamw_lanes(get_tail(param + i, n - i, 0), grad, &m, &v, &own);
		put_tail(param + i, p, n - i);
		put_tail(at->m + i, m, n - i);
		put_tail(at->v + i, v, n - i);
	}
}

static inline halves rounded(lanes v)
{
	bits b = (bits)v, nan = (bits)(v != v);
	bits near = b + 0x7fffu + (b >> 16 & 1u), quiet = b | 0x400000u;
	return __builtin_convertvector(((near & ~nan) | (quiet & nan)) >> 16, halves);
}

static void to_bf16(uint16_t *y, const float *x, size_t n)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		halves h = rounded(get(x + i));
		memcpy(y + i, &h, sizeof h);
	}
	if (i < n) {
		halves h = rounded(get_tail(x + i, n - i, 0));
		memcpy(y + i, &h, (n - i) * sizeof *y);
	}
}

const struct vec VEC_NAME = {
	.isa = VEC_ISA,
	.max = max,
	.dot = dot,
	.sum_squares = sum_squares,
	.sum_exp = sum_exp,
	.scale = scale,
	.add = add,
	.softmax_back = softmax_back,
	.gelu = gelu,
	.gelu_back = gelu_back,
	.moments = moments,
	.norm = norm,
	.norm_back = norm_back,
	.norm_back_gain = norm_back_gain,
	.rms = rms,
	.rms_back = rms_back,
	.turn = turn,
	.swiglu = swiglu,
	.swiglu_back = swiglu_back,
	.to_bf16 = to_bf16,
	.multiply = multiply,
	.gather = gather,
	.softmax_columns = softmax_columns,
	.softmax_rows_back = softmax_rows_back,
	.sum = sum,
	.stretch = stretch,
	.stretch_sums = stretch_sums,
	.stretch_back = stretch_back,
	.relu = relu,
	.relu_back = relu_back,
	.adamw = adamw,
};
