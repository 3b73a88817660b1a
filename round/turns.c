#include "round/turns.h"

uint32_t turns_fragments(const struct spec_round *r)
{
	return r->fragments ? r->fragments : 1;
}

uint32_t turns_fragment(const struct spec_round *r, uint64_t round)
{
	return round ? (uint32_t)((round - 1) % turns_fragments(r)) : 0;
}

bool turns_has(const struct spec_round *r, uint64_t round, uint32_t shard)
{
	return shard % turns_fragments(r) == turns_fragment(r, round);
}

uint32_t turns_shards(const struct spec_round *r, uint64_t round, uint32_t n_shards)
{
	uint32_t first = turns_fragment(r, round), every = turns_fragments(r);
	return first < n_shards ? (n_shards - first - 1) / every + 1 : 0;
}

uint64_t turns_most(const uint64_t listed[static SPEC_FRAGMENTS_MAX])
{
	uint64_t most = 0;
	for (uint32_t f = 0; f < SPEC_FRAGMENTS_MAX; f++)
		most = listed[f] > most ? listed[f] : most;
	return most;
}

uint32_t turns_settle(const struct spec_round *r, struct span *spans, uint32_t n,
	uint64_t listed[static SPEC_FRAGMENTS_MAX])
{
	uint64_t least = UINT64_MAX;
	for (uint32_t f = 0; f < turns_fragments(r); f++)
		least = listed[f] < least ? listed[f] : least;
	for (uint32_t f = 0; f < turns_fragments(r); f++)
		listed[f] -= least;
	return span_tail(spans, n, least, spans);
}

uint64_t turns_missing(const struct spec_round *r, uint32_t n_shards,
	const uint64_t listed[static SPEC_FRAGMENTS_MAX])
{
	uint64_t missing = 0, most = turns_most(listed);
	for (uint32_t shard = 0; shard < n_shards; shard++)
		missing += most - listed[shard % turns_fragments(r)];
	return missing;
}

void turns_rate(
	const struct spec_round *r, uint32_t n_shards, const uint64_t *params, struct rate_ask *ask)
{
	const double share = RATE_SHARE * turns_fragments(r);
	ask->share = share < RATE_SHARE_MOST ? share : RATE_SHARE_MOST;
	ask->n = 0;
	for (uint64_t round = 1; round <= turns_fragments(r); round++) {
		uint64_t n = 0;
		for (uint32_t s = 0; s < n_shards; s++)
			n += turns_has(r, round, s) ? params[s] : 0;
		ask->n = n > ask->n ? n : ask->n;
	}
}
