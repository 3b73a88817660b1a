#include "base/rng.h"
#include "compress/select.h"

/*
 * Floyd's choice without replacement: after the turn of j every subset of the places up to j of
 * that size is equally likely.  A map of bits tells which are chosen and gives them in order.
 */
static uint32_t choose(const struct select_from *from, uint16_t *place)
{
	uint64_t chosen[SELECT_CHUNK_MAX / 64];
	uint32_t words = (from->len + 63) / 64;
	for (uint32_t w = 0; w < words; w++)
		chosen[w] = 0;
	for (uint32_t j = from->len - from->k; j < from->len; j++) {
		uint32_t at = (uint32_t)rng_below(from->seed, from->chunk, j, (uint64_t)j + 1);
		if (chosen[at / 64] >> at % 64 & 1)
			at = j;
		chosen[at / 64] |= (uint64_t)1 << at % 64;
	}
	uint32_t m = 0;
	for (uint32_t w = 0; w < words; w++)
		for (uint64_t left = chosen[w]; left; left &= left - 1)
			place[m++] = (uint16_t)(64 * w + (uint32_t)__builtin_ctzll(left));
	return m;
}

const struct select_row select_randk = {
	.name = "randk",
	.takes_k = true,
	.takes_seed = true,
	.choose = choose,
};
