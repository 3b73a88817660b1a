/* The parts of bench_codec: real pseudo-gradients, and what a codec makes of them. */
#ifndef TESTS_HELP_BENCH_CODEC_H
#define TESTS_HELP_BENCH_CODEC_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "compress/codec.h"

/* ---- pseudo-gradients */

/* v = beta e + (base - W) of one crew, shard and round. */
struct help_bench_vector {
	uint32_t round, crew, shard; /* round from 1 */
	size_t n;
	const float *v;
};

struct help_bench_vectors {
	struct help_bench_vector *at;
	size_t count, n; /* n: values of all */
	struct arena floats;
};

/* A GPT on bytes, trained by crews that take turns in this process, with SparseLoCo's error
 * feedback and rule over the codec under test (two at k = 64 of 4096). */
struct help_bench_training {
	const char *name;
	uint32_t layers, width, heads, shards;
	uint32_t batch, steps; /* of an inner step; inner steps of a round */
	uint32_t crews, rounds;
	double lr;
	uint32_t keep[2]; /* rounds of which v is kept; 0: none */
};

/* The text is build/bench/new-testament.txt, made of Debian's bible-kjv, or TEXT=FILE.  What comes
 * out is kept in build/bench/gradients-NAME-KEY.bin; the key covers text, training and the bytes
 * that the codec makes, so that only a second run of the same is quick.  Progress on stderr. */
void help_bench_train(const struct help_bench_training *t, struct help_bench_vectors *out);
void help_bench_vectors_release(struct help_bench_vectors *v);

/* ---- what is sent of them: sizes, entropy, error */

/* Kinds of planes, as FORMAT.md has them; longer codes and sides are several planes. */
#define HELP_BENCH_PLANE_LIST(X) \
	X(header) X(missing) X(side) X(symbols) X(low_bits) X(codes) X(signs)
enum help_bench_plane {
#define X(name) HELP_BENCH_##name,
	HELP_BENCH_PLANE_LIST(X)
#undef X
		HELP_BENCH_PLANES
};
extern const char *const help_bench_plane_names[HELP_BENCH_PLANES];

struct help_bench_plane_size {
	double bytes, framed;  /* before and after frame_pack */
	double level1, level3; /* after zstd with its usual settings, planes apart as in a frame */
	/* Bits of order 0: N symbols that occur c times each have the sum of c log2(N / c), in each
	 * vector by itself, without any cost of telling the frequencies. */
	double entropy;
};

/*
 * Sums over all vectors.  Entropy is that of the numbers that are sent, whatever bytes they are
 * packed into: how many are missing in each chunk; each byte of what groups have beside their codes
 * (whole vectors' as it is); gaps between places (symbols and low_bits together, by the chain rule:
 * the symbols' own, and what is left for the low bits); codes with their signs (the same way; each
 * byte of codes of 16 and 32 bits, which would all be different in so few values).  The header,
 * known beforehand, has none.
 */
struct help_bench_size {
	size_t n, kept;
	struct help_bench_plane_size plane[HELP_BENCH_PLANES], all;
	double error, norm; /* sums of squares: of v - v', of v */
	/* The same over what is kept alone, and as it is sent: of coefficients where there is a
	 * DCT. */
	double kept_error, kept_norm;
};

void help_bench_size(const struct codec_params *p, const struct help_bench_vectors *v,
	struct help_bench_size *out);

/* ---- how fast */

#define HELP_BENCH_RUNS 7

/* Seconds for all vectors, one thread: planes made, framed, taken out of the frame, and checked
 * (codec_open) and added to a vector (codec_add). */
struct help_bench_seconds {
	double encode, pack, unpack, decode;
};
struct help_bench_seconds help_bench_time(
	const struct codec_params *p, const struct help_bench_vectors *v);

/* A figure measured HELP_BENCH_RUNS times. */
struct help_bench_spread {
	double median, least, most;
};
struct help_bench_spread help_bench_spread(double x[static HELP_BENCH_RUNS]); /* sorts */

/* ---- tables beside, printed; what is returned goes into the JSON, owned */

/* zstd alone on a vector as float32 and as float16, by level. */
json_t *help_bench_zstd(const struct help_bench_vector *v);
/* All contributions of a round sent to everybody, or merged first, for 2, 4, 8, … of them. */
json_t *help_bench_merge(const struct codec_params *p, const struct help_bench_vectors *v);

#endif
