/*
 * The micro-batch that fits into memory.  The spec's train.micro_batch is the most; a smaller
 * divisor of train.batch gives the same gradient up to the order of its sums.  A model with running
 * statistics takes them over the micro-batch, which then stays what the spec says.  Where nothing
 * else helps, values are made again in backward (train.recompute), which changes no bit.
 */
#ifndef PEER_FIT_H
#define PEER_FIT_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "kernels/exec.h"
#include "model/spec.h"

struct fit_ask {
	const struct spec *spec;
	const struct backend *backend;
	const struct device *device;
	bool training;   /* else validation */
	uint32_t beside; /* vectors of all parameters, in floats, that the caller holds as well */
	uint64_t memory; /* bytes that may be taken */
};

struct fit {
	uint32_t micro_batch;
	bool recompute;
	uint64_t bytes; /* that it takes, all together */
};

enum exec_mode fit_mode(bool training, bool recompute);
/* The largest that fits; with below only those are tried that need less than it, for when the
 * memory was not there after all.  ERR_nomem with a sentence when none fits.  Pure but for the
 * memory of the plans. */
enum err fit_find(const struct fit_ask *ask, const struct fit *below, struct fit *out,
	struct why *why) MUST_CHECK;

#endif
