/*
 * Registers of floats for one instruction set, for the loops of vec_body.h and its parts: whoever
 * includes this sets VEC_NAME, VEC_LANES (floats in a register) and VEC_ISA; without, it is what
 * the compiler takes for granted.  A vector type of the compiler instead of intrinsics: gcc and
 * clang translate it for any machine, and unlike with plain loops sums are vectorised without leave
 * to reorder them.
 */
#ifndef KERNELS_CPU_VEC_LANES_H
#define KERNELS_CPU_VEC_LANES_H
#ifdef __SSE2__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "kernels/cpu/vec.h"
#ifndef VEC_LANES
#define VEC_LANES 4
#define VEC_NAME cpu_vec_plain
#ifdef __aarch64__
#define VEC_ISA "NEON"
#else
#define VEC_ISA "plain"
#endif
#endif

typedef float lanes __attribute__((vector_size(4 * VEC_LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * VEC_LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * VEC_LANES)));
typedef float half_lanes __attribute__((vector_size(2 * VEC_LANES)));
typedef double wide_lanes __attribute__((vector_size(4 * VEC_LANES)));

static inline lanes get(const float *x)
{
	lanes v;
	memcpy(&v, x, sizeof v);
	return v;
}

static inline void put(float *y, lanes v)
{
	memcpy(y, &v, sizeof v);
}

static inline lanes all(float x)
{
	return x - (lanes){0}; /* unlike an addition of 0 this leaves -0 as it is: nothing to do */
}

/* The last n < VEC_LANES values of a row; the rest of the register holds fill. */
static inline lanes get_tail(const float *x, size_t n, float fill)
{
	lanes v = all(fill);
	memcpy(&v, x, n * sizeof *x);
	return v;
}

static inline void put_tail(float *y, lanes v, size_t n)
{
	memcpy(y, &v, n * sizeof *y);
}

/* To y + i, if there is a y: v, or v more. */
static inline void give(float *y, size_t i, lanes v, size_t n, bool more)
{
	if (!y)
		return;
	if (n == VEC_LANES)
		put(y + i, more ? get(y + i) + v : v);
	else
		put_tail(y + i, more ? get_tail(y + i, n, 0) + v : v, n);
}

static inline lanes pick(bits mask, lanes a, lanes b)
{
	return (lanes)(((bits)a & mask) | ((bits)b & ~mask));
}

/* a > b ? a : b, so that a NaN in b stays and one in a gets lost: what the instruction does. */
static inline lanes greater(lanes a, lanes b)
{
#if VEC_LANES == 16
	return (lanes)_mm512_max_ps((__m512)a, (__m512)b);
#elif VEC_LANES == 8
	return (lanes)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
	return (lanes)_mm_max_ps((__m128)a, (__m128)b);
#else
	return pick((bits)(a > b), a, b);
#endif
}

static inline lanes less(lanes a, lanes b)
{
#if VEC_LANES == 16
	return (lanes)_mm512_min_ps((__m512)a, (__m512)b);
#elif VEC_LANES == 8
	return (lanes)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
	return (lanes)_mm_min_ps((__m128)a, (__m128)b);
#else
	return pick((bits)(a < b), a, b);
#endif
}

static inline float total(lanes v)
{
	float part[VEC_LANES];
	memcpy(part, &v, sizeof part);
	for (size_t width = VEC_LANES / 2; width; width /= 2)
		for (size_t i = 0; i < width; i++)
			part[i] += part[i + width];
	return part[0];
}

static inline lanes root(lanes v)
{
#if VEC_LANES == 16
	return (lanes)_mm512_sqrt_ps((__m512)v);
#elif VEC_LANES == 8
	return (lanes)_mm256_sqrt_ps((__m256)v);
#elif defined(__SSE2__)
	return (lanes)_mm_sqrt_ps((__m128)v);
#elif defined(__aarch64__)
	return (lanes)vsqrtq_f32((float32x4_t)v);
#else
	for (size_t i = 0; i < VEC_LANES; i++)
		v[i] = sqrtf(v[i]);
	return v;
#endif
}

/* 2^n exp(r) with n whole and |r| at most half of log 2: the magic number's addition rounds x / log
 * 2 to n and leaves it in the low bits, log 2 is subtracted in two parts, and exp(r) is Cephes'
 * polynomial for expf.  Comparisons are such that NaN passes through. */
static inline lanes exponential(lanes x)
{
	const float magic = 12582912.0f; /* 1.5 * 2^23 */
	x = less(all(88.0f), greater(all(-87.0f), x));
	lanes t = x * 1.44269504088896341f + magic;
	lanes n = t - magic;
	lanes r = x - n * 0.693359375f + n * 2.12194440e-4f;
	lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + r + 1.0f;
	return p * (lanes)(((bits)t << 23) + (127u << 23));
}

/* exp(x) for a weight of a sum whose weights make 1 or more: below exp(-50), 0.  It adds nothing
 * there, and a gradient times less than that may be denormal, at a hundred times the price of every
 * instruction that meets it. */
static inline lanes weight(lanes x)
{
	return pick((bits)(x < -50.0f), all(0), exponential(x));
}

/* Outside of the row nothing must be added: what the tail's unused lanes give is struck out. */
static inline lanes first_lanes(lanes v, size_t n)
{
	lanes kept = all(0);
	memcpy(&kept, &v, n * sizeof(float));
	return kept;
}

#endif
