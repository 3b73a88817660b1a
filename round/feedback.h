/*
 * What one peer keeps for one shard between the global replica G and its working copy W: base (G
 * when W was last joined to it), the error feedback e, and what is in flight.  Design: a cut keeps
 * c = W, forms v = beta e + (base - c) and sends C = codec(v); when the round's update has come,
 * e <- v - what the ledger lists of C, W <- G + (W - c), base <- G.  So every inner step counts
 * once and training need not stop for the network.  (After a codec that loses nothing, e is exactly
 * 0, or what was late.)  Where the rule takes parameters v is c and there is no e.  At most one
 * contribution is in flight.  One thread at a time.
 */
#ifndef ROUND_FEEDBACK_H
#define ROUND_FEEDBACK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "compress/codec.h"
#include "model/statefile.h"
#include "round/rule.h"

struct feedback;

struct feedback_config {
	struct codec_params codec;
	const struct rule_row *rule;
	double decay; /* beta */
	uint32_t shard;
	size_t n;
};

/* base is G now (copied), e is 0.  ERR_nomem. */
enum err feedback_new(
	const struct feedback_config *config, const float *g, struct feedback **out) MUST_CHECK;
void feedback_free(struct feedback *f); /* NULL-safe */

/* The cut: w is W (n values, copied); planes (inited by the caller) receive C.  seed: of the places
 * of a codec that draws them (contribution_seed), ignored by the others.  ERR_state while one is in
 * flight; ERR_not_finite when W is; ERR_nomem.  After a failure nothing is in flight and e is as
 * it was. */
enum err feedback_cut(struct feedback *f, uint64_t seed, const float *w, struct planes *planes,
	struct why *why) MUST_CHECK;
bool feedback_in_flight(const struct feedback *f);
/* How many values of a chunk the cuts from now on keep, from 1 to the codec's k; at first that. */
void feedback_keep(struct feedback *f, uint32_t k);

/* The round's update has been applied and G is now g.  Joins W to it, in place.  accepted: the
 * ledger lists what was in flight; else it was late or refused, and travels with the next one.
 * Without anything in flight what W has made since base stays in it for the next cut.  ERR_nomem:
 * nothing has changed. */
enum err feedback_join(struct feedback *f, bool accepted, const float *g, float *w) MUST_CHECK;
/* Without anything in flight: drops what W has made since base.  W becomes g. */
void feedback_rebase(struct feedback *f, const float *g, float *w);
/* Gives up what was not yet sent: W becomes g, e zero (a replica repaired or rolled back). */
void feedback_reset(struct feedback *f, const float *g, float *w);

double feedback_error_norm(const struct feedback *f); /* of e, for the page; 0 without one */

/* Sections "base.N", "error.N" (where there is an e) and, in flight, "cut.N" and "sent.N" (the
 * planes): restores exactly.
 * Loading replaces everything in f; ERR_shape, ERR_missing, ERR_not_finite leave f not to be
 * used. */
enum err feedback_save(
	const struct feedback *f, struct statefile_out *to, struct why *why) MUST_CHECK;
enum err feedback_load(
	struct feedback *f, const struct statefile *from, struct why *why) MUST_CHECK;

#endif
