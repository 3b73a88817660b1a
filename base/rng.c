#include "base/rng.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

__extension__ typedef unsigned __int128 uint128;

struct block {
	uint32_t w[4];
};

/* Ten rounds over (counter, stream) under the key, as in the paper; the constants are its own. */
static struct block philox(uint64_t key, uint64_t stream, uint64_t counter)
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
	uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xd2511f53u * c0;
		uint64_t p1 = (uint64_t)0xcd9e8d57u * c2;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	return (struct block){{c0, c1, c2, c3}};
}

uint32_t rng_u32(uint64_t seed, uint64_t stream, uint64_t counter)
{
	return philox(seed, stream, counter).w[0];
}

uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t counter)
{
	struct block b = philox(seed, stream, counter);
	return (uint64_t)b.w[1] << 32 | b.w[0];
}

uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t counter, uint64_t n)
{
	// The high half of the product; its bias of at most n / 2^64 is far below what can be seen.
	return (uint64_t)((uint128)rng_u64(seed, stream, counter) * n >> 64);
}

double rng_unit(uint64_t seed, uint64_t stream, uint64_t counter)
{
	return (double)(rng_u64(seed, stream, counter) >> 11) * 0x1p-53;
}

/* Three uniforms of 21 bits each from half a block. */
static int32_t three(uint32_t low, uint32_t high)
{
	const uint32_t mask = (1u << 21) - 1;
	uint64_t v = (uint64_t)high << 32 | low;
	return (int32_t)(((uint32_t)v & mask) + ((uint32_t)(v >> 21) & mask) +
			 ((uint32_t)(v >> 42) & mask));
}

float rng_normal(uint64_t seed, uint64_t stream, uint64_t counter)
{
	// Twelve uniforms of 21 bits are two blocks, under keys of their own so that they repeat
	// nothing that the other functions give.  The sum is exact in integers; 6 centres the
	// steps.
	// The second key follows from the first by a product: two keys a fixed xor apart would swap
	// roles between two seeds, and the sum would not see it.
	uint64_t key = seed ^ 0x6e6f726d616c3031ull;
	struct block a = philox(key, stream, counter);
	struct block b = philox(key * 0x9e3779b97f4a7c15ull + 1, stream, counter);
	int32_t sum = three(a.w[0], a.w[1]) + three(a.w[2], a.w[3]) + three(b.w[0], b.w[1]) +
		      three(b.w[2], b.w[3]) + 6 - 6 * (1 << 21);
	return (float)((double)sum * 0x1p-21);
}

void rng_secret(void *out, uint32_t n)
{
	uint8_t *at = out;
	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			fprintf(stderr, "the system gives no random bytes\n");
			abort();
		}
		at += got;
		n -= (uint32_t)got;
	}
}
