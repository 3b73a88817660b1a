/* Headers come first, so that nothing but the loops is compiled for AVX2. */
#include "compress/topk.h"
#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>
#include "compress/floats.h"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,popcnt"))), apply_to = function)
#else
#pragma GCC target("avx2,popcnt")
#endif
#define TOPK_LANES 8
#define TOPK_NAME topk_avx2
#define TOPK_ISA "AVX2"
#include "compress/topk_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
