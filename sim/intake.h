/*
 * The contributions of the open round: what hub_gate does in a real coordinator, in one step.  The
 * gate looks at each; what passes and the round machine asked for is kept in the archive's blobs.
 */
#ifndef SIM_INTAKE_H
#define SIM_INTAKE_H
#include <stdint.h>
#include "base/err.h"
#include "coordinator/rounds.h"
#include "net/roster.h"
#include "sim/archive.h"

struct intake_arrival {
	bool have;
	struct hash id, blob;
};

struct intake {
	const struct spec *spec; /* borrowed, as the next three */
	struct archive *archive;
	struct rounds *rounds;
	const struct roster *roster;
	uint32_t members;               /* numbers are below this */
	struct intake_arrival *arrived; /* of each member and shard */
	uint64_t bytes;                 /* accepted in the open round */
	/* for a round that is closed: */
	uint32_t *counts;
	struct closing_input **inputs;
};

void intake_init(struct intake *in);    /* the borrowed fields and members are set */
void intake_release(struct intake *in); /* idempotent */

/* A contribution that came by this member's connection: ERR_OK, ERR_duplicate, or why it is
 * refused, with the gate's codes.  *own: the fault is ours, and the run cannot go on. */
enum err intake_take(struct intake *in, uint32_t member, const struct shared *bytes, uint64_t now,
	bool *own, struct why *why) MUST_CHECK;
/* It is out of the round, with what it has delivered. */
enum err intake_drop(struct intake *in, uint32_t member, struct why *why) MUST_CHECK;
/* All that is in; valid until the next call. */
struct archive_round intake_round(struct intake *in);
void intake_clear(struct intake *in); /* the round is closed, its blobs are gone */

#endif
