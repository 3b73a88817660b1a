/* Matrix products by the CBLAS that is linked, one thread each. */
#ifndef KERNELS_CPU_BLAS_H
#define KERNELS_CPU_BLAS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Row-major; row i begins at at + i * step.  Turned: the transpose of what is there. */
struct matrix {
	const float *at;
	uint64_t step;
	bool turned;
};

/* c [m,n] = (or +=, with add) alpha a [m,k] b [k,n]. */
struct product {
	uint64_t m, n, k;
	struct matrix a, b;
	float alpha;
	float *c;
	uint64_t c_step;
	bool add;
};

/* Before the first product.  Switches the library's own threads off. */
void blas_prepare(void);
void blas_product(const struct product *p);
/* What is linked, for people: "OpenBLAS 0.3.21 SkylakeX", or "CBLAS". */
void blas_describe(char *out, size_t size);

#endif
