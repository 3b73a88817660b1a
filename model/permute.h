/*
 * A keyed permutation of [0, n) that needs no table: a Feistel network over the smallest even
 * number of bits that holds n, walked until it lands below n (Black and Rogaway, "Ciphers with
 * arbitrary finite domains", CT-RSA 2002).  Less than four steps on average.  Pure; the same on
 * every machine.  Not a cipher: nobody's secret depends on it.
 */
#ifndef MODEL_PERMUTE_H
#define MODEL_PERMUTE_H
#include <stdint.h>

/* Where position < n goes. */
uint64_t permute(uint64_t key, uint64_t position, uint64_t n);
/* The position that goes to image < n. */
uint64_t permute_inverse(uint64_t key, uint64_t image, uint64_t n);

#endif
