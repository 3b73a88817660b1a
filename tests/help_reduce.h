/*
 * Dense data parallel as PyTorch's DDP does it, for bench_allreduce: every rank computes the
 * gradient of its own sequences, a ring of TCP connections gives everybody the mean, and all take
 * the same step, so that parameters stay equal bit by bit.
 *
 * Buckets (the first 1 MiB, then 25 MiB) go in the reverse order of parameters.  The trainer's
 * gradients are there when backward has ended, so the ring does not run beside it as DDP's can;
 * reduce_ns and compute_ns are told apart, and the larger of the two is what the best overlap could
 * reach.  Within the ring everything overlaps: what has arrived of a bucket is sent on at once.
 *
 * Plain TCP without authentication: for measuring, on networks of one's own.  One thread per rank.
 */
#ifndef TESTS_HELP_REDUCE_H
#define TESTS_HELP_REDUCE_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/hash.h"
#include "peer/trainer.h"

#define HELP_REDUCE_WORLD_MAX 64u
#define HELP_REDUCE_FIRST ((uint64_t)1 << 20)   /* bytes of the first bucket */
#define HELP_REDUCE_BUCKET ((uint64_t)25 << 20) /* and of the others */

/* ---- the ring */

enum help_reduce_wire { HELP_REDUCE_float32, HELP_REDUCE_bf16 };

struct help_reduce_place {
	unsigned rank, world; /* 2 to HELP_REDUCE_WORLD_MAX */
	enum help_reduce_wire wire;
	struct hash run; /* of what all ranks must agree on */
};

struct help_reduce_ring;

/* The socket that the rank before will connect to; port 0 takes a free one, which is told. */
enum err help_reduce_listen(const char *host, uint16_t *port, int *fd, struct why *why) MUST_CHECK;
/* Connects to the next rank, which may not be there yet, and waits for the one before; both within
 * patience_ns.  The listener stays the caller's.  ERR_refused: the other one is another rank, or of
 * another run. */
enum err help_reduce_join(const struct help_reduce_place *place, int listener,
	const char *next_host, uint16_t next_port, uint64_t patience_ns,
	struct help_reduce_ring **out, struct why *why) MUST_CHECK;
void help_reduce_leave(struct help_reduce_ring *r);          /* NULL-safe */
uint64_t help_reduce_sent(const struct help_reduce_ring *r); /* bytes so far */

struct help_reduce_bucket {
	float *values;
	uint64_t n;
};

/* Cuts n values from their end: a first bucket of so many, then buckets of `most`.  Returns how
 * many there are; with out NULL nothing is written.  Pure. */
size_t help_reduce_cut(
	float *values, uint64_t n, uint64_t first, uint64_t most, struct help_reduce_bucket *out);

/* All values become the mean over the ranks, the same bits everywhere; every rank calls it with
 * buckets of the same sizes.  Sums are made in the order of ranks, from the chunk's own rank on; on
 * a wire of bf16 each partial sum is rounded.  ERR_closed, ERR_network, ERR_timeout: the ring is
 * broken. */
enum err help_reduce_mean(struct help_reduce_ring *r, const struct help_reduce_bucket *buckets,
	size_t n, struct why *why) MUST_CHECK;

/* ---- training */

struct help_reduce_config {
	const struct spec *spec; /* borrowed, as corpus and ring */
	const struct corpus *corpus;
	const char *backend;
	unsigned threads;
	struct help_reduce_ring *ring; /* NULL: alone */
	unsigned rank, world;
};

struct help_reduce_step {
	double loss; /* of this rank's own sequences */
	uint64_t compute_ns, reduce_ns;
};

struct help_reduce;

/* ERR_unsupported: initial weights from elsewhere, or running statistics, which no all-reduce of
 * gradients keeps equal. */
enum err help_reduce_new(const struct help_reduce_config *config, struct help_reduce **out,
	struct why *why) MUST_CHECK;
void help_reduce_free(struct help_reduce *h); /* NULL-safe */
/* Step `number`, from 0: the ranks' batches follow each other in the order of sequence numbers. */
enum err help_reduce_step(struct help_reduce *h, uint64_t number, struct help_reduce_step *out,
	struct why *why) MUST_CHECK;
struct trainer *help_reduce_trainer(struct help_reduce *h);
struct hash help_reduce_hash(struct help_reduce *h); /* of all parameters */

#endif
