/*
 * The two 16-bit floats of checkpoints: IEEE's float16 (5 bits of exponent, 10 of fraction) and
 * bfloat16 (the upper half of a float32).  Widening is exact; rounding is to nearest, ties to even,
 * and gives infinity for what is too large.  A 16-bit float that is widened and rounded again has
 * the same bits, NaNs included.  Pure.
 */
#ifndef MODEL_HALF_H
#define MODEL_HALF_H
#include <stdint.h>

float half_from_f16(uint16_t h);
uint16_t half_to_f16(float f);
float half_from_bf16(uint16_t h);
uint16_t half_to_bf16(float f);

#endif
