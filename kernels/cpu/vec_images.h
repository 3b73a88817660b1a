/* The loops of vec.h for images: a part of vec_body.h. */
#ifndef KERNELS_CPU_VEC_IMAGES_H
#define KERNELS_CPU_VEC_IMAGES_H
#include "kernels/cpu/vec_lanes.h"

static float sum(const float *x, size_t n)
{
	lanes even = all(0), odd = all(0);
	size_t i = 0;
	for (; i + 2 * VEC_LANES <= n; i += 2 * VEC_LANES) {
		even += get(x + i);
		odd += get(x + i + VEC_LANES);
	}
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		even += get(x + i);
	if (i < n)
		odd += get_tail(x + i, n - i, 0);
	return total(even + odd);
}

static void stretch(float *y, const float *x, const struct vec_stretch *by, size_t n)
{
	float mean = by->mean, factor = by->factor, plus = by->plus;
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		put(y + i, (get(x + i) - mean) * factor + plus);
	if (i < n)
		put_tail(y + i, (get_tail(x + i, n - i, 0) - mean) * factor + plus, n - i);
}

static void stretch_sums(const float *grad_y, const float *x, float mean, size_t n, float sums[2])
{
	lanes grads = all(0), products = all(0);
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes g = get(grad_y + i);
		grads += g;
		products += g * (get(x + i) - mean);
	}
	if (i < n) {
		lanes g = get_tail(grad_y + i, n - i, 0);
		grads += g;
		products += g * (get_tail(x + i, n - i, mean) - mean);
	}
	sums[0] = total(grads);
	sums[1] = total(products);
}

static inline lanes stretched_back(lanes grad_y, lanes x, const struct vec_stretch_back *by)
{
	return by->factor * (grad_y - by->less - (x - by->mean) * by->slope);
}

static void stretch_back(float *grad, const float *grad_y, const float *x,
	const struct vec_stretch_back *by, size_t n)
{
	const struct vec_stretch_back own = *by; /* a copy that no store can be thought to change */
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes g = stretched_back(get(grad_y + i), get(x + i), &own);
		put(grad + i, own.add ? get(grad + i) + g : g);
	}
	if (i < n) {
		lanes g = stretched_back(
			get_tail(grad_y + i, n - i, 0), get_tail(x + i, n - i, 0), &own);
		put_tail(grad + i, own.add ? get_tail(grad + i, n - i, 0) + g : g, n - i);
	}
}

static void relu(float *y, const float *x, size_t n)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES)
		put(y + i, pick((bits)(get(x + i) < 0.0f), all(0), get(x + i)));
	for (; i < n; i++)
		y[i] = x[i] < 0 ? 0 : x[i];
}

static void relu_back(float *grad, const float *grad_y, const float *y, size_t n, bool more)
{
	size_t i = 0;
	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		lanes g = pick((bits)(get(y + i) > 0.0f), get(grad_y + i), all(0));
		put(grad + i, more ? get(grad + i) + g : g);
	}
	for (; i < n; i++) {
		float g = y[i] > 0 ? grad_y[i] : 0;
		grad[i] = more ? grad[i] + g : g;
	}
}

#endif
