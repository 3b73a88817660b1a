/* The CBLAS that is linked, one thread for each product. */
#ifndef KERNELS_CPU_BLAS_H
#define KERNELS_CPU_BLAS_H
#include "kernels/cpu/product.h"

/* Before the first product.  Switches the library's own threads off. */
void blas_prepare(void);
/* Whether the address space has room for the buffers of so many threads that multiply.  OpenBLAS
 * maps one for each, and where it gets none it tries again without end. */
bool blas_has_room(unsigned threads);
void blas_product(const struct product *p);
/* What is linked, for people: "OpenBLAS 0.3.21 SkylakeX", or "CBLAS". */
void blas_describe(char *out, size_t size);

#endif
