#include "model/permute.h"
#include <assert.h>
#include "base/rng.h"

#define ROUNDS 8u
/* One stream of the generator for each round; the number spells "feistel". */
#define STREAM 0x6665697374656c00ull

struct feistel {
	uint64_t key, mask;
	unsigned half; /* bits of each half */
};

static struct feistel feistel_for(uint64_t key, uint64_t n)
{
	struct feistel f = {.key = key, .half = 1};
	while (f.half < 32 && 1ull << (2 * f.half) < n)
		f.half++;
	f.mask = (1ull << f.half) - 1;
	return f;
}

static uint64_t forward(const struct feistel *f, uint64_t x)
{
	uint64_t left = x >> f->half, right = x & f->mask;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t next = left ^ (rng_u64(f->key, STREAM + i, right) & f->mask);
		left = right;
		right = next;
	}
	return left << f->half | right;
}

static uint64_t backward(const struct feistel *f, uint64_t x)
{
	uint64_t left = x >> f->half, right = x & f->mask;
	for (unsigned i = ROUNDS; i-- > 0;) {
		uint64_t before = right ^ (rng_u64(f->key, STREAM + i, left) & f->mask);
		right = left;
		left = before;
	}
	return left << f->half | right;
}

/* The network permutes [0, 4^half); the cycle that starts below n comes back below n, at the latest
 * at its own start, so both walks end. */
uint64_t permute(uint64_t key, uint64_t position, uint64_t n)
{
	assert(position < n);
	struct feistel f = feistel_for(key, n);
	do
		position = forward(&f, position);
	while (position >= n);
	return position;
}

uint64_t permute_inverse(uint64_t key, uint64_t image, uint64_t n)
{
	assert(image < n);
	struct feistel f = feistel_for(key, n);
	do
		image = backward(&f, image);
	while (image >= n);
	return image;
}
