/* Headers come first, so that nothing but the loops is compiled for AVX-512. */
#include "kernels/cpu/vec.h"
#ifdef __x86_64__
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __clang__
#pragma clang attribute push( \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))), \
	apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#define VEC_LANES 16
#define VEC_NAME cpu_vec_avx512
#define VEC_ISA "AVX-512"
#include "kernels/cpu/vec_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
