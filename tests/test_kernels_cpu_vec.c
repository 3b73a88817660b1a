/*
 * Every loop of every instruction set that this machine has, against plain double arithmetic at all
 * small lengths.  Nothing of the backend but the loops is linked: check_aarch64.sh runs this for
 * another processor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/cpu/vec.h"

#define LONGEST 150

static float a[LONGEST + 1], b[LONGEST + 1], c[LONGEST + 1], y[LONGEST + 1], z[LONGEST + 1];
static float u[LONGEST + 1];

static float made_up(uint32_t i)
{
	return (float)(i * 2654435761u >> 8) / (float)(1 << 23) - 1.0f;
}

static void fill(uint32_t seed)
{
	for (uint32_t i = 0; i <= LONGEST; i++) {
		a[i] = 3 * made_up(seed + i);
		b[i] = made_up(seed + i + 1000);
		c[i] = made_up(seed + i + 2000);
		u[i] = y[i] = made_up(seed + i + 3000);
		z[i] = made_up(seed + i + 4000);
	}
}

static void near(double here, double there, const char *what, size_t n)
{
	if (!(fabs(here - there) <= 1e-6 * (fabs(there) + 1)))
		fail_msg("%s of %zu: %g must be %g", what, n, here, there);
}

/* y[0, n) is as expected; what is behind it was not touched. */
static void check(double (*expected)(size_t i), const char *what, size_t n)
{
	for (size_t i = 0; i < n; i++)
		near((double)y[i], expected(i), what, n);
	assert_true(y[n] == u[n]);
}

static double is_sum(size_t i)
{
	return (double)a[i] + (double)b[i];
}

static double is_scaled(size_t i)
{
	return (double)a[i] * 0.3;
}

static double is_softmax(size_t i)
{
	return 0.7 * exp((double)a[i] - 1.5);
}

static double is_more_softmax(size_t i)
{
	return (double)u[i] + is_softmax(i);
}

static double argument(double x)
{
	return 0.79788456080286535588 * (x + 0.044715 * x * x * x);
}

static double is_gelu(size_t i)
{
	return 0.5 * (double)a[i] * (1 + tanh(argument((double)a[i])));
}

static double is_gelu_back(size_t i)
{
	double x = (double)a[i], t = tanh(argument(x));
	double inner = 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
	return (double)b[i] * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner);
}

static double is_more_gelu_back(size_t i)
{
	return (double)u[i] + is_gelu_back(i);
}

static void sums(const struct vec *v, size_t n)
{
	double dot = 0, squares = 0, exps = 0, most = (double)a[0];
	for (size_t i = 0; i < n; i++) {
		dot += (double)a[i] * (double)b[i];
		squares += (double)a[i] * (double)a[i];
		exps += exp((double)a[i] - 0.5);
		most = fmax(most, (double)a[i]);
	}
	near((double)v->max(a, n), most, "max", n);
	near((double)v->dot(a, b, n), dot, "dot", n);
	near(v->sum_squares(a, n), squares, "sum_squares", n);
	near((double)v->sum_exp(a, 0.5f, n), exps, "sum_exp", n);
}

static void maps(const struct vec *v, size_t n)
{
	const float constants[] = {1.5f, 0.7f};
	v->add(y, a, b, n);
	check(is_sum, "add", n);
	v->scale(y, a, 0.3f, n);
	check(is_scaled, "scale", n);
	v->softmax_back(y, a, constants, n, false);
	check(is_softmax, "softmax_back", n);
	memcpy(y, u, sizeof y);
	v->softmax_back(y, a, constants, n, true);
	check(is_more_softmax, "softmax_back, adding", n);
	v->gelu(y, a, n);
	check(is_gelu, "gelu", n);
	v->gelu_back(y, b, a, n, false);
	check(is_gelu_back, "gelu_back", n);
	memcpy(y, u, sizeof y);
	v->gelu_back(y, b, a, n, true);
	check(is_more_gelu_back, "gelu_back, adding", n);
	memcpy(y, a, sizeof y);
	v->gelu_back(y, b, y, n, false);
	for (size_t i = 0; i < n; i++)
		near((double)y[i], is_gelu_back(i), "gelu_back in place", n);
	memcpy(y, u, sizeof y);
}

/* Small products: all counts of rows, both ways that the left side may lie. */
static void multiply(const struct vec *v)
{
	enum { M = 9, N = 5 * VEC_WIDTH, K = 7, STEP = N + 3 };
	float left[M * K], right[K * STEP], out[M * STEP];
	for (uint32_t i = 0; i < M * K; i++)
		left[i] = made_up(i);
	for (uint32_t i = 0; i < K * STEP; i++)
		right[i] = made_up(i + 99);
	for (size_t m = 1; m <= M; m++)
		for (size_t n = VEC_WIDTH; n <= N; n += VEC_WIDTH)
			for (int way = 0; way < 4; way++) {
				bool turned = way & 1, add = way & 2;
				for (size_t i = 0; i < M * STEP; i++)
					out[i] = 7;
				v->multiply(&(struct vec_multiply){m, n, K, left, turned ? 1 : K,
					turned ? M : 1, right, STEP, out, STEP, 0.5f, add});
				for (size_t i = 0; i < m * STEP; i++) {
					double sum = 0;
					size_t row = i / STEP, column = i % STEP;
					for (size_t x = 0; x < K; x++)
						sum += 0.5 *
						       (double)left[turned ? x * M + row
									   : row * K + x] *
						       (double)right[x * STEP + column];
					double must = column < n ? sum + (add ? 7 : 0) : 7;
					near((double)out[i], must, "multiply", n);
				}
			}
}

static void gather(const struct vec *v)
{
	enum { ROWS = 3, STEP = 50, WIDEST = 3 * VEC_WIDTH };
	float from[ROWS * STEP], to[ROWS * WIDEST + 1];
	for (uint32_t i = 0; i < ROWS * STEP; i++)
		from[i] = made_up(i);
	for (size_t n = 1; n <= WIDEST; n++) {
		size_t padded = (n + VEC_WIDTH - 1) / VEC_WIDTH * VEC_WIDTH;
		for (size_t i = 0; i <= ROWS * WIDEST; i++)
			to[i] = 7;
		v->gather(to, &(struct vec_rows){from, STEP, ROWS, n});
		for (size_t i = 0; i < ROWS * padded; i++) {
			size_t row = i / padded, column = i % padded;
			assert_true(to[i] == (column < n ? from[row * STEP + column] : 0));
		}
		assert_true(to[ROWS * padded] == 7);
	}
}

static void blocks(void **state)
{
	(void)state;
	for (size_t i = 0; cpu_vec_at(i); i++) {
		multiply(cpu_vec_at(i));
		gather(cpu_vec_at(i));
	}
}

static double mean, rstd, mean_d, mean_dh;

static double is_h(size_t i)
{
	return ((double)a[i] - mean) * rstd;
}

static double is_norm(size_t i)
{
	return is_h(i) * (double)b[i] + (double)c[i];
}

static double is_norm_back(size_t i)
{
	return rstd * ((double)c[i] * (double)b[i] - mean_d - is_h(i) * mean_dh);
}

static double is_more_norm_back(size_t i)
{
	return (double)u[i] + is_norm_back(i);
}

static double is_gain_back(size_t i)
{
	return (double)u[i] + (double)c[i] * is_h(i);
}

static double is_bias_back(size_t i)
{
	return (double)u[i] + (double)c[i];
}

static void norms(const struct vec *v, size_t n)
{
	double var = 0;
	float found[2];
	mean = mean_d = mean_dh = 0;
	for (size_t i = 0; i < n; i++)
		mean += (double)a[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		var += ((double)a[i] - mean) * ((double)a[i] - mean) / (double)n;
	v->moments(a, n, found);
	near((double)found[0], mean, "mean", n);
	near((double)found[1], var, "variance", n);
	mean = (double)found[0];
	const struct vec_norm row = {a, b, found[0], 0.8f, n};
	rstd = (double)0.8f;
	for (size_t i = 0; i < n; i++) {
		mean_d += (double)c[i] * (double)b[i] / (double)n;
		mean_dh += (double)c[i] * (double)b[i] * is_h(i) / (double)n;
	}
	v->norm(y, &row, c);
	check(is_norm, "norm", n);
	v->norm_back(y, &row, c, false);
	check(is_norm_back, "norm_back", n);
	memcpy(y, u, sizeof y);
	v->norm_back(y, &row, c, true);
	check(is_more_norm_back, "norm_back, adding", n);
	memcpy(y, u, sizeof y);
	v->norm_back_gain(y, NULL, &row, c);
	check(is_gain_back, "norm_back_gain", n);
	memcpy(y, u, sizeof y);
	v->norm_back_gain(NULL, y, &row, c);
	check(is_bias_back, "norm_back_gain, bias", n);
}

static double mean_square(const float *x, const float *w, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)w[i] / (double)n;
	return sum;
}

static double is_rms(size_t i)
{
	return (double)a[i] * rstd * (double)b[i];
}

static double is_rms_back(size_t i)
{
	return rstd * ((double)c[i] * (double)b[i] - (double)a[i] * rstd * mean_dh);
}

static double is_more_rms_back(size_t i)
{
	return (double)u[i] + is_rms_back(i);
}

static void rms(const struct vec *v, size_t n)
{
	const struct vec_norm row = {a, b, 0, 0.8f, n};
	rstd = (double)0.8f;
	float d[LONGEST];
	for (size_t i = 0; i < n; i++)
		d[i] = c[i] * b[i];
	mean_dh = rstd * mean_square(d, a, n);
	v->rms(y, &row);
	check(is_rms, "rms", n);
	v->rms_back(y, &row, c, false);
	check(is_rms_back, "rms_back", n);
	memcpy(y, u, sizeof y);
	v->rms_back(y, &row, c, true);
	check(is_more_rms_back, "rms_back, adding", n);
}

static double is_swiglu(size_t i)
{
	return (double)a[i] / (1 + exp(-(double)a[i])) * (double)b[i];
}

static double is_gate_back(size_t i)
{
	double x = (double)a[i], s = 1 / (1 + exp(-x));
	return (double)c[i] * (double)b[i] * s * (1 + x * (1 - s));
}

static double is_up_back(size_t i)
{
	double x = (double)a[i];
	return (double)c[i] * x / (1 + exp(-x));
}

static double is_more_up_back(size_t i)
{
	return (double)u[i] + is_up_back(i);
}

static void swiglu(const struct vec *v, size_t n)
{
	v->swiglu(y, a, b, n);
	check(is_swiglu, "swiglu", n);
	v->swiglu_back(&(struct vec_swiglu_back){a, b, c, y, NULL, false, false}, n);
	check(is_gate_back, "swiglu_back, gate", n);
	memcpy(y, u, sizeof y);
	v->swiglu_back(&(struct vec_swiglu_back){a, b, c, NULL, y, false, true}, n);
	check(is_more_up_back, "swiglu_back, adding to up", n);
	/* In place of gate and up. */
	float gate[LONGEST + 1], up[LONGEST + 1];
	memcpy(gate, a, sizeof gate);
	memcpy(up, b, sizeof up);
	v->swiglu_back(&(struct vec_swiglu_back){gate, up, c, gate, up, false, false}, n);
	for (size_t i = 0; i < n; i++) {
		near((double)gate[i], is_gate_back(i), "swiglu_back in place, gate", n);
		near((double)up[i], is_up_back(i), "swiglu_back in place, up", n);
	}
}

/* Pairs (i, i + half) of a row of 2 half. */
static size_t half;

static double is_turned(size_t i)
{
	size_t k = i % half;
	double left = (double)a[k], right = (double)a[k + half];
	return i < half ? left * (double)b[k] - right * (double)c[k]
			: right * (double)b[k] + left * (double)c[k];
}

static double is_more_turned(size_t i)
{
	return (double)u[i] + is_turned(i);
}

static void turn(const struct vec *v, size_t n)
{
	half = n / 2;
	const struct vec_turn by = {b, c, half, half};
	memcpy(y, u, sizeof y);
	v->turn(y, a, &by, true);
	check(is_more_turned, "turn, adding", 2 * half);
	memcpy(y, a, sizeof y);
	v->turn(y, y, &by, false);
	for (size_t i = 0; i < 2 * half; i++)
		near((double)y[i], is_turned(i), "turn in place", 2 * half);
}

static void adamw(const struct vec *v, size_t n)
{
	const struct vec_adamw k = {0.9f, 0.1f, 0.95f, 0.05f, 0.5f, 0.999f, 0.02f, 1.7f, 1e-4f};
	for (size_t i = 0; i <= LONGEST; i++)
		z[i] = z[i] * z[i];
	float m_before[LONGEST + 1], v_before[LONGEST + 1];
	memcpy(m_before, a, sizeof a);
	memcpy(v_before, z, sizeof z);
	v->adamw(&(struct vec_moments){y, a, z, b}, &k, n);
	for (size_t i = 0; i < n; i++) {
		double g = 0.5 * (double)b[i];
		double m = 0.9 * (double)m_before[i] + 0.1 * g;
		double s = 0.95 * (double)v_before[i] + 0.05 * g * g;
		near((double)a[i], m, "adamw's m", n);
		near((double)z[i], s, "adamw's v", n);
		near((double)y[i], (double)u[i] * 0.999 - 0.02 * m / (sqrt(s) * 1.7 + 1e-4),
			"adamw", n);
	}
	assert_true(a[n] == m_before[n] && z[n] == v_before[n] && y[n] == u[n]);
}

static void every_loop_of_every_instruction_set(void **state)
{
	(void)state;
	for (size_t i = 0; cpu_vec_at(i); i++)
		for (size_t n = 1; n < LONGEST; n++) {
			fill((uint32_t)n);
			sums(cpu_vec_at(i), n);
			fill((uint32_t)n);
			maps(cpu_vec_at(i), n);
			norms(cpu_vec_at(i), n);
			fill((uint32_t)n);
			rms(cpu_vec_at(i), n);
			swiglu(cpu_vec_at(i), n);
			turn(cpu_vec_at(i), n);
			fill((uint32_t)n);
			adamw(cpu_vec_at(i), n);
		}
}

static float exp_of(const struct vec *v, float x)
{
	return v->sum_exp(&x, 0, 1);
}

static void exp_is_accurate_and_bounded(void **state)
{
	(void)state;
	enum { N = 4096 };
	float x[N], e[N];
	const float as_it_is[] = {0, 1}; /* less nothing, times one */
	for (size_t k = 0; cpu_vec_at(k); k++) {
		const struct vec *v = cpu_vec_at(k);
		for (size_t i = 0; i < N; i++)
			x[i] = -87 + 175 * (float)i / (N - 1);
		v->softmax_back(e, x, as_it_is, N, false);
		for (size_t i = 0; i < N; i++) {
			double must = exp((double)x[i]);
			assert_true(fabs((double)exp_of(v, x[i]) / must - 1) < 2.4e-7);
			if (x[i] < -50)
				assert_true(e[i] == 0);
			else
				assert_true(fabs((double)e[i] / must - 1) < 2.4e-7);
		}
		float least = exp_of(v, -INFINITY), most = exp_of(v, INFINITY);
		assert_true(least > 0 && least < 2e-38f && exp_of(v, -1e30f) == least);
		assert_true(most > 1e38f && isfinite(most) && exp_of(v, 1e30f) == most);
		float far[] = {-INFINITY, NAN};
		v->softmax_back(far, far, as_it_is, 2, false);
		assert_true(far[0] == 0 && isnan(far[1]));
		/* A NaN anywhere in a row must not get lost. */
		x[N / 2 + 3] = NAN;
		assert_true(isnan(v->sum_exp(x, 0, N)));
	}
}

/* Whatever is far below the greatest score leaves nothing behind that is denormal. */
static void faint_weights_are_nothing(void **state)
{
	(void)state;
	enum { KEYS = 100 };
	float scores[KEYS * VEC_WIDTH], grads[KEYS * VEC_WIDTH];
	float most[VEC_WIDTH], sum[VEC_WIDTH], shrink[VEC_WIDTH], zeros[KEYS] = {0};
	for (size_t k = 0; cpu_vec_at(k); k++) {
		for (size_t i = 0; i < VEC_WIDTH; i++) {
			most[i] = i ? 0 : -INFINITY;
			sum[i] = 0;
		}
		for (size_t i = 0; i < KEYS * VEC_WIDTH; i++)
			scores[i] = -(float)(i / VEC_WIDTH);
		cpu_vec_at(k)->softmax_columns(&(struct vec_softmax){
			scores, VEC_WIDTH, KEYS, VEC_WIDTH, most, sum, shrink});
		for (size_t i = 0; i < KEYS * VEC_WIDTH; i++) {
			assert_true((scores[i] == 0) == (i / VEC_WIDTH > 50));
			grads[i] = 1e-9f;
			scores[i] = -(float)(i % VEC_WIDTH) * 7;
		}
		assert_true(shrink[0] == 0 && shrink[1] == 1 && most[0] == 0);
		near((double)sum[0], 1 / (1 - exp(-1.0)), "softmax_columns", KEYS);
		cpu_vec_at(k)->softmax_rows_back(&(struct vec_softmax_back){
			scores, grads, VEC_WIDTH, VEC_WIDTH, KEYS, zeros, zeros, 0.125f});
		for (size_t i = 0; i < KEYS * VEC_WIDTH; i++)
			assert_true(scores[i] == 0 ? grads[i] == 0 : isnormal(grads[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_loop_of_every_instruction_set),
		cmocka_unit_test(blocks),
		cmocka_unit_test(exp_is_accurate_and_bounded),
		cmocka_unit_test(faint_weights_are_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
