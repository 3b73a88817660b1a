/*
 * topk.h for one instruction set: topk_NAME.c sets TOPK_NAME, TOPK_LANES (floats in a register) and
 * TOPK_ISA, and includes this once; without, it is what the compiler takes for granted.  The
 * compiler's vector types do most of it on any machine.
 *
 * Magnitudes are compared as integers.  The k-th largest is found by bisection over its bits, which
 * takes little more than log2(n) counts where all magnitudes differ and 31 at worst.  Where k is
 * small, a lower bound comes first: as many maxima of stretches of the chunk as suffice to have k
 * of them at or above some magnitude, and what reaches that magnitude is all that is bisected.
 */
#ifdef __SSE2__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include <string.h>
#include "compress/floats.h"
#include "compress/topk.h"
#ifndef TOPK_LANES
#define TOPK_LANES 4
#define TOPK_NAME topk_plain
#ifdef __aarch64__
#define TOPK_ISA "NEON"
#else
#define TOPK_ISA "plain"
#endif
#endif

enum {
	BLOCK = 1024,      /* values whose places are gathered between two looks at the room left */
	CANDIDATES = 4096, /* beyond these the whole chunk is bisected instead */
	MAXIMA = 4096,
	LEAST_MAXIMA = 128
};

typedef int32_t lanes __attribute__((vector_size(4 * TOPK_LANES)));

static inline lanes magnitudes(const float *v)
{
	lanes x;
	memcpy(&x, v, sizeof x);
	return x & 0x7fffffff;
}

static inline lanes larger(lanes a, lanes b)
{
#if TOPK_LANES == 16
	return (lanes)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif TOPK_LANES == 8
	return (lanes)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
	lanes mask = a > b;
	return (a & mask) | (b & ~mask);
#endif
}

#if TOPK_LANES < 16
/* Bit i is set where lane i of a mask is. */
static inline unsigned mask_bits(lanes mask)
{
#if TOPK_LANES == 8
	return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE2__)
	return (unsigned)_mm_movemask_ps((__m128)mask);
#else
	mask &= (lanes){1, 2, 4, 8};
#ifdef __aarch64__
	return (unsigned)vaddvq_s32((int32x4_t)mask);
#else
	return (unsigned)(mask[0] | mask[1] | mask[2] | mask[3]);
#endif
#endif
}

/* Writes four places, of which those of the bits that are set count; returns how many. */
static inline uint32_t put_four(unsigned bits, uint32_t first, uint16_t *to)
{
	typedef uint16_t four __attribute__((vector_size(8)));
	static const four places[16] = {{0}, {0}, {1}, {0, 1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}, {3},
		{0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
	static const uint8_t count[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
	four at = places[bits] + (uint16_t)first;
	memcpy(to, &at, sizeof at);
	return count[bits];
}
#endif

/* The places of v's lanes whose magnitude is at least from, v being at place first; returns how
 * many.  Writes TOPK_LANES places. */
static inline uint32_t put_places(const float *v, uint32_t from, uint32_t first, uint16_t *to)
{
#if TOPK_LANES == 16
	const __m512i count =
		_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
	__m512i at = _mm512_add_epi32(count, _mm512_set1_epi32((int)first));
	__mmask16 mask =
		_mm512_cmpge_epi32_mask((__m512i)magnitudes(v), _mm512_set1_epi32((int)from));
	__m256i places = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(mask, at));
	memcpy(to, &places, sizeof places);
	return (uint32_t)__builtin_popcount(mask);
#else
	unsigned bits = mask_bits(magnitudes(v) >= (int32_t)from);
	uint32_t n = put_four(bits & 15, first, to);
#if TOPK_LANES == 8
	n += put_four(bits >> 4, first + 4, to + n);
#endif
	return n;
#endif
}

/* The same for n values; to has room for n + TOPK_LANES. */
static uint32_t gather(const float *v, uint32_t n, uint32_t from, uint32_t first, uint16_t *to)
{
	uint32_t m = 0, i = 0;
	for (; i + TOPK_LANES <= n; i += TOPK_LANES)
		m += put_places(v + i, from, first + i, to + m);
	for (; i < n; i++) {
		to[m] = (uint16_t)(first + i);
		m += floats_magnitude(v[i]) >= from;
	}
	return m;
}

/* How many magnitudes are at least from. */
static uint32_t count(const float *v, uint32_t n, uint32_t from)
{
	lanes a = {0}, b = {0};
	uint32_t i = 0, sum = 0;
	for (; i + 2 * TOPK_LANES <= n; i += 2 * TOPK_LANES) {
		a -= magnitudes(v + i) >= (int32_t)from;
		b -= magnitudes(v + i + TOPK_LANES) >= (int32_t)from;
	}
	a += b;
	for (unsigned lane = 0; lane < TOPK_LANES; lane++)
		sum += (uint32_t)a[lane];
	for (; i < n; i++)
		sum += floats_magnitude(v[i]) >= from;
	return sum;
}

static uint32_t largest(const float *v, uint32_t n)
{
	lanes most = {0};
	uint32_t i = 0, all = 0;
	for (; i + TOPK_LANES <= n; i += TOPK_LANES)
		most = larger(most, magnitudes(v + i));
	for (unsigned lane = 0; lane < TOPK_LANES; lane++)
		all = (uint32_t)most[lane] > all ? (uint32_t)most[lane] : all;
	for (; i < n; i++)
		all = floats_magnitude(v[i]) > all ? floats_magnitude(v[i]) : all;
	return all;
}

/* The maxima of each so many registers' lanes; the rest at the end is left out.  Returns how many.
 * There are values for one such stretch at least. */
static uint32_t maxima(const float *v, uint32_t n, uint32_t registers, float *to)
{
	uint32_t stretch = registers * TOPK_LANES, m = 0, i = 0;
	do {
		lanes most = {0};
		for (uint32_t end = i + stretch; i < end; i += TOPK_LANES)
			most = larger(most, magnitudes(v + i));
		memcpy(to + m, &most, sizeof most);
		m += TOPK_LANES;
	} while (i + stretch <= n);
	return m;
}

/* count magnitudes are at least from.  If that is more than was wanted, above are larger. */
struct cut {
	uint32_t from, count, above;
};

/*
 * A magnitude that is at least least, with k to k + slack above it or equal; if there is none, the
 * largest with more; if even least has fewer, least.  From the largest downwards in growing steps,
 * for it is mostly near, then by halves.
 */
static struct cut cut(const float *v, uint32_t n, uint32_t k, uint32_t slack, uint32_t least)
{
	uint32_t end = largest(v, n) + 1, step = 1 << 22;
	struct cut c = {.from = least};
	if (end <= least)
		return c;
	for (;; end = c.from, c.above = c.count, step *= 2) {
		c.from = end - least > step ? end - step : least;
		c.count = count(v, n, c.from);
		if (c.count >= k)
			break;
		if (c.from == least)
			return c;
	}
	while (c.count > k + slack && end - c.from > 1) {
		uint32_t middle = c.from + (end - c.from) / 2, reached = count(v, n, middle);
		if (reached >= k) {
			c.from = middle;
			c.count = reached;
		} else {
			end = middle;
			c.above = reached;
		}
	}
	return c;
}

/* The places that an exact cut leaves. */
static uint32_t keep(const float *v, uint32_t n, uint32_t k, struct cut c, uint16_t *place)
{
	uint16_t found[BLOCK + TOPK_LANES];
	uint32_t at = 0, equal = c.count > k ? k - c.above : c.count;
	for (uint32_t first = 0; first < n; first += BLOCK) {
		uint32_t len = n - first < BLOCK ? n - first : BLOCK;
		uint32_t m = gather(v + first, len, c.from, first, found);
		if (c.count <= k) {
			memcpy(place + at, found, m * sizeof *found);
			at += m;
			continue;
		}
		for (uint32_t i = 0; i < m && at < k; i++) {
			uint32_t is_equal = floats_magnitude(v[found[i]]) == c.from;
			place[at] = found[i];
			at += !is_equal || equal > 0;
			equal -= is_equal && equal > 0;
		}
	}
	return at;
}

/* All values whose magnitude is at least from, unless they are more than CANDIDATES: some then. */
static uint32_t candidates(const float *v, uint32_t n, uint32_t from, uint16_t *to)
{
	uint32_t m = 0;
	for (uint32_t first = 0; first < n && m <= CANDIDATES; first += BLOCK) {
		uint32_t len = n - first < BLOCK ? n - first : BLOCK;
		m += gather(v + first, len, from, first, to + m);
	}
	return m;
}

/* A magnitude that at least k values reach, but not many more, if one is found; else least. */
static uint32_t lower_bound(const float *v, uint32_t n, uint32_t k, uint32_t least)
{
	float most[MAXIMA];
	uint32_t wanted = 4 * k > LEAST_MAXIMA ? 4 * k : LEAST_MAXIMA;
	uint32_t registers = n / wanted;
	if (registers < 2 || n / registers > MAXIMA)
		return least;
	uint32_t m = maxima(v, n, registers, most);
	return cut(most, m, k, k / 4, least).from;
}

static uint32_t choose(const float *v, uint32_t n, uint32_t k, uint32_t least, uint16_t *place)
{
	uint16_t chosen[CANDIDATES + BLOCK + TOPK_LANES];
	float value[CANDIDATES];
	uint32_t from = lower_bound(v, n, k, least);
	uint32_t m = from > least ? candidates(v, n, from, chosen) : CANDIDATES + 1;
	if (m > CANDIDATES)
		return keep(v, n, k, cut(v, n, k, 0, from), place);
	for (uint32_t i = 0; i < m; i++)
		value[i] = v[chosen[i]];
	m = keep(value, m, k, cut(value, m, k, 0, from), place);
	for (uint32_t i = 0; i < m; i++)
		place[i] = chosen[place[i]];
	return m;
}

const struct topk TOPK_NAME = {TOPK_ISA, choose};
