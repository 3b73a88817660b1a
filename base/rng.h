/*
 * Counter-based randomness (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC 2011): a value is a pure function of (seed, stream, counter), so nothing needs
 * saving and any element can be made alone.  No libm: the bits are the same on every machine.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H
#include <stdint.h>

uint32_t rng_u32(uint64_t seed, uint64_t stream, uint64_t counter);
uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t counter);
uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t counter, uint64_t n); /* n > 0 */
double rng_unit(uint64_t seed, uint64_t stream, uint64_t counter);                /* [0, 1) */
/* Mean 0, variance 1: the centred sum of twelve uniforms (Irwin-Hall), additions only, |x| < 6. */
float rng_normal(uint64_t seed, uint64_t stream, uint64_t counter);
/* Bytes that must not be guessed, from the system.  Ends the process if there is no source. */
void rng_secret(void *out, uint32_t n);

#endif
