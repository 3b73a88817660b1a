/*
 * Making the update of one shard and round from its contributions: as a bundle, or merged where
 * that has fewer bytes.  Whoever makes it, coordinator, aggregator or witness, gets the same
 * planes, so that the ledger does not depend on who did.  Pure functions, any thread.
 */
#ifndef ROUND_UPDATE_MAKE_H
#define ROUND_UPDATE_MAKE_H
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "round/rule.h"
#include "round/update.h"

struct update_make {
	struct update_expect expect; /* of what is made; merged 0: always the bundle */
	struct rule_params rule;
	uint64_t round;
	uint32_t shard;
};

struct update_made { /* update_make_release */
	struct buf bytes;
	struct update update; /* verified; borrows bytes */
};

/* The bundle; parts are ascending by peer, and not needed afterwards.  Errors of update_encode,
 * update_open and update_verify. */
enum err update_make_bundle(const struct update_make *m, const struct update_part *parts,
	uint32_t count, struct update_made *out, struct why *why) MUST_CHECK;
/* The same of an update that somebody else made, bundle or merged; takes bytes (from malloc), also
 * when it fails.  Errors of update_open and update_verify; ERR_shape when it is of another round,
 * shard or part. */
enum err update_make_open(const struct update_make *m, uint8_t *bytes, size_t len,
	struct update_made *out, struct why *why) MUST_CHECK;
/* Takes the merged form in place of the bundle where that has fewer bytes; then everybody steps by
 * what it says.  Errors of update_merge and update_verify; made is then to be released only. */
enum err update_make_smaller(
	const struct update_make *m, struct update_made *made, struct why *why) MUST_CHECK;

void update_make_release(struct update_made *made); /* NULL-safe, idempotent */

#endif
