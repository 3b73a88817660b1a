/*
 * Where a peer stands in a run: the working copy with its moments (trainer), the global replica G,
 * what lies between them (error feedback), and the ledger from where this peer began.  The steps of
 * a round as plain calls; peer/worker.c runs them on a thread.  Single-threaded.
 */
#ifndef PEER_STANDING_H
#define PEER_STANDING_H
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "net/roster.h"
#include "net/sign.h"
#include "peer/trainer.h"
#include "round/feedback.h"
#include "round/ledger.h"
#include "round/plan.h"
#include "round/record.h"
#include "round/replica.h"

struct standing;

struct standing_config {
	const struct spec *spec; /* borrowed, as corpus and key; all outlive the object */
	const struct corpus *corpus;
	const struct sign_key *key;
	const char *dir; /* folder of the saved states */
	const char *backend;
	unsigned threads;
};

/* Checks the spec's rule and codec, opens the device, takes the memory.  Stands nowhere yet. */
enum err standing_new(
	const struct standing_config *config, struct standing **out, struct why *why) MUST_CHECK;
void standing_free(struct standing *s); /* NULL-safe */
struct trainer *standing_trainer(struct standing *s);

/* This peer's own newest good state of this run; ERR_missing when there is none. */
enum err standing_resume(struct standing *s, struct why *why) MUST_CHECK;
/* A snapshot that must stand exactly at `at`; moments are zero and the learning rate will ramp. */
enum err standing_begin(struct standing *s, const char *snapshot, const struct ledger_head *at,
	struct why *why) MUST_CHECK;
struct ledger_head standing_head(const struct standing *s);
struct hash standing_state(const struct standing *s); /* of all shards of the replica */

/* The learning rate of the next inner step: step (from 0) of plan->steps.  A joiner's ramps over
 * its first ten steps. */
double standing_lr(const struct standing *s, const struct plan *plan, uint64_t step);

/* Cut one shard: the contribution's bytes are appended to out.  done: what was trained, a prefix of
 * the plan's spans. */
enum err standing_cut(struct standing *s, const struct plan *plan, uint32_t shard,
	const struct span *done, uint32_t n_done, struct buf *out, struct why *why) MUST_CHECK;

struct standing_record { /* as round/record.h encodes it */
	const uint8_t *bytes;
	size_t len;
};
/* Entries with updates, which must lead to head: verifies every signature by the roster, applies,
 * compares state hashes, joins the working copy.  On failure the standing is not to be used any
 * more: begin from a snapshot. */
enum err standing_apply(struct standing *s, const struct standing_record *records, size_t n,
	const struct ledger_head *head, const struct roster *roster, struct why *why) MUST_CHECK;

/* Everything that an exact resume needs; the two newest states are kept. */
enum err standing_save(struct standing *s, struct why *why) MUST_CHECK;

#endif
