/*
 * How much of a vector a link carries in time.  A transfer that takes a tenth of a round costs
 * nothing that can be seen in the loss, a third does: so a contribution shrinks before the delay
 * grows.  What may shrink is how many values of a chunk are kept, and, where it is asked for, how
 * they are quantised; the spec's codec is the most.  Pure, any thread; nothing here can fail.
 */
#ifndef COMPRESS_RATE_H
#define COMPRESS_RATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "compress/codec.h"

#define RATE_SHARE 0.1      /* of a round, which a transfer may take */
#define RATE_SHARE_MOST 0.5 /* where shards take turns, and a shard's round is several */
#define RATE_CHUNK_PER 512u /* at least one of so many is kept: 8 of 4096 */
#define RATE_RUNGS 24
#define RATE_TEXT 240

/* What may change of the spec's codec. */
struct rate_rung {
	uint32_t k;
	enum values values;
};

/* Rates, times and sizes are positive, or 0 where 0 has a meaning. */
struct rate_ask {
	struct codec_params most; /* the spec's codec */
	bool any_values;          /* cheaper kinds of values may be taken */
	uint64_t n;               /* values of all vectors of a contribution */
	double ratio;    /* bits that the last contribution had by those estimated; 0: not known */
	double up, down; /* bits per second; 0: not known */
	uint32_t peers; /* contributions that come down, the own one too, each taken for as large */
	double round_s, share;   /* length of a round, and what of it a transfer may take */
	double quota_s;          /* until the quota is renewed; 0: there is none */
	double quota_bytes;      /* that are left of it, both ways together */
	struct rate_rung before; /* what was picked last; k 0: nothing yet */
};

struct rate_cost {
	double bits;                 /* of a parameter, on the way up */
	double up_s, down_s;         /* of a round; 0 where the rate is not known */
	double up_bytes, down_bytes; /* of a round */
};

/* Bits that a value of the vector costs, as the entropy of places among all and codes without any
 * redundancy have it; zstd comes within a few per cent. */
double rate_bits(const struct codec_params *p);
/* What may be picked, from the spec's down: first cheaper values (two bits cost next to nothing in
 * loss, fewer places a good deal), then half of k each time. */
size_t rate_ladder(const struct rate_ask *ask, struct rate_rung out[static RATE_RUNGS]);
struct rate_cost rate_cost(const struct rate_ask *ask, const struct rate_rung *rung);

/*
 * The first rung whose transfers are short enough both ways and leave the quota until it is
 * renewed; what is not known limits nothing; the last rung where none is.  A rung above the one
 * picked before must leave a quarter of what is allowed free, so that the choice does not follow
 * every swing of a measured rate.  why is a sentence with the figures.
 */
struct rate_rung rate_pick(const struct rate_ask *ask, char why[static RATE_TEXT]);

#endif
