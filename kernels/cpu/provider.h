/*
 * What a plug-in with a library of matrix products gives to the cpu backend: a table that its one
 * exported function returns.  Both sides are compiled from this header; a table with another ABI
 * number or size is refused.  Calls of different threads may run at once; one thread number is used
 * by one thread at a time.  No call fails after open: a plug-in that gets no memory for what it
 * keeps of a shape ends the process with a message.  Same inputs give the same bits on any thread.
 */
#ifndef KERNELS_CPU_PROVIDER_H
#define KERNELS_CPU_PROVIDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/cpu/product.h"

#define PROVIDER_ABI 1u
#define PROVIDER_SYMBOL "shoal_provider"

struct library; /* the plug-in's own */

/* bfloat16 as it lies in memory: the upper half of a float32.  As struct matrix. */
struct half_matrix {
	const uint16_t *at;
	uint64_t step;
	bool turned;
};

/* c [m,n] = a [m,k] b [k,n] added up in float32; b as pack left it, c without gaps. */
struct half_product {
	uint64_t m, n, k;
	const uint16_t *a;
	uint64_t a_step;
	const uint16_t *b;
	float *c;
};

/* Elements that pack writes at most. */
static inline uint64_t provider_packed(uint64_t k, uint64_t n)
{
	return (k + 63) / 64 * 64 * ((n + 63) / 64 * 64);
}

struct provider {
	uint32_t abi, size; /* of this table, in bytes */
	/* NULL, with a sentence in why, where the library does not work on this machine. */
	struct library *(*open)(unsigned threads, char *why, size_t size);
	void (*close)(struct library *l);
	void (*describe)(const struct library *l, char *out, size_t size);
	bool (*has_bf16)(const struct library *l);
	void (*product)(struct library *l, unsigned thread, const struct product *p); /* alpha 1 */
	/* Brings b [k,n] into the library's own order. */
	void (*pack)(struct library *l, unsigned thread, const struct half_matrix *b, uint64_t k,
		uint64_t n, uint16_t *to);
	void (*half_product)(struct library *l, unsigned thread, const struct half_product *p);
	/* to [columns,rows] without gaps = the transpose of from [rows,columns]. */
	void (*turn)(struct library *l, unsigned thread, const struct half_matrix *from,
		uint64_t rows, uint64_t columns, uint16_t *to);
};

typedef const struct provider *provider_fn(void);

#endif
