/*
 * DeMo's transform: a chunk of 4096 values as a square of 64 x 64, and its two-dimensional
 * orthonormal DCT-II, C X C^T with C[0][j] = sqrt(1/64), C[u][j] = sqrt(2/64) cos(pi (2j+1) u /
 * 128).  Orthonormal, so that norms stay.  Sums in double precision in a fixed order, cosines from
 * a table in the source: the same bits on every machine.  A chunk that is shorter stays as it is.
 * Pure, any thread.
 */
#ifndef COMPRESS_DCT_H
#define COMPRESS_DCT_H
#include <stddef.h>
#include <stdint.h>

#define DCT_CHUNK 4096u

/* In place, len <= DCT_CHUNK values of one chunk.  Results may be infinite where values are beyond
 * a 64th of the largest float. */
void dct_forward(float *v, uint32_t len);
void dct_inverse(float *v, uint32_t len);
/* The same on what is summed already. */
void dct_inverse_double(double *v, uint32_t len);

#endif
