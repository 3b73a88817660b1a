/*
 * Matrix products of the cpu backend.  The CBLAS that is linked serves always; a library in a
 * plug-in (provider.h) takes its place where it is there, fits and computes rightly.  A product is
 * computed by the thread that calls, and which library takes it depends on its shape only, so any
 * number of threads gives the same bits.
 */
#ifndef KERNELS_CPU_PRODUCT_H
#define KERNELS_CPU_PRODUCT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* Row-major; row i begins at at + i * step.  Turned: the transpose of what is there. */
struct matrix {
	const float *at;
	uint64_t step;
	bool turned;
};

/* c [m,n] = (or +=, with add) alpha a [m,k] b [k,n]; m, n, k from 1 to INT32_MAX. */
struct product {
	uint64_t m, n, k;
	struct matrix a, b;
	float alpha;
	float *c;
	uint64_t c_step;
	bool add;
};

struct products {
	const struct provider *plugin; /* NULL: only CBLAS */
	struct library *library;       /* the plug-in's */
	bool has_bf16;                 /* the plug-in has, and is quick at it */
	char without[160];             /* why there is no plug-in, for people */
};

/* plugin: the file's path, NULL for none.  Whatever is wrong with it is told in without and CBLAS
 * taken. */
void product_open(struct products *p, const char *plugin, unsigned threads);
void product_close(struct products *p);
/* Take CBLAS from now on, because of what the sentence says. */
void product_drop_plugin(struct products *p, const char *without);
/* "oneDNN 2.6.3 AVX-512, AMX" or "OpenBLAS 0.3.21 SkylakeX". */
void product_describe(const struct products *p, char *out, size_t size);

/* thread: below what product_open was given, and this thread's alone while it runs. */
void product_run(const struct products *p, unsigned thread, const struct product *product);

#endif
