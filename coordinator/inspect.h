/* What `shoal-coordinator inspect` shows: one function for each kind of thing.  They print a table
 * to standard output and return an error with its sentence; then nothing useful was printed. */
#ifndef COORDINATOR_INSPECT_H
#define COORDINATOR_INSPECT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* What is asked of inspect rate; 0: not said. */
struct inspect_link {
	uint64_t up, down; /* bits per second */
	uint64_t peers;
	uint64_t round_ns;
	uint64_t quota; /* bytes of 30 days, both ways together */
	bool any_values;
};

/* path is a spec; sets are n "path=value" changes to it. */
struct inspect {
	const char *path;
	const char *const *sets;
	size_t n_sets;
	const struct inspect_link *link;
};

/* X(kind, what follows it, one line of help) */
#define INSPECT_LIST(X) \
	X(spec, "SPEC [PATH=VALUE ...]", "every member with its default, or every mistake") \
	X(model, "SPEC [PATH=VALUE ...]", "operators with shapes, parameters, FLOPs; shards") \
	X(rate, "SPEC [PATH=VALUE ...]", \
		"what contributions take of a link, and how large they get") \
	X(snapshot, "STATE...", "run, place in the run, sections, sizes") \
	X(shard, "STATE...", "parameters of every shard with mean, spread and extremes") \
	X(manifest, "FILE|DIR...", "tokenizer and token shards, and which of them are there") \
	X(safetensors, "FILE...", "tensors of a file for other tools")

#define X(kind, args, help) \
	enum err inspect_##kind(const struct inspect *i, struct why *why) MUST_CHECK;
INSPECT_LIST(X)
#undef X

#endif
