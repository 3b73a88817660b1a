/* How a vector is cut into chunks, and the work on them into stretches. */
#ifndef COMPRESS_CHUNKS_H
#define COMPRESS_CHUNKS_H
#include <stddef.h>
#include <stdint.h>
#include "compress/codec.h"

/* About so many values one thread takes at a time. */
#define CHUNKS_STRETCH_VALUES ((size_t)1 << 18)

static inline size_t chunks_count(const struct codec_params *p, size_t n)
{
	return (n + p->chunk - 1) / p->chunk;
}

static inline uint32_t chunks_len(const struct codec_params *p, size_t n, size_t chunk)
{
	size_t left = n - chunk * p->chunk;
	return left < p->chunk ? (uint32_t)left : p->chunk;
}

/* How many of so many values are kept at most: a shorter chunk keeps its share, rounded up. */
static inline uint32_t chunks_k(const struct codec_params *p, uint32_t len)
{
	return (uint32_t)(((uint64_t)p->k * len + p->chunk - 1) / p->chunk);
}

/* The k of all chunks together. */
static inline size_t chunks_k_all(const struct codec_params *p, size_t n)
{
	size_t whole = n / p->chunk, rest = n % p->chunk;
	return whole * p->k + (rest ? chunks_k(p, (uint32_t)rest) : 0);
}

/* Chunks of a stretch, at least one. */
static inline size_t chunks_stretch(const struct codec_params *p)
{
	return CHUNKS_STRETCH_VALUES / p->chunk;
}

static inline size_t chunks_stretches(const struct codec_params *p, size_t n)
{
	return (chunks_count(p, n) + chunks_stretch(p) - 1) / chunks_stretch(p);
}

#endif
