#include "kernels/cpu/blas.h"
#include <cblas.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* OpenBLAS's own; another CBLAS lacks them, and links all the same. */
__attribute__((weak)) void openblas_set_num_threads(int n);
__attribute__((weak)) char *openblas_get_config(void);
__attribute__((weak)) char *openblas_get_corename(void);

void blas_prepare(void)
{
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
}

#define BUFFER ((size_t)160 << 20)

bool blas_has_room(unsigned threads)
{
	size_t bytes = threads * BUFFER;
	void *room =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return room != MAP_FAILED && !munmap(room, bytes);
}

void blas_product(const struct product *p)
{
	cblas_sgemm(CblasRowMajor, p->a.turned ? CblasTrans : CblasNoTrans,
		p->b.turned ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, p->alpha,
		p->a.at, (int)p->a.step, p->b.at, (int)p->b.step, p->add ? 1 : 0, p->c,
		(int)p->c_step);
}

void blas_describe(char *out, size_t size)
{
	if (!openblas_get_config || !openblas_get_corename) {
		snprintf(out, size, "CBLAS");
		return;
	}
	/* The configuration is "OpenBLAS 0.3.21 NO_LAPACKE …". */
	const char *config = openblas_get_config();
	size_t name = strcspn(config, " ");
	size_t length = name + (config[name] ? 1 + strcspn(config + name + 1, " ") : 0);
	snprintf(out, size, "%.*s %s", (int)length, config, openblas_get_corename());
}
