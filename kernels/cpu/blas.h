/* The CBLAS that is linked, one thread for each product. */
#ifndef KERNELS_CPU_BLAS_H
#define KERNELS_CPU_BLAS_H
#include "kernels/cpu/product.h"

/* Before the first product.  Switches the library's own threads off. */
void blas_prepare(void);
void blas_product(const struct product *p);
/* What is linked, for people: "OpenBLAS 0.3.21 SkylakeX", or "CBLAS". */
void blas_describe(char *out, size_t size);

#endif
