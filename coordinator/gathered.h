/*
 * Whether an update that an aggregator made is the one that was asked of it: of exactly the
 * contributions that count, and in the form that everybody gets who makes it.  That a merged one is
 * what those come to is not seen here: a witness says it, or the bundle.  Pure, any thread.
 */
#ifndef COORDINATOR_GATHERED_H
#define COORDINATOR_GATHERED_H
#include <stdbool.h>
#include "round/exchange.h"
#include "round/update_make.h"

/* A contribution that counts. */
struct gathered_item {
	uint32_t peer;
	uint8_t key[SIGN_PUBLIC]; /* its signing key */
	uint64_t tokens;
	struct hash planes;
	double norm_limit; /* of its vector, where there is one to see; 0: none */
};

struct gathered_expect {
	struct exchange exchange;
	struct hash run, parent;
	uint64_t round;
	uint32_t shard;
	size_t n;                          /* values of the shard */
	const struct gathered_item *items; /* ascending by peer; borrowed */
	uint32_t count;
	bool whole; /* it must be the bundle */
};

/* Takes bytes (from malloc).  *out is the update as it counts: of a bundle that has fewer bytes
 * merged, the merged one; *came is the kind that was sent.  Errors of update_make_open; ERR_hash
 * for another list, ERR_shape where the bundle was asked for, ERR_norm. */
enum err gathered_check(const struct gathered_expect *g, uint8_t *bytes, size_t len,
	struct update_made *out, enum update_kind *came, struct why *why) MUST_CHECK;

#endif
